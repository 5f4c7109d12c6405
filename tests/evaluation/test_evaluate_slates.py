"""Slate estimators, compared with hand-computed values, another package, and all slates of a small problem."""

from collections.abc import Callable
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
import pytest

from glbandits import InvalidInput, Uniform
from glbandits.common.arrays import Floats
from glbandits.evaluation import FixedArms, LoggedData, evaluate, evaluate_slates
from glbandits.evaluation.estimators.targets import GivenTarget
from glbandits.evaluation.evaluate_slates import SLATE_ESTIMATORS, SlateEvaluation, compare_on_slates
from tests.evaluation.simulated_logs import small_log


def slates(propensities: Any, rewards: Any) -> LoggedData:
    """A log of slates, (n, L): the rows of a slate follow each other, and its arm 0 was chosen."""
    p = np.asarray(propensities, dtype=np.float64)
    return LoggedData(
        chosen=np.zeros(p.size, dtype=np.int64),
        rewards=np.ravel(rewards),
        propensities=p.ravel(),
        clusters=np.repeat(np.arange(len(p)), p.shape[1]),
        arms=FixedArms(np.eye(2), rows=p.size),
        link="identity",
    )


def of_chosen(probabilities: Any) -> Floats:
    """A target with these probabilities of the chosen arms, (n, L)."""
    chosen: Floats = np.ravel(probabilities)
    return np.stack([chosen, 1.0 - chosen], axis=1)


# Two slates of two slots. By hand: w = (2, 1/2), (1, 3).
SMALL = slates([[0.5, 0.5], [0.5, 0.25]], [[1.0, 2.0], [3.0, 4.0]])
TARGET = of_chosen([[1.0, 0.25], [0.5, 0.75]])
BY_HAND = {
    "slate-ips": ((2 * 0.5) * (1 + 2) + (1 * 3) * (3 + 4)) / 2,
    "rips": (2 * 1 + (2 * 0.5) * 2 + 1 * 3 + (1 * 3) * 4) / 2,
    "iips": (2 * 1 + 0.5 * 2 + 1 * 3 + 3 * 4) / 2,
    "pi": ((2 + 0.5 - 1) * (1 + 2) + (1 + 3 - 1) * (3 + 4)) / 2,
}
LOGGING = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
WANTED = np.array([[0.1, 0.2, 0.7], [0.3, 0.4, 0.3]])


def expected_estimates(
    logging: Callable[[int, int], float], target: Callable[[int, int], float], reward: Callable[[int, int, int], float]
) -> tuple[dict[str, float], float]:
    """The mean of every estimator over all slates of two slots and three arms, and the true value.

    A policy is given by the probability of an arm in the second slot given that in the first; arm -1 is no arm.
    """
    means, truth = dict.fromkeys(SLATE_ESTIMATORS, 0.0), 0.0
    for one, two in product(range(3), repeat=2):
        propensities = [logging(-1, one), logging(one, two)]
        probabilities = [target(-1, one), target(one, two)]
        rewards = [reward(0, one, -1), reward(1, two, one)]
        truth += float(np.prod(probabilities)) * sum(rewards)
        if min(propensities) > 0.0:
            result = evaluate_slates(slates([propensities], [rewards]), of_chosen([probabilities]))
            for each in result.estimates:
                means[each.name] += float(np.prod(propensities)) * each.value
    return means, truth


