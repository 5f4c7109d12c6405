"""Each estimator compared with hand-computed values, on five rows of three arms."""

import math
from fractions import Fraction

import numpy as np
import pytest

from glbandits.common.arrays import Floats, Ints
from glbandits.evaluation import ESTIMATORS, FixedArms, LoggedData, evaluate
from glbandits.evaluation.estimators.estimator import Estimator
from glbandits.evaluation.estimators.point_estimators import ClippedIps, DrOptimisticShrinkage, SwitchDr
from glbandits.evaluation.logs.logged_data import Log
from tests.evaluation.simulated_logs import small_log

TARGET = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.1, 0.1, 0.8], [0.25, 0.5, 0.25], [0.4, 0.6, 0.0]])
EXPECTED = np.array([[1.0, 0.5, 0.0], [2.0, 1.0, 0.0], [0.0, 1.0, 1.5], [1.0, 2.0, 3.0], [0.5, 0.5, 1.0]])
# By hand: w = 1, 4, 4, 1, 1/2; v = 5/8, 1, 13/10, 2, 1/2; r - q(chosen) = 0, -1, 1/2, 1, 0.
W = [Fraction(1), Fraction(4), Fraction(4), Fraction(1), Fraction(1, 2)]
R = [Fraction(1), Fraction(0), Fraction(2), Fraction(3), Fraction(1, 2)]
V = [Fraction(5, 8), Fraction(1), Fraction(13, 10), Fraction(2), Fraction(1, 2)]
SURPRISE = [Fraction(0), Fraction(-1), Fraction(1, 2), Fraction(1), Fraction(0)]


class KnownModel:
    """A reward model with given predictions."""

    folds, max_rows = 2, 1000

    def begin(self, log: Log) -> "KnownModel":
        assert log.dim == 3
        return self

    def learn(self, block: LoggedData, folds: Ints) -> None:
        assert len(block) == len(folds)

    def finish(self) -> None:
        return

    def predict(self, block: LoggedData, folds: Ints) -> Floats:
        assert len(block) == len(folds) == len(EXPECTED)
        return EXPECTED


def mean(values: list[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


def products(one: list[Fraction], other: list[Fraction]) -> list[Fraction]:
    return [a * b for a, b in zip(one, other, strict=True)]


def shrunk(kept: list[Fraction]) -> Fraction:
    return mean([v + k * s for v, k, s in zip(V, kept, SURPRISE, strict=True)])


BY_HAND: list[tuple[str | Estimator, Fraction]] = [
    ("ips", mean(products(W, R))),
    (ClippedIps(limit=2.0), mean(products([min(w, Fraction(2)) for w in W], R))),
    ("snips", sum(products(W, R), Fraction(0)) / sum(W, Fraction(0))),
    ("dm", mean(V)),
    ("dr", shrunk(W)),
    ("sndr", mean(V) + sum(products(W, SURPRISE), Fraction(0)) / sum(W, Fraction(0))),
    (SwitchDr(threshold=1.0), shrunk([w if w <= 1 else Fraction(0) for w in W])),
    (SwitchDr(threshold=100.0), shrunk(W)),
    (DrOptimisticShrinkage(strength=2.0), shrunk([2 * w / (w * w + 2) for w in W])),
    (DrOptimisticShrinkage(strength=0.0), mean(V)),
]


@pytest.mark.parametrize(("estimator", "value"), BY_HAND)
def test_value_equals_hand_computation(estimator: str | Estimator, value: Fraction) -> None:
    found = evaluate(small_log(), TARGET, [estimator], model=KnownModel())
    assert found.estimates[0].value == pytest.approx(float(value), abs=1e-10)


def test_hand_computed_values_have_these_decimals() -> None:
    """Checks the formulas above: 12.25 / 5, 12.25 / 10.5, ..."""
    values = [float(value) for _, value in BY_HAND]
    expected = [2.45, 1.65, 12.25 / 10.5, 1.085, 0.885, 1.085 - 1 / 10.5, 1.285, 0.885]
    assert values[:8] == pytest.approx(expected, abs=1e-12)


def test_standard_error_equals_hand_computation() -> None:
    terms = [float(term) for term in products(W, R)]
    by_hand = math.sqrt(sum((term - 2.45) ** 2 for term in terms) / 4 / 5)
    ratio = sum(terms) / 10.5
    by_hand_ratio = (
        math.sqrt(sum((float(w) * (float(r) - ratio)) ** 2 for w, r in zip(W, R, strict=True)) * 5 / 4) / 10.5
    )
    found = evaluate(small_log(), TARGET, ["ips", "snips"])
    assert found["ips"].standard_error == pytest.approx(by_hand, abs=1e-10)
    assert found["snips"].standard_error == pytest.approx(by_hand_ratio, abs=1e-10)
    low, high = found["ips"].normal
    assert (high - low) / 2 == pytest.approx(2.776445105197793 * by_hand, abs=1e-10)  # Student's t of 4 degrees


def test_rows_of_a_cluster_count_as_one() -> None:
    log = small_log()
    together = LoggedData(
        chosen=log.chosen,
        rewards=log.rewards,
        propensities=log.propensities,
        arms=log.arms,
        clusters=np.array([7, 7, 3, 3, 3]),
    )
    found = evaluate(together, TARGET, ["ips"])
    sums = [1.0 + 0.0, 8.0 + 3.0 + 0.25]
    apart = [sums[0] - 2 * 2.45, sums[1] - 3 * 2.45]
    by_hand = math.sqrt((apart[0] ** 2 + apart[1] ** 2) * 2 / 1) / 5
    assert found["ips"].value == pytest.approx(2.45, abs=1e-12)
    assert found["ips"].standard_error == pytest.approx(by_hand, abs=1e-10)
    assert any("2 independent groups" in note for note in found.notes)


def test_unbounded_rewards_have_no_anytime_interval() -> None:
    headline = evaluate(small_log(), TARGET, ["dr"], model=KnownModel()).headline
    assert headline is not None
    assert headline.value.no_anytime is not None
    assert headline.value.no_anytime.startswith("needs the range of rewards")
    assert headline.value.interval == headline.value.fixed_n


def test_matched_uses_rows_with_the_chosen_arm() -> None:
    log = LoggedData(
        chosen=np.array([0, 1, 1, 0]),
        rewards=np.array([1.0, 0.0, 0.25, 5.0]),
        propensities=np.full(4, 0.5),
        arms=FixedArms(np.eye(2), rows=4),
    )
    always_second = np.tile([0.0, 1.0], (4, 1))
    assert evaluate(log, always_second, ["matched"])["matched"].value == pytest.approx(0.125, abs=1e-12)
    alternately = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert evaluate(log, alternately, ["matched"])["matched"].value == pytest.approx(6.25 / 3, abs=1e-12)


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "matched"])
def test_logging_policy_as_target_gives_the_mean_reward(name: str) -> None:
    """With w = 1 and a model that predicts every reward, all corrections are 0."""
    log = LoggedData(
        chosen=np.array([0, 1, 0, 1]),
        rewards=np.array([1.0, 3.0, 1.0, 3.0]),
        propensities=np.full(4, 0.5),
        probabilities=np.full((4, 2), 0.5),
        arms=FixedArms(np.eye(2), rows=4),
    )

    class Right(KnownModel):
        def begin(self, log: Log) -> "Right":
            assert log.dim == 2
            return self

        def predict(self, block: LoggedData, folds: Ints) -> Floats:
            assert len(folds) == len(block)
            return np.tile([1.0, 3.0], (len(block), 1))

    result = evaluate(log, "uniform", [name], model=Right())
    assert result[name].value == pytest.approx(2.0, abs=1e-12)


