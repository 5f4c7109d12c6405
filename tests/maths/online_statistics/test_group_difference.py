"""Treatment against control: the same bits for any cut, valid states, coverage, and the control variate."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from glbandits.common.arrays import Floats
from glbandits.maths.online_statistics.group_difference import BLOCK, GroupDifference, UnitRows

ALARM, RATIO_ALARM = math.log(20.0), math.log(100.0)


def rows_of(
    seed: int, blocks: int, *, share: float = 0.1, rates: tuple[float, float] = (0.05, 0.05), strength: float = 0.0
) -> UnitRows:
    """Units with values 0 and 1; `rates` are those of control and treatment, `strength` that of the first covariate."""
    rng, n = np.random.default_rng(seed), blocks * BLOCK
    treated = rng.random(n) >= share
    covariates = rng.normal(size=(n, 2))
    factor = np.exp(strength * covariates[:, 0] - strength**2 / 2.0)
    values = rng.random(n) < np.where(treated, rates[1], rates[0]) * factor
    return UnitRows(treated, np.full(n, share), values.astype(np.float64), covariates, np.zeros(n, dtype=bool))


def part_of(rows: UnitRows, first: int, last: int) -> UnitRows:
    return rows.at(slice(first * BLOCK, last * BLOCK))


def compared(*parts: UnitRows) -> GroupDifference:
    difference = GroupDifference()
    for part in parts:
        difference.add(part)
    return difference


@st.composite
def any_rows(draw: st.DrawFn) -> UnitRows:
    n = BLOCK * draw(st.integers(0, 4))
    shares = st.sampled_from([0.01, 0.05, 0.1, 0.3, 0.5])
    covariates = st.sampled_from([0.0, 1.0, -1.0, 1e-12, 1e9, 1e9 + 1.0, -1e300, math.inf, math.nan])
    return UnitRows(
        draw(st_numpy.arrays(np.bool_, n)),
        draw(st_numpy.arrays(np.float64, n, elements=shares)),
        draw(st_numpy.arrays(np.float64, n, elements=st.sampled_from([0.0, 1.0, 0.25, 1e-9, math.nan]))),
        draw(st_numpy.arrays(np.float64, (n, 2), elements=covariates)),
        draw(st_numpy.arrays(np.bool_, n)),
    )


@given(any_rows(), st.lists(st.integers(0, 4)))
@settings(max_examples=60, deadline=None)
def test_any_cut_and_any_values_give_the_same_valid_interval(rows: UnitRows, cuts: list[int]) -> None:
    blocks = len(rows.treated) // BLOCK
    whole, cut, last = compared(rows), GroupDifference(), 0
    for end in [*sorted(min(cut, blocks) for cut in cuts), blocks]:
        cut.add(part_of(rows, last, end))
        cut, last = GroupDifference.from_state(cut.state()), end
    assert cut.state() == whole.state()
    assert all(math.isfinite(number) for number in whole.state())
    assert len(whole.state()) == len(GroupDifference().state())
    low, high = whole.interval()
    assert -1.0 <= low <= high <= 1.0
    assert whole.treatment.units + whole.control.units == np.count_nonzero(~np.isnan(rows.values))
    assert whole.units == sum(whole.assigned) == len(rows.treated)
    for higher_is_good in (True, False):
        assert math.isfinite(whole.log_evidence(0.1, higher_is_good=higher_is_good))
    assert math.isfinite(whole.log_evidence_of_ratio())
    assert math.isfinite(whole.log_evidence_of_missing())


def test_interval_agrees_with_the_alarm() -> None:
    fall = compared(rows_of(1, 200, share=0.3, rates=(0.6, 0.4)))
    low, high = fall.interval()
    assert low < fall.mean < high < 0.0
    assert (
        fall.log_evidence(-high - 1e-6, higher_is_good=True)
        > ALARM
        > fall.log_evidence(-high + 1e-6, higher_is_good=True)
    )
    rise = compared(rows_of(1, 200, share=0.3, rates=(0.4, 0.6)))
    low = rise.interval()[0]
    assert (
        rise.log_evidence(low - 1e-6, higher_is_good=False)
        > ALARM
        > rise.log_evidence(low + 1e-6, higher_is_good=False)
    )


def test_group_means_and_errors() -> None:
    rows = rows_of(2, 40, rates=(0.5, 0.2))
    difference = compared(rows)
    groups = ((difference.control, ~rows.treated), (difference.treatment, rows.treated))
    for group, members in ((group, rows.values[is_member]) for group, is_member in groups):
        assert group.units == len(members)
        assert group.mean == pytest.approx(members.mean())
        assert group.error == pytest.approx(members.std(ddof=1) / math.sqrt(len(members)))
    empty = GroupDifference()
    assert (empty.units, empty.control.units, empty.interval()) == (0, 0, (-1.0, 1.0))
    assert math.isnan(empty.mean)
    assert math.isnan(compared(part_of(rows, 0, 1)).mean)  # the first block has no terms
    assert math.isfinite(compared(part_of(rows, 0, 2)).mean)
    assert math.isnan(empty.control.mean)


def test_estimate_without_covariates_is_the_difference_of_means() -> None:
    rows = rows_of(3, 400, share=0.2, rates=(0.5, 0.3))
    difference = compared(rows._replace(covariates=np.zeros_like(rows.covariates)))
    assert difference.mean == pytest.approx(difference.treatment.mean - difference.control.mean, abs=2e-3)


def test_equal_values_have_no_difference() -> None:
    rows = rows_of(5, 20, share=0.05)
    for value in (0.0, 1.0, 0.001):
        difference = compared(rows._replace(values=np.full_like(rows.values, value)))
        assert difference.mean == pytest.approx(0.0, abs=1e-12)


def with_useful_covariate(rows: UnitRows, scale: float = 1.0, effect: float = 0.0) -> tuple[UnitRows, UnitRows]:
    """The same units with a covariate that tells most of their values, and without."""
    noise = np.random.default_rng(5).normal(size=len(rows.values))
    values = np.clip(0.5 + 0.3 * rows.covariates[:, 0] + 0.05 * noise + effect * rows.treated, 0.0, 1.0)
    useful = rows._replace(values=values, covariates=scale * (3.0 + rows.covariates[:, ::-1]))
    return useful, useful._replace(covariates=np.zeros_like(rows.covariates))


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e90])
def test_useful_covariate_narrows_the_interval(scale: float) -> None:
    useful, without = (compared(rows) for rows in with_useful_covariate(rows_of(4, 200, share=0.2), scale))
    assert np.ptp(useful.interval()) < 0.5 * np.ptp(without.interval())
    assert useful.mean == pytest.approx(without.mean, abs=0.02)


@pytest.mark.parametrize("kind", ["noise", "constant", "heavy", "copies"])
def test_useless_covariate_hardly_widens_the_interval(kind: str) -> None:
    rows = rows_of(6, 200, share=0.1, rates=(0.2, 0.2))
    noise = np.random.default_rng(7).standard_cauchy(size=rows.covariates.shape)
    covariates: Floats = {
        "noise": rows.covariates,
        "constant": np.full_like(noise, 0.1),
        "heavy": noise * 1e80,
        "copies": np.repeat(rows.covariates[:, :1], 2, axis=1),
    }[kind]
    width = np.ptp(compared(rows._replace(covariates=covariates)).interval())
    assert width < 1.02 * np.ptp(compared(rows._replace(covariates=np.zeros_like(noise))).interval())


def test_wrong_sample_ratio_is_found() -> None:
    wrong = rows_of(8, 300, share=0.12)
    assert compared(wrong).log_evidence_of_ratio() < RATIO_ALARM
    assert compared(wrong._replace(share=np.full_like(wrong.share, 0.1))).log_evidence_of_ratio() > RATIO_ALARM


def with_missing(rows: UnitRows, seed: int, shares: tuple[float, float]) -> UnitRows:
    """Take away the values of random units; `shares` are those of control and treatment."""
    missing = np.random.default_rng(seed).random(len(rows.values)) < np.where(rows.treated, shares[1], shares[0])
    return rows._replace(values=np.where(missing, math.nan, rows.values), missing=missing)


def test_values_that_are_missing_in_one_group_are_found() -> None:
    rows = rows_of(8, 100, rates=(0.3, 0.3))
    found = compared(with_missing(rows, 1, (0.0, 0.1)))
    assert found.log_evidence_of_missing() > RATIO_ALARM > found.log_evidence_of_ratio()
    assert found.missing_shares[0] == pytest.approx(0.1, abs=0.01)
    assert found.missing_shares[1] == 0.0
    assert found.units == 3_200
    assert max(found.log_evidence(0.0, higher_is_good=good) for good in (False, True)) < ALARM
    assert compared(with_missing(rows, 1, (0.1, 0.1))).log_evidence_of_missing() < RATIO_ALARM


def test_a_state_from_before_missing_values_were_counted_continues() -> None:
    rows = rows_of(9, 4)
    state = compared(part_of(rows, 0, 2)).state()
    before = (3.0, *state[1:3], *state[3 + 4 + 12 :])
    continued = GroupDifference.from_state(before)
    continued.add(part_of(rows, 2, 4))
    assert continued.state() == compared(rows).state()


def test_incomplete_block_and_foreign_state_are_refused() -> None:
    difference = compared(rows_of(9, 1))
    with pytest.raises(ValueError, match="multiple"):
        difference.add(rows_of(9, 1)._replace(treated=np.ones(5, dtype=bool)))
    assert difference.units == BLOCK
    for state in ((), (0.0, *difference.state()[1:]), difference.state()[:-1]):
        with pytest.raises(ValueError, match="version"):
            GroupDifference.from_state(state)


@pytest.mark.statistics
@pytest.mark.parametrize(("share", "rate", "strength"), [(0.05, 0.05, 0.0), (0.5, 0.3, 0.5)])
def test_false_alarms_and_coverage_at_all_looks(share: float, rate: float, strength: float) -> None:
    """Each bound may be wrong in 5 % of 40 loops; more than 7 has a probability below 0.1 %."""
    alarms = {True: 0, False: 0}
    outside, ratio = 0, 0
    for seed in range(40):
        rows = rows_of(seed, 100, share=share, rates=(rate, rate), strength=strength)
        difference, looks = GroupDifference(), []
        for block in range(100):
            difference.add(part_of(rows, block, block + 1))
            looks.append([difference.log_evidence(0.0, higher_is_good=good) for good in (True, False)])
            ratio_alarm = difference.log_evidence_of_ratio() > RATIO_ALARM
        highest = np.max(looks, axis=0)
        alarms[True] += highest[0] > ALARM
        alarms[False] += highest[1] > ALARM
        low, high = difference.interval()
        outside += not low <= 0.0 <= high
        ratio += ratio_alarm
    assert max(*alarms.values(), outside, ratio) <= 7


def test_fall_is_found_earlier_with_a_covariate() -> None:
    units = []
    for rows in with_useful_covariate(rows_of(7, 200, share=0.2), effect=-0.04):
        difference = GroupDifference()
        while difference.log_evidence(0.0, higher_is_good=True) < ALARM:
            difference.add(part_of(rows, difference.units // BLOCK, difference.units // BLOCK + 1))
        units.append(difference.units)
    assert units[0] < 0.7 * units[1]
