from typing import Any

import pytest

from glbandits.features.hashing import feature_codes
from glbandits.features.hashing.feature_codes import FeatureCodes


def test_number_of_cached_features_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_codes, "MAX_CACHED", 10)
    codes = FeatureCodes(seed=0)
    values: list[Any] = [value for i in range(50) for value in (f"text {i}", i, i / 7)]
    for i, value in enumerate(values):
        codes.encode(f"space {i % 3}", f"name {i}", value)
        assert sum(len(codes.cached(f"space {space}")) for space in range(3)) <= 10


@pytest.mark.parametrize(
    ("space", "name", "value"),
    [("", "a", "x" * 65), ("", "x" * 65, "a"), ("", "x" * 65, 1), ("", "x" * 65, 1.5), ("x" * 65, "a", 1)],
)
def test_long_features_are_not_cached(space: str, name: str, value: object) -> None:
    """Otherwise 200,000 features could take 50 GB."""
    codes = FeatureCodes(seed=0)
    assert codes.encode(space, name, value) == codes.encode(space, name, value)
    assert codes.cached(space) == {}