def test_values_equal_those_of_another_package() -> None:
    """Values of pybandits 8.4.1 on the same table, to the last digits.

    Its doubly robust estimators are not compared: they subtract what the model expects of the target, not of the
    chosen arm.
    """
    rng = np.random.default_rng(2026)
    rows, arms = 500, 4
    logging = np.exp(rng.normal(size=(rows, arms)))
    logging /= logging.sum(axis=1, keepdims=True)
    target = np.exp(rng.normal(size=(rows, arms)))
    target /= target.sum(axis=1, keepdims=True)
    chosen = (rng.random((rows, 1)) > logging.cumsum(axis=1)).sum(axis=1)
    rewards = (rng.random(rows) < 0.2 + 0.1 * chosen).astype(np.float64)
    expected = rng.random((rows, arms))

    class Given(KnownModel):
        def begin(self, log: Log) -> "Given":
            assert log.dim == arms
            return self

        def predict(self, block: LoggedData, folds: Ints) -> Floats:
            assert len(block) == len(folds)
            return expected

    log = LoggedData(
        chosen=chosen,
        rewards=rewards,
        propensities=logging[np.arange(rows), chosen],
        arms=FixedArms(np.eye(arms), rows),
    )
    found = evaluate(log, target, ["ips", "snips", "dm"], model=Given())
    theirs = {"ips": 0.3938639788581619, "snips": 0.3893846244361238, "dm": 0.5081137422411452}
    assert {one.name: one.value for one in found.estimates} == pytest.approx(theirs, abs=1e-10)


@pytest.mark.statistics
def test_shrinkage_is_not_selected_where_it_hurts() -> None:
    """100 arms and an uninformative model: the whole value comes from weights of 100. Three standard errors of dr."""
    rng, rows = np.random.default_rng(4), 20_000
    chosen = rng.integers(0, 100, rows)
    log = LoggedData(
        chosen=chosen,
        rewards=(rng.random(rows) < np.where(chosen == 0, 0.8, 0.1)).astype(np.float64),
        propensities=np.full(rows, 0.01),
        arms=FixedArms(np.ones((100, 1)), rows),
        arm_names=tuple(map(str, range(100))),
        link="logistic",
    )
    found = evaluate(log, "0", ["dr", "dros", "switch-dr"])
    for name in ("dros", "switch-dr"):
        assert abs(found[name].value - found["dr"].value) <= 3 * found["dr"].standard_error
    assert abs(found["dr"].value - 0.8) <= 5 * found["dr"].standard_error


def test_direct_method_has_no_interval() -> None:
    found = evaluate(small_log(), TARGET, ["dm"], model=KnownModel())
    assert math.isnan(found["dm"].standard_error)
    assert math.isnan(found["dm"].normal.low)
    assert "unknown" in str(found)
