"""A column that was known only after the decision: only targets that depend on it lose their verdict."""

import numpy as np
import pytest

from glbandits import Optimist
from glbandits.common.arrays import Floats
from glbandits.evaluation import CrossedArms, LoggedData, evaluate, promotion
from glbandits.evaluation.logs.doubts import DoubtKind, Withheld, reason_to_withhold
from glbandits.evaluation.promotion_result import Verdict

ROWS, MEANS = 3000, np.array([0.1, 0.4, 0.1])
TRUTH = {"uniform": 0.2, "b": 0.4}


def log_with(column: str, *, wrong_propensities: bool = False) -> LoggedData:
    """A log of three arms with an honest column, and one that depends on the reward."""
    rng = np.random.default_rng(3)
    honest = rng.normal(size=ROWS)
    p = np.full((ROWS, 3), 1 / 3)
    if wrong_propensities:
        p = p + np.sign(honest)[:, np.newaxis] * np.array([1.0, 0.0, -1.0]) / 6
    chosen = np.minimum(2, (rng.random((ROWS, 1)) > np.cumsum(p, axis=1)).sum(axis=1))
    rewards = (rng.random(ROWS) < MEANS[chosen] + 0.05 * (honest > 0.0)).astype(float)
    late = {
        "status": rewards,
        "noisy": rewards + 0.5 * rng.normal(size=ROWS),
        "of arm and reward": rewards * (1.0 + chosen),
    }[column]
    return LoggedData(
        chosen=chosen,
        rewards=rewards,
        probabilities=np.full((ROWS, 3), 1 / 3),
        arms=CrossedArms(np.column_stack([honest, late]), np.eye(3)),
        arm_names=("a", "b", "c"),
    )


def reads_late(block: LoggedData) -> Floats:
    assert isinstance(block.arms, CrossedArms)
    arms: Floats = np.eye(3)[(block.arms.contexts[:, 1] > 0.5).astype(int)]
    return arms


def reads_honest(block: LoggedData) -> Floats:
    assert isinstance(block.arms, CrossedArms)
    arms: Floats = np.eye(3)[(block.arms.contexts[:, 0] > 0.5).astype(int)]
    return arms


def reads_nothing(block: LoggedData) -> Floats:
    return np.tile([0.0, 1.0, 0.0], (len(block), 1))


@pytest.mark.parametrize("column", ["status", "noisy"])
def test_only_targets_that_read_a_leaked_column_lose_their_verdict(column: str) -> None:
    results = evaluate(
        log_with(column), {"uniform": "uniform", "b": "b", "late": reads_late, "honest": reads_honest}, "dr"
    )
    withheld = {name: reason_to_withhold(each.doubts, Withheld.ALL) for name, each in results.items()}
    assert [name for name, reason in withheld.items() if reason] == ["late"]
    for name, truth in TRUTH.items():
        assert abs(results[name]["dr"].value - truth - 0.025) < 4 * results[name]["dr"].standard_error
        assert [doubt.kind for doubt in results[name].doubts] == [DoubtKind.LEAK]


def test_difference_from_a_reference_that_reads_a_leaked_column_is_withheld() -> None:
    results = evaluate(log_with("status"), {"late": reads_late, "b": "b"}, "dr", reference="late")
    headline = results["b"].headline
    assert headline is not None
    assert headline.difference is not None
    assert np.isnan(headline.difference.value)
    assert not np.isnan(headline.gain.value)


def test_wrong_propensities_withhold_all_verdicts() -> None:
    results = evaluate(log_with("noisy", wrong_propensities=True), {"uniform": "uniform", "b": "b"}, "dr")
    assert all(reason_to_withhold(each.doubts, Withheld.ALL) for each in results.values())


def test_column_that_the_reward_does_not_explain_withholds_all_verdicts() -> None:
    result = evaluate(log_with("of arm and reward"), "uniform", "dr")
    assert reason_to_withhold(result.doubts, Withheld.ALL)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_strong_predictor_with_wrong_propensities_withholds_all_verdicts(share: float) -> None:
    """A column that is known before tells the reward almost exactly, and the logger chose b where it is high."""
    rng = np.random.default_rng(5)
    known = rng.normal(size=ROWS)
    scores = np.exp(known[:, np.newaxis] * np.array([-share, 1.0, -1.0]))
    p = scores / scores.sum(axis=1, keepdims=True)
    chosen = np.minimum(2, (rng.random((ROWS, 1)) > np.cumsum(p, axis=1)).sum(axis=1))
    arms = CrossedArms(np.column_stack([known, rng.normal(size=ROWS)]), np.eye(3))
    rewards = known + 0.3 * rng.normal(size=ROWS)
    log = LoggedData(chosen=chosen, rewards=rewards, probabilities=np.full((ROWS, 3), 1 / 3), arms=arms)
    results = evaluate(log, {"uniform": "uniform", "b": reads_nothing}, "dr")
    assert all(each.no_evidence or reason_to_withhold(each.doubts, Withheld.ALL) for each in results.values())


def test_gate_compares_candidates_that_do_not_read_a_leaked_column() -> None:
    gate = promotion(log_with("status"), {"late": reads_late, "b": "b", "optimist": Optimist()})
    assert (gate.verdict, gate.candidate) == (Verdict.PROMOTE, "b")
    assert set(gate.no_evidence) == {"late", "optimist"}
    only_late = promotion(log_with("status"), {"late": reads_late})
    assert only_late.verdict is Verdict.WAIT
