"""LoopEvidence of a loop: the formula at every decision, segments, and what is left out."""

import math
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from glbandits.service.domain.events import Aggregation, Group, Mode, SettledDecision
from glbandits.service.domain.evidence import GRID, VERSION, LoopEvidence, Segment
from glbandits.service.domain.model_snapshots import Snapshot, decode_snapshot, encode_snapshot
from tests.service.domain.simulated_loops import compared, log_evidence, settled, simulated
from tests.service.helpers import decision

UNLIMITED = (-math.inf, math.inf)
MEANS = (0.3, 0.4, 0.5)


def one_loop(decisions: int, seed: int = 0) -> list[SettledDecision]:
    probabilities, shown, rewards = simulated(1, decisions, MEANS, seed)
    return settled(probabilities[0], shown[0], rewards[0])


def fed(rows: list[SettledDecision], batch: int, start: LoopEvidence | None = None) -> LoopEvidence:
    evidence = start or LoopEvidence()
    for first in range(0, len(rows), batch):
        evidence = evidence.extended_by(rows[first : first + batch], UNLIMITED)
    return evidence


def both_sides(segment: Segment) -> list[float]:
    sequence = segment.sequence()
    return [sequence.above.log_evidence(0.0), sequence.below.log_evidence(0.0)]


def only(**changed: Any) -> SettledDecision:
    values: dict[str, Any] = {"reward_range": (0.0, 1.0)} | changed
    return SettledDecision(1, decision("e", **values), ((5, 1.0),), activated=False)


def test_evidence_equals_the_formula_at_every_batch() -> None:
    probabilities, shown, rewards = simulated(2, 2500, MEANS, seed=1)
    baseline = compared(probabilities, shown, rewards, (1.0, 0.0, 0.0))
    of_all = list(log_evidence(baseline))
    of_uniform = list(log_evidence(compared(probabilities, shown, rewards, 3 * (1.0 / 3.0,))))
    of_present = {split: list(log_evidence(baseline.after(split))) for split in (512, 1024)}
    for loop in range(2):
        rows, evidence = settled(probabilities[loop], shown[loop], rewards[loop]), LoopEvidence()
        for stop in np.random.default_rng(2).integers(1, 90, size=40).cumsum().tolist():
            evidence = evidence.extended_by(rows[evidence.past.decisions : stop], UNLIMITED)
            last = evidence.past.decisions - 1
            assert both_sides(evidence.past) == pytest.approx([side[loop, last] for side in of_all], abs=1e-9)
            assert both_sides(evidence.uniform) == pytest.approx([side[loop, last] for side in of_uniform], abs=1e-9)
            if evidence.present is not None:
                split = 512 if last < 2047 else 1024
                expected = [side[loop, last - split] for side in of_present[split]]
                assert both_sides(evidence.present) == pytest.approx(expected, abs=1e-9)


def test_batches_of_any_size_give_the_same_evidence() -> None:
    rows = one_loop(1200)
    one, other = fed(rows, 1200), fed(rows, 7)
    assert other.past.state == pytest.approx(one.past.state, abs=1e-9)
    assert one.present is not None
    assert other.present is not None
    assert other.present.state == pytest.approx(one.present.state, abs=1e-9)
    assert replace(other.past, state=()) == replace(one.past, state=())
    assert (other.rewards, other.segments) == (one.rewards, 2)


@pytest.mark.parametrize(
    ("decisions", "present", "segments"), [(1023, 0, 1), (1024, 512, 2), (2047, 1535, 2), (2048, 1024, 3)]
)
def test_present_has_as_many_decisions_as_came_before(decisions: int, present: int, segments: int) -> None:
    evidence = fed(one_loop(decisions), 100)
    assert evidence.past.decisions == decisions
    assert (evidence.present.decisions if evidence.present else 0) == present
    assert evidence.segments == segments


def test_new_model_resets_the_present_and_keeps_the_past() -> None:
    rows = one_loop(2400)
    evidence = fed(rows[:1200], 100).for_new_model()
    assert (evidence.present, evidence.past.decisions) == (None, 1200)
    evidence = fed(rows[1200:], 100, evidence)
    assert evidence.past.state == pytest.approx(fed(rows, 100).past.state)
    assert evidence.present is not None
    assert (evidence.present.decisions, evidence.present.index, evidence.segments) == (688, 2, 4)
    assert evidence.present.first == 1_000_000 * 1712


def test_evidence_of_an_earlier_version_is_dropped() -> None:
    evidence = replace(fed(one_loop(10), 10), version=VERSION - 1)
    assert decode_snapshot(encode_snapshot(Snapshot(1, 2, b"", evidence=evidence))).evidence == LoopEvidence()


def test_changed_grid_needs_a_new_version() -> None:
    """Services have saved states. If this fails, increase VERSION and write the new numbers here."""
    grid = (VERSION, len(GRID.bets), round(float(GRID.bets.sum()), 9), round(float(GRID.bets @ GRID.log_shares), 9))
    assert grid == (2, 12, 0.49987793, -1.4785464)


@pytest.mark.parametrize(
    ("changed", "counts"),
    [
        ({}, (1, 0, 0)),
        ({"mode": Mode.LOGGING}, (0, 0, 0)),
        ({"deferred": True}, (0, 0, 0)),
        ({"mode": Mode.APPRENTICE}, (0, 0, 1)),
        ({"reward_range": None}, (0, 1, 0)),
    ],
)
def test_only_decisions_with_evidence_count(changed: dict[str, Any], counts: tuple[int, ...]) -> None:
    evidence = LoopEvidence().extended_by([only(**changed)], UNLIMITED)
    assert (evidence.past.decisions, evidence.unlimited, evidence.apprentice) == counts


def test_limits_of_the_link_are_the_default() -> None:
    evidence = LoopEvidence().extended_by([only(reward_range=None)], (0.0, 1.0))
    assert (evidence.past.decisions, evidence.past.scale_sum) == (1, 1.0)


def test_sum_beyond_the_limits_counts_as_the_limit() -> None:
    rows = SettledDecision(
        1, decision("e", aggregation=Aggregation.SUM, reward_range=(-1.0, 1.0)), ((5, 1.0), (6, 1.0)), activated=False
    )
    assert LoopEvidence().extended_by([rows], UNLIMITED).past.reward_sum == 1.0


def test_decisions_without_support_are_counted() -> None:
    """The bounds assume the best and the worst of it: with all rewards 1, the difference is between 0 and 1."""
    evidence = LoopEvidence().extended_by(2000 * [only(probabilities=(0.0, 0.5, 0.5))], UNLIMITED)
    low, high = evidence.past.sequence().interval(0.95)
    assert low < 0.0 < 0.9 < high
    assert evidence.past.unsupported == 2000


def test_actions_of_probability_0_are_left_out() -> None:
    evidence = LoopEvidence().extended_by([only(probability=0.0, probabilities=(0.0, 1.0))], UNLIMITED)
    assert evidence == LoopEvidence()


@pytest.mark.parametrize("undrawn", [{"group": Group.CONTROL}, {"fallback": True}, {"repeats": "e0"}])
def test_decisions_that_were_not_drawn_do_not_count(undrawn: dict[str, Any]) -> None:
    rows = one_loop(700)
    mixed = [each for row in rows for each in (row, replace(row, decision=replace(row.decision, **undrawn)))]
    assert fed(mixed, 50) == fed(rows, 25)
    treated = [replace(row, decision=replace(row.decision, group=Group.TREATMENT, control_share=0.1)) for row in rows]
    assert fed(treated, 25) == fed(rows, 25)
