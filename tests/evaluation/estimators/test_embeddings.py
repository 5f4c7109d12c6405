"""Marginalised weights: arms of a category share their evidence."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from glbandits import InvalidInput
from glbandits.common.arrays import Floats, Ints
from glbandits.evaluation import FixedArms, LoggedData, RowArms, evaluate
from glbandits.evaluation.estimators.embeddings import EmbeddingsLike
from tests.evaluation.estimators.test_point_estimators import EXPECTED, TARGET, KnownModel
from tests.evaluation.simulated_logs import small_log

LOGGING = np.array([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [0.4, 0.4, 0.2], [0.25, 0.5, 0.25], [0.8, 0.1, 0.1]])
# By hand, with the categories a: x, b: x, c: y. The target's probability of the chosen arm's category over the log's:
# 3/4 / 3/4, 1 / 3/4, 8/10 / 1/5, 3/4 / 3/4, 1 / 9/10.
W_E = [Fraction(1), Fraction(4, 3), Fraction(4), Fraction(1), Fraction(10, 9)]
R = [Fraction(1), Fraction(0), Fraction(2), Fraction(3), Fraction(1, 2)]
V = [Fraction(5, 8), Fraction(1), Fraction(13, 10), Fraction(2), Fraction(1, 2)]
SURPRISE = [Fraction(0), Fraction(-1), Fraction(1, 2), Fraction(1), Fraction(0)]


def log_with_probabilities() -> LoggedData:
    return replace(small_log(), probabilities=LOGGING)


def as_row_arms(log: LoggedData) -> LoggedData:
    return replace(log, arms=RowArms(log.features(), np.full(len(log), 3)), arm_names=None)


def many_arms(direct: float, rows: int, rng: np.random.Generator) -> tuple[LoggedData, Floats, Ints, float]:
    """1,000 arms of 20 categories. Rewards depend on the category, and by `direct` on the arm itself."""
    arms, categories = 1000, np.arange(1000) % 20
    means = 0.5 + 0.3 * np.sin(categories) + direct * np.sign(np.sin(1.0 + 7.0 * np.arange(arms)))
    logging, target = (np.exp(2.0 * rng.normal(size=arms)) for _ in range(2))
    logging, target = logging / logging.sum(), target * np.exp(3.0 * means) / (target * np.exp(3.0 * means)).sum()
    chosen = rng.choice(arms, size=rows, p=logging)
    log = LoggedData(
        chosen=chosen,
        rewards=(rng.random(rows) < means[chosen]).astype(np.float64),
        propensities=logging[chosen],
        probabilities=np.broadcast_to(logging, (rows, arms)),
        arms=FixedArms(np.eye(20)[categories], rows=rows),
        link="logistic",
    )
    return log, np.tile(target, (rows, 1)), categories, float(means @ target)


@pytest.mark.parametrize("embeddings", [{"a": "x", "b": "x", "c": "y"}, [5, 5, 2], [(0, 1), (0, 1), (1, 1)]])
def test_mips_equals_hand_computed_value(embeddings: EmbeddingsLike) -> None:
    result = evaluate(log_with_probabilities(), TARGET, "mips", embeddings=embeddings)
    by_hand = sum((w * r for w, r in zip(W_E, R, strict=True)), Fraction(0)) / 5
    assert result["mips"].value == pytest.approx(float(by_hand), abs=1e-12)


def test_offcem_equals_hand_computed_value() -> None:
    assert EXPECTED.shape == TARGET.shape
    result = evaluate(log_with_probabilities(), TARGET, "offcem", embeddings=[0, 0, 1], model=KnownModel())
    by_hand = sum((v + w * s for v, w, s in zip(V, W_E, SURPRISE, strict=True)), Fraction(0)) / 5
    assert result["offcem"].value == pytest.approx(float(by_hand), abs=1e-12)


def test_categories_may_differ_between_rows() -> None:
    log = as_row_arms(log_with_probabilities())
    same = np.tile([0, 0, 1], (5, 1))
    expected = evaluate(log_with_probabilities(), TARGET, "mips", embeddings=[0, 0, 1])["mips"].value
    assert evaluate(log, TARGET, "mips", embeddings=same)["mips"].value == pytest.approx(expected, abs=1e-12)
    same[2] = [1, 0, 1]  # row 2 chose the last arm: now (1/10 + 8/10) / (4/10 + 2/10), it was 4
    changed = evaluate(log, TARGET, "mips", embeddings=same)["mips"].value
    assert changed - expected == pytest.approx(2.0 * (1.5 - 4.0) / 5, abs=1e-12)


def test_one_category_per_arm_equals_ips() -> None:
    result = evaluate(log_with_probabilities(), TARGET, ["ips", "mips"], embeddings=["x", "y", "z"])
    assert result["mips"].value == pytest.approx(result["ips"].value, abs=1e-12)


def test_single_category_gives_the_mean_of_the_log() -> None:
    result = evaluate(log_with_probabilities(), TARGET, "mips", embeddings=[0, 0, 0])
    assert result["mips"].value == pytest.approx(result.logged, abs=1e-12)


def test_open_bandit_pipeline_gives_the_same_value() -> None:
    """Of version 0.5.5, MarginalizedInverseProbabilityWeighting with the true p(e | a)."""
    rng = np.random.default_rng(2026)
    rows, arms = 500, 6
    logging, target = (np.exp(rng.normal(size=(rows, arms))) for _ in range(2))
    logging, target = logging / logging.sum(axis=1, keepdims=True), target / target.sum(axis=1, keepdims=True)
    chosen = (rng.random((rows, 1)) > logging.cumsum(axis=1)).sum(axis=1)
    log = LoggedData(
        chosen=chosen,
        rewards=(rng.random(rows) < 0.2 + 0.1 * chosen).astype(np.float64),
        propensities=logging[np.arange(rows), chosen],
        probabilities=logging,
        arms=FixedArms(np.eye(arms), rows),
    )
    result = evaluate(log, target, "mips", embeddings=[0, 1, 2, 0, 1, 2])
    assert result["mips"].value == pytest.approx(0.41705790749291105, abs=1e-12)


def test_mips_has_less_variance_with_a_thousand_arms() -> None:
    """Five standard errors: a correct program fails about twice in a million seeds."""
    log, target, categories, truth = many_arms(0.0, 5000, np.random.default_rng(3))
    result = evaluate(log, target, ["ips", "mips"], embeddings=categories)
    assert abs(result["mips"].value - truth) <= 5 * result["mips"].standard_error
    assert result["mips"].standard_error < result["ips"].standard_error / 4


def test_direct_effect_of_arms_biases_mips() -> None:
    """The bias is E[w_e r] - V, computed exactly. Five standard errors, as above."""
    log, target, categories, truth = many_arms(0.2, 20_000, np.random.default_rng(4))
    assert log.probabilities is not None
    logging = log.probabilities[0]
    means = 0.5 + 0.3 * np.sin(categories) + 0.2 * np.sign(np.sin(1.0 + 7.0 * np.arange(1000)))
    wanted, logged = (np.bincount(categories, weights=given) for given in (target[0], logging))
    limit = float(((wanted / logged)[categories] * logging * means).sum())
    result = evaluate(log, target, "mips", embeddings=categories)
    assert abs(result["mips"].value - limit) <= 5 * result["mips"].standard_error
    assert abs(result["mips"].value - truth) > 5 * result["mips"].standard_error
    assert any("mips" in note and "embeddings" in note for note in result.notes)


@pytest.mark.parametrize(
    ("embeddings", "message"),
    [
        (None, "need embeddings"),
        ({"a": 0, "b": 1}, "1 are missing, such as 'c'"),
        ([0, 1], "shape \\(3,\\)"),
        ([0.0, 1.0, np.nan], "finite numbers"),
        ([[0], [1, 2], [3]], "same number of dimensions"),
    ],
)
def test_invalid_embeddings_are_rejected(embeddings: EmbeddingsLike | None, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        evaluate(log_with_probabilities(), TARGET, "mips", embeddings=embeddings)


def test_mips_without_all_probabilities_is_rejected() -> None:
    with pytest.raises(InvalidInput, match=r"Give LoggedData\(probabilities=...\), or use"):
        evaluate(small_log(), TARGET, "mips", embeddings=[0, 0, 1])


def test_embeddings_by_name_need_named_arms() -> None:
    with pytest.raises(InvalidInput, match="same named arms"):
        evaluate(as_row_arms(log_with_probabilities()), TARGET, "mips", embeddings={"a": 0})


def test_probabilities_of_another_shape_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="rows and arms; got shape \\(5, 2\\)"):
        replace(small_log(), probabilities=LOGGING[:, :2])
