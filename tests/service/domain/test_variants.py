"""The variants of a flag: their checks, and the request that they make."""

from typing import Any

import msgspec
import pytest

from glbandits.common.errors import InvalidInput, UnknownName
from glbandits.service.domain.groups.experiment import Control
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.variants import Variant, flag_request

RED, GREEN = Variant(value="#f00", features={"hue": 0.0}), Variant(value="#0f0", worth=2.0)

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"variants": {"a": Variant(value=True), "b": Variant(value="x")}}, "values of one type; got boolean, text"),
    ({"variants": {"a": Variant(value=1), "b": Variant(value={})}}, "values of one type; got number, object"),
    ({"variants": {"": RED}}, "must have 1 to 256 characters"),
    ({"variants": {"a\0": RED}}, "must have 1 to 256 characters"),
    ({"variants": {str(index): RED for index in range(51)}}, "may have 50 variants; got 51"),
    ({"variants": {"a": Variant(value=1, features={"x": [{}, 1]})}}, "features of variant 'a'"),
    ({"variants": {"a": Variant(value=1, worth=-1.0)}}, "worth of variant 'a'"),
    ({"variants": {"a": Variant(value=1, retired=True), "b": Variant(value=2)}}, "must not be retired; got 'a'"),
    ({"variants": {"a": RED}, "control": Control(share=0.1, by="event")}, "needs a control group by unit"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG)
def test_unusable_variants_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        LoopConfig(**settings)


def test_an_unknown_default_variant_is_refused() -> None:
    with pytest.raises(UnknownName, match="'blue'"):
        LoopConfig(variants={"red": RED}, default_variant="blue")
    with pytest.raises(UnknownName, match="'blue'"):
        LoopConfig(default_variant="blue")


@pytest.mark.parametrize("value", [True, "text", 3, 2.0, {"size": [1, {"a": None}]}])
def test_a_value_keeps_its_type_in_the_store(value: Any) -> None:
    stored = msgspec.json.encode(LoopConfig(variants={"a": Variant(value=value)}))
    kept = msgspec.json.decode(stored, type=LoopConfig).variants["a"].value
    assert (kept, type(kept)) == (value, type(value))


def test_retired_variants_are_excluded_and_the_default_is_the_baseline() -> None:
    variants = {"red": RED, "green": GREEN, "blue": Variant(value="#00f", retired=True)}
    request = flag_request(variants, "green", "ann", {"plan": "free"}, deferred=False)
    assert request.actions == ("red", "green", "blue")
    assert (request.excluded, request.baseline) == ((2,), 1)
    assert (request.values, request.costs) == ((1.0, 2.0, 1.0), (0.0, 0.0, 0.0))
    assert (request.unit, request.sticky) == ("ann", True)
    assert b"ann" not in request.request


def test_variants_without_payoffs_make_a_request_without_payoffs() -> None:
    request = flag_request({"red": RED, "blue": Variant(value="#00f")}, None, "ann", {}, deferred=True)
    assert (request.values, request.costs, request.baseline, request.deferred) == (None, None, 0, True)
