"""Durations, there and back."""

from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.durations import duration_text, parse_duration


@given(st.integers(0, 60 * 24 * 3600 * 1_000_000))
def test_durations_round_trip(microseconds: int) -> None:
    text = duration_text(microseconds / 1e6)
    assert round(parse_duration("wait", text, at_most=1e9) * 1e6) == microseconds


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_normalized_texts_round_trip(d: int, h: int, m: int, s: int) -> None:
    clock = "".join(f"{count}{unit}" for count, unit in ((h, "H"), (m, "M"), (s, "S")) if count)
    text = "P" + (f"{d}D" if d else "") + (f"T{clock}" if clock else "")
    if text != "P":
        assert (
            parse_duration("wait", text, at_most=1e9)
            == timedelta(days=d, hours=h, minutes=m, seconds=s).total_seconds()
        )
        assert duration_text(parse_duration("wait", text, at_most=1e9)) == text


@given(st.text(max_size=12))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    with suppress(InvalidInput):
        assert duration_text(abs(parse_duration("wait", text, at_most=1e9)))[0] == "P"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("5s", 5), ("2m", 120), ("10min", 600), ("1.5h", 5400), ("1d", 86400), ("PT5M", 300), ("600", 600), (0.25, 0.25)],
)
def test_durations_have_units(value: float | str, seconds: float) -> None:
    assert parse_duration("rewardWait", value, at_most=1e9) == seconds


@pytest.mark.parametrize(
    "value",
    [
        *("", "P", "PT", "10M", "5 weeks", "P1Y", "P1M", "P1W", "-5s", "PT5", "PT1e3S", "PT9" + "9" * 30 + "S"),
        *("-PT5M", "12d", True, -1, 10**400, float("nan")),
    ],
)
def test_other_values_are_refused_as_they_were_sent(value: float | str) -> None:
    with pytest.raises(InvalidInput, match="rewardWait must be a duration of at most 10d") as refused:
        parse_duration("rewardWait", value, at_most=864_000)
    assert str(refused.value).endswith(f"; got {value!r}"[:46])
