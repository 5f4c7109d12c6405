import pytest
from hypothesis import given
from hypothesis import strategies as st

from glbandits.common.errors import InvalidInput
from glbandits.service.http.auth import RateLimit


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


GAPS = st.lists(st.floats(0.0, 3.0), min_size=1, max_size=200)
RATES = st.floats(0.01, 50.0)


@given(RATES, GAPS)
def test_no_period_exceeds_the_rate_and_a_burst(rate: float, gaps: list[float]) -> None:
    clock = Clock()
    limit, taken = RateLimit(rate, clock=clock), list[float]()
    for gap in gaps:
        clock.now += gap
        if not limit.acquire("shop"):
            taken.append(clock.now)
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            allowed = max(1.0, rate) + rate * (taken[last] - taken[first])
            assert last - first + 1 <= allowed + 1e-6


@given(RATES, GAPS)
def test_a_request_after_the_wait_is_allowed(rate: float, gaps: list[float]) -> None:
    clock = Clock()
    limit = RateLimit(rate, clock=clock)
    for gap in gaps:
        clock.now += gap
        if wait := limit.acquire("shop"):
            clock.now += wait * (1 + 1e-9) + 1e-9
            assert not limit.acquire("shop")


def test_names_have_separate_limits() -> None:
    limit = RateLimit(1.0, clock=Clock())
    assert limit.acquire("a") == limit.acquire("b") == 0.0
    assert limit.acquire("a") == 1.0


def test_zero_is_no_limit() -> None:
    limit = RateLimit(0.0, clock=Clock())
    assert not any(limit.acquire("a") for _ in range(1000))


def test_a_rate_below_zero_is_refused() -> None:
    with pytest.raises(InvalidInput, match="rate_limit must be a finite number at least 0"):
        RateLimit(-1.0)