def independent(table: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> Callable[[int, int], float]:
    return lambda earlier, arm: float(table[int(earlier >= 0), arm])


def without_repetition(shares: list[float]) -> Callable[[int, int], float]:
    """Slots as our service fills them: the second slot may not have the arm of the first."""
    return lambda earlier, arm: (
        shares[arm] if earlier < 0 else 0.0 if arm == earlier else shares[arm] / (1.0 - shares[earlier])
    )


@pytest.mark.parametrize("name", SLATE_ESTIMATORS)
def test_value_equals_hand_computation(name: str) -> None:
    assert evaluate_slates(SMALL, TARGET, [name])[name].value == pytest.approx(BY_HAND[name], abs=1e-12)


def test_open_bandit_pipeline_gives_the_same_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of version 0.5.5: SlateStandardIPS, SlateIndependentIPS, SlateRewardInteractionIPS.

    The arms are not drawn with these propensities, so the mean coefficients are not 1.
    """
    monkeypatch.setattr(import_module("glbandits.evaluation.evaluate_slates"), "MAX_DEVIATION", np.inf)
    rng = np.random.default_rng(7)
    propensities, target = rng.uniform(0.1, 0.9, (200, 3)), rng.uniform(0, 1, (200, 3))
    log = slates(propensities, rng.random((200, 3)) < 0.4)
    result = evaluate_slates(log, of_chosen(target), ["slate-ips", "iips", "rips"])
    values = {one.name: one.value for one in result.estimates}
    theirs = {"slate-ips": 2.2519933664992986, "iips": 1.660482725787366, "rips": 2.082059717599801}
    assert values == pytest.approx(theirs, abs=1e-12)


def test_without_interaction_no_estimator_is_biased() -> None:
    means, truth = expected_estimates(
        independent(LOGGING), independent(WANTED), lambda slot, arm, _: 0.3 * arm + 0.5 * slot * (arm == 1)
    )
    assert means == pytest.approx(dict.fromkeys(SLATE_ESTIMATORS, truth), abs=1e-12)


def test_if_arms_interact_only_products_are_unbiased() -> None:
    means, truth = expected_estimates(
        independent(LOGGING), independent(WANTED), lambda _, arm, earlier: float(arm == earlier) + 0.1 * arm
    )
    assert means["slate-ips"] == pytest.approx(truth, abs=1e-12)
    assert means["rips"] == pytest.approx(truth, abs=1e-12)
    assert abs(means["iips"] - truth) > 0.01
    assert abs(means["pi"] - truth) > 0.01


def test_if_arms_are_not_repeated_only_products_are_unbiased() -> None:
    means, truth = expected_estimates(
        without_repetition([0.6, 0.3, 0.1]),
        without_repetition([0.1, 0.7, 0.2]),
        lambda slot, arm, _: slot * float(arm == 1),
    )
    assert means["slate-ips"] == pytest.approx(truth, abs=1e-12)
    assert means["rips"] == pytest.approx(truth, abs=1e-12)
    assert abs(means["iips"] - truth) > 0.01
    assert abs(means["pi"] - truth) > 0.01


def test_intervals_contain_the_truth_in_95_percent_of_logs() -> None:
    """400 logs of 300 slates: at least 90 % cover, which a correct program misses once in 10,000 seeds."""
    rng, covered = np.random.default_rng(5), dict.fromkeys(SLATE_ESTIMATORS, 0)
    truth = float((WANTED * [[0.1, 0.4, 0.7], [0.2, 0.5, 0.8]]).sum())
    for _ in range(400):
        arms = np.stack([rng.choice(3, size=300, p=LOGGING[slot]) for slot in range(2)], axis=1)
        rewards = rng.random((300, 2)) < 0.1 + 0.3 * arms + 0.1 * np.arange(2)
        index = np.arange(2), arms
        log, target = slates(LOGGING[index], rewards), of_chosen(WANTED[index])
        for each in evaluate_slates(log, target).estimates:
            covered[each.name] += each.normal.low <= truth <= each.normal.high
    assert min(covered.values()) >= 360


def test_standard_error_is_that_of_slates() -> None:
    sums = [2 * 1 + 0.5 * 2, 1 * 3 + 3 * 4]
    assert evaluate_slates(SMALL, TARGET)["iips"].standard_error == pytest.approx(np.std(sums, ddof=1) / np.sqrt(2))


def test_decisions_of_the_same_cluster_are_a_slate() -> None:
    log = LoggedData(
        chosen=np.array([0, 1, 1, 0, 1]),
        rewards=np.array([1.0, 0.0, 1.0, 1.0, 0.0]),
        propensities=np.array([0.5, 0.25, 0.5, 0.75, 0.5]),
        clusters=np.array([7, 3, 7, 3, 3]),
        arms=FixedArms(np.eye(2), rows=5),
        arm_names=("a", "b"),
    )
    result = evaluate_slates(log, "a")  # the weights are 2, 0 and 0, 4/3, 0, the rewards 1, 1 and 0, 1, 0
    assert (result.slates, result.logged) == (2, 3 / 2)
    assert (result["slate-ips"].value, result["rips"].value) == (0.0, 1.0)
    by_slot = evaluate(log, "a", "ips")["ips"].value
    assert result["iips"].value == pytest.approx(by_slot * 5 / 2, abs=1e-12)


def test_given_target_is_cut_to_the_evaluated_slates() -> None:
    log = LoggedData(
        chosen=np.array([0, 0, 1, 1]),
        rewards=np.array([0.0, 0.0, 1.0, 1.0]),
        propensities=np.full(4, 0.5),
        clusters=np.arange(4),
        arms=FixedArms(np.eye(2), rows=4),
        arm_names=("a", "b"),
    )
    target = GivenTarget(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]))
    evaluated = dict(compare_on_slates(log, {"uniform": Uniform(), "given": target}, ["iips"]))
    assert evaluated["given"]["iips"].value == 2.0


def test_one_slate_has_a_value_and_no_error() -> None:
    result = evaluate_slates(slates([[0.5]], [[1.0]]), of_chosen([[0.5]]))
    assert result["pi"].value == 1.0
    assert np.isnan(result["pi"].standard_error)


@pytest.mark.parametrize(
    ("log", "target", "message"),
    [
        (SMALL, TARGET[:1], "target must have a row for each row"),
        (SMALL, 2.0 * TARGET, "sum to 1"),
        ("log.csv", TARGET, "log must be LoggedData or a log read from a file; got str"),
    ],
)
def test_invalid_input_is_rejected(log: LoggedData, target: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        evaluate_slates(log, target)


def test_decisions_without_clusters_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="clusters that identify the slates"):
        evaluate_slates(small_log(), "uniform")


def shelf(seed: int, target: Floats, *, shown: int = 5, slates: int = 4000, **options: Any) -> SlateEvaluation:
    """Evaluate a target on slates of two slots with five arms, of which only the first ones were ever shown."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, shown, 2 * slates)
    log = LoggedData(
        chosen=chosen,
        rewards=(rng.random(2 * slates) < 0.1 + 0.1 * chosen).astype(np.float64),
        propensities=np.full(2 * slates, 1.0 / shown),
        clusters=np.repeat(np.arange(slates), 2),
        arms=FixedArms(np.eye(5), rows=2 * slates),
        link="logistic",
        arm_names=tuple("abcde"),
    )
    return evaluate_slates(log, np.tile(target, (2 * slates, 1)), **options)


def test_arm_that_was_never_shown_has_no_estimate() -> None:
    """The pseudo-inverse estimate was negative for rewards of 0 and 1."""
    found = shelf(0, np.eye(5)[4], shown=4)
    assert all(each.no_evidence and np.isnan(each.value) for each in found.estimates)
    assert found.verdict("new").startswith("No verdict on new")
    assert "not enough evidence" in str(found)
    assert any("'e'" in note for note in found.notes)
    assert not shelf(0, np.eye(5)[4]).notes


def test_possible_values_of_slates_follow_from_the_range_of_rewards() -> None:
    assert not any(each.no_evidence for each in shelf(1, np.full(5, 0.2)).estimates)
    assert all(each.no_evidence for each in shelf(1, np.full(5, 0.2), reward_range=(0.0, 0.1)).estimates)
    with pytest.raises(InvalidInput, match="reward_range"):
        shelf(1, np.full(5, 0.2), reward_range=(1.0, 0.0))


def test_verdict_on_slates_needs_the_agreement_of_estimates() -> None:
    best, same = shelf(1, np.eye(5)[4]), shelf(1, np.full(5, 0.2))
    assert "best is better than the logging policy" in best.verdict("best")
    assert "worst is worse than the logging policy" in shelf(1, np.eye(5)[0]).verdict("worst")
    assert same.verdict("same") == "same decides as the logging policy did."
    assert "open" in shelf(1, np.array([0.0, 0.0, 1.0, 0.0, 0.0])).verdict("half")
    assert best["pi"].normal.high <= 2.0


@pytest.mark.statistics
def test_few_verdicts_on_equal_arms_are_wrong() -> None:
    """Of 200 logs whose candidate is as good as the logging policy, at most 16 have a verdict.

    With a probability of 0.05 for each log, more have probability 0.03; the seeds are fixed.
    """
    half = np.array([0.0, 0.0, 1.0, 0.0, 0.0])  # the mean of all arms
    texts = [shelf(seed, half, slates=1000).verdict("half") for seed in range(200)]
    assert sum("open" not in text and "No verdict" not in text for text in texts) <= 16
