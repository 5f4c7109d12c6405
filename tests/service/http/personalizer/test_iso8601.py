"""Durations, there and back."""

from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glbandits.common.errors import InvalidInput
from glbandits.service.http.personalizer.iso8601 import duration_text, parse_duration


@given(st.integers(0, 60 * 24 * 3600 * 1_000_000))
def test_durations_round_trip(microseconds: int) -> None:
    text = duration_text(microseconds / 1e6)
    assert round(parse_duration("wait", text) * 1e6) == microseconds


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_normalized_texts_round_trip(d: int, h: int, m: int, s: int) -> None:
    clock = "".join(f"{count}{unit}" for count, unit in ((h, "H"), (m, "M"), (s, "S")) if count)
    text = "P" + (f"{d}D" if d else "") + (f"T{clock}" if clock else "")
    if text != "P":
        assert parse_duration("wait", text) == timedelta(days=d, hours=h, minutes=m, seconds=s).total_seconds()
        assert duration_text(parse_duration("wait", text)) == text


@given(st.text(max_size=12))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    with suppress(InvalidInput):
        assert duration_text(abs(parse_duration("wait", text)))[0] == "P"


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "10M", "P1Y", "P1M", "P1W", "600", "PT5", "PT1e3S", "PT9" + "9" * 30 + "S"]
)
def test_months_and_years_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="rewardWaitTime must be an ISO 8601 duration"):
        parse_duration("rewardWaitTime", text)
