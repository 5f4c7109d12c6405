import math
from dataclasses import replace

import numpy as np
import pytest

from glbandits import Bandit, EpsilonGreedy, InvalidInput, Optimist, Policy, SgdTs, Uniform, UnknownName
from glbandits.common.arrays import Floats, Ints
from glbandits.evaluation import CrossedArms, FixedArms, LoggedData, RowArms, play_log
from glbandits.evaluation.learning.learning_curve import LearningCurve
from glbandits.evaluation.learning.players import THINNING_STREAM
from glbandits.maths.philox import generator, uniform
from glbandits.policies import Greedy
from tests.counting_policy import Counting
from tests.evaluation.learning_problem import REWARD_PROBABILITIES, Stream, live_reward, write_log

pytestmark = pytest.mark.usefixtures("plain_python")
few = pytest.mark.filterwarnings("ignore:the effective sample size of")


def table(curve: LearningCurve) -> Floats:
    """All arrays of a learning curve."""
    return np.array([curve.at_events, curve.at_kept, curve.at_values, curve.at_standard_errors])


def weights_by_hand(policy: Policy, log: LoggedData, seed: int, learn: str, least: float) -> Floats:
    """The weight of each row if a Bandit plays the log."""
    bandit, thinning, weights = Bandit(policy, log.dim, seed), generator(seed, THINNING_STREAM), np.zeros(len(log))
    assert log.propensities is not None
    for row, (features, count) in enumerate(zip(log.features(), log.arms.counts, strict=True)):
        arm, propensity = int(log.chosen[row]), float(log.propensities[row])
        agrees = bandit.choose(features[:count]) == arm
        if learn == "matched":
            agrees = agrees and (propensity == least or uniform(thinning) < least / propensity)
        if agrees or learn == "all":
            bandit.learn(features[arm], float(log.rewards[row]))
        weights[row] = agrees / (least if learn == "matched" else propensity)
    return weights


def assert_has_weights(curve: LearningCurve, weights: Floats, log: LoggedData) -> None:
    """Assert that the curve, recorded at each row, follows from these weights."""
    total, weighted = np.cumsum(weights), np.cumsum(weights * log.rewards)
    assert curve.at_kept.tolist() == np.cumsum(weights > 0).tolist()
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(curve.at_values, weighted / total, rtol=1e-12)


@few
@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("learn", ["matched", "all"])
@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(policy, id=policy.name)
        for policy in (Uniform(), Counting(), SgdTs(block_length=20, draw="decision"), Optimist(), EpsilonGreedy())
    ],
)
def test_play_log_equals_a_bandit(policy: Policy, learn: str, uneven: bool) -> None:
    log = write_log(400, seed=3, uneven=uneven)
    curve = play_log(policy, log, seed=7, learn=learn)  # type: ignore[arg-type]
    assert log.propensities is not None
    assert_has_weights(curve, weights_by_hand(policy, log, 7, learn, float(log.propensities.min())), log)
    assert curve.events == 400
    assert 20 < curve.kept <= curve.matched < 400


@few
def test_representation_of_arms_does_not_matter() -> None:
    rng = np.random.default_rng(4)
    contexts, names, chosen = rng.uniform(size=(300, 2)), np.eye(3), rng.integers(3, size=300)
    crossed = CrossedArms(contexts, names)
    fixed, repeated = FixedArms(names, rows=300), RowArms(np.tile(names, (300, 1, 1)), np.full(300, 3))
    for first, second in ((crossed, RowArms(crossed.features(), crossed.counts)), (fixed, repeated)):
        curves = [
            play_log(
                Counting(),
                LoggedData(
                    chosen=chosen,
                    rewards=np.arange(300.0) % 2,
                    propensities=np.full(300, 1 / 3),
                    arms=arms,
                ),
                seed=1,
            )
            for arms in (first, second)
        ]
        np.testing.assert_array_equal(table(curves[0]), table(curves[1]))
        assert curves[0].kept > 50


@few
@pytest.mark.parametrize("learn", ["matched", "all"])
@pytest.mark.parametrize("clustered", [False, True])
def test_block_size_does_not_matter(learn: str, clustered: bool) -> None:
    log = write_log(1000, seed=3, uneven=True)
    if clustered:
        log = replace(log, clusters=np.arange(1000) // 3 % 100)
    whole = play_log(Counting(), log, seed=5, learn=learn, points=50)  # type: ignore[arg-type]
    played: list[int] = []
    cut = play_log(Counting(), Stream(log, 37, []), 5, learn=learn, points=50, progress=played.append)  # type: ignore[arg-type]
    np.testing.assert_allclose(table(cut), table(whole), rtol=1e-10)
    assert sum(played) == 1000
    assert len(played) == 28
    assert 25 <= len(whole.at_events) <= 50
    assert whole.at_events[-1] == 1000


def test_non_contiguous_rows_can_be_played() -> None:
    log = write_log(1000, seed=3)
    every_second = play_log(Counting(), log[::2], seed=5)
    np.testing.assert_array_equal(table(every_second), table(play_log(Counting(), log[np.arange(0, 1000, 2)], seed=5)))


def tiny_log(clusters: Ints | None = None) -> LoggedData:
    """Six rows of two arms."""
    return LoggedData(
        chosen=np.array([0, 0, 1, 0, 0, 1]),
        rewards=np.array([1.0, 4.0, 2.0, 3.0, 1.0, 5.0]),
        propensities=np.array([0.5, 0.25, 0.5, 0.5, 0.8, 0.5]),
        arms=FixedArms(np.array([[1.0], [0.0]]), rows=6),
        clusters=clusters,
    )


@few
def test_exact_probabilities_give_hand_computed_values() -> None:
    curve = play_log(Uniform(), tiny_log(), seed=1, learn="all", exact=True)
    # pi is 1/2 in each row, so the weights are 1, 2, 1, 1, 5/8, 1, and weighted rewards 1, 8, 2, 3, 5/8, 5.
    weights, rewards = np.array([1, 2, 1, 1, 5 / 8, 1]), np.array([1, 4, 2, 3, 1, 5])
    assert curve.value == pytest.approx(19.625 / 6.625, rel=1e-14)
    assert curve.effective_sample_size == pytest.approx(6.625**2 / 8.390625, rel=1e-14)
    assert curve.largest_weight == 2.0
    assert (curve.matched, curve.kept, curve.below, curve.least_propensity) == (6, 6, 0, None)
    around = weights * (rewards - curve.value)
    assert curve.standard_error == pytest.approx(math.sqrt((around**2).sum() * 6 / 5) / 6.625, rel=1e-12)
    np.testing.assert_allclose(curve.at_values[:3], [1, 9 / 3, 11 / 4], rtol=1e-14)


@few
def test_standard_errors_take_clusters_into_account() -> None:
    clusters = np.array([7, 3, 7, 3, 3, 9])
    alone = play_log(Uniform(), tiny_log(), seed=1, learn="all", exact=True)
    curve = play_log(Uniform(), tiny_log(clusters=clusters), seed=1, learn="all", exact=True)
    weights, rewards = np.array([1, 2, 1, 1, 5 / 8, 1]), np.array([1, 4, 2, 3, 1, 5])
    assert curve.value == alone.value
    sums = np.array([(weights * (rewards - curve.value))[clusters == c].sum() for c in (7, 3, 9)])
    assert curve.standard_error == pytest.approx(math.sqrt((sums**2).sum() * 6 / 5) / 6.625, rel=1e-12)
    of_clusters = np.array([2.0, 3.625, 1.0])
    assert curve.effective_sample_size == pytest.approx(6.625**2 / (of_clusters**2).sum(), rel=1e-14)


@few
def test_matched_rows_give_the_mean_and_its_standard_error() -> None:
    log = write_log(400, seed=3)
    curve = play_log(Counting(), log, seed=7)
    kept = np.diff(curve.at_kept, prepend=0) == 1
    rewards = log.rewards[kept]
    assert curve.value == pytest.approx(rewards.mean(), rel=1e-12)
    assert curve.standard_error == pytest.approx(rewards.std(ddof=1) / math.sqrt(len(rewards)), rel=1e-12)
    assert curve.effective_sample_size == pytest.approx(curve.kept, rel=1e-12)
    assert (curve.least_propensity, curve.largest_weight) == (1 / 4, 4.0)


def test_rows_with_few_arms_are_kept_less_often() -> None:
    log = write_log(10_000, seed=6)
    curve = play_log(Uniform(), log, seed=2, points=10_000)
    kept = np.diff(curve.at_kept, prepend=0) == 1
    for count in (2, 3, 4):
        rows = log.arms.counts == count
        # A row matches with the probability 1/count and is then kept with count/4: 1/4 in all. Five standard errors of
        # about 3,300 rows, for three counts: it fails once in 500,000 logs. Without thinning it would be 1/2.
        assert kept[rows].mean() == pytest.approx(1 / 4, abs=5 * math.sqrt(3 / 16 / rows.sum()))
    assert curve.matched > curve.kept


@pytest.mark.statistics
@few
@pytest.mark.parametrize("uneven", [False, True])
def test_reward_on_a_log_equals_online_reward(uneven: bool) -> None:
    runs, rounds = 60, 40
    live = np.array([live_reward(Counting(), rounds, seed) for seed in range(runs)])
    on_log = np.empty(runs)
    for seed in range(runs):
        # The least propensity is 1/4 or, uneven, 0.105: 110 rows are kept of 440, or 84 of 800, give or take 9.
        log = write_log(800 if uneven else 440, seed=5000 + seed, uneven=uneven)
        curve = play_log(Counting(), log, seed=1000 + seed)
        end = int(np.searchsorted(curve.at_kept, rounds))
        on_log[seed] = curve.at_values[end] * rounds
    # Rewards spread by about 4 a run, so the difference of two means of 60 by 0.7. Four standard errors: it fails
    # once in 15,000 sets of seeds. Uniform play would earn 23.
    error = math.sqrt((live.var(ddof=1) + on_log.var(ddof=1)) / runs)
    assert error < 1.0
    assert on_log.mean() == pytest.approx(live.mean(), abs=4 * error)
    assert live.mean() > 26


@pytest.mark.statistics
@few
@pytest.mark.parametrize("exact", [False, True])
def test_standard_errors_match_the_variance_of_estimates(exact: bool) -> None:
    runs, found = 100, []
    for seed in range(runs):
        curve = play_log(Uniform(), write_log(400, seed=seed, uneven=True), seed=seed, learn="all", exact=exact)
        found.append((curve.value, curve.standard_error))
    value, error = np.transpose(found)
    # Two arms are worth 0.75, three 0.617, four 0.4875 in the mean.
    truth = np.mean([REWARD_PROBABILITIES[left:].mean() for left in range(3)])
    # Four standard errors of a mean of 100, and a standard deviation known to 7 %: 1 in 15,000 and 1 in 15,000.
    assert value.mean() == pytest.approx(truth, abs=4 * value.std() / math.sqrt(runs))
    assert error.mean() == pytest.approx(value.std(), rel=0.28)
    assert error.mean() < (0.035 if exact else 0.06)


def test_larger_least_propensity_keeps_more_rows() -> None:
    log = write_log(3000, seed=8, uneven=True)
    thin, thick = play_log(Counting(), log, seed=1), play_log(Counting(), log, seed=1, least_propensity=0.3)
    assert thin.below == 0
    assert thick.below > 100
    assert thick.kept > 1.5 * thin.kept
    assert log.propensities is not None
    assert thick.largest_weight == pytest.approx(1 / log.propensities.min())
    assert thick.effective_sample_size < thick.kept


def test_few_rows_cause_a_warning() -> None:
    log = write_log(100, seed=1)
    with pytest.warns(UserWarning, match="the effective sample size of uniform is only 2. of 100 rows.*all"):
        play_log(Uniform(), log, seed=1)
    with pytest.warns(UserWarning, match="is only .* of 100 rows.*exact=True"):
        play_log(Uniform(), log, seed=1, learn="all")


@few
def test_log_without_matches_has_no_value() -> None:
    other = 1 - Bandit(Uniform(), 2, seed=4).choose(np.eye(2))
    log = LoggedData(
        chosen=np.array([other]), rewards=np.ones(1), propensities=np.array([0.5]), arms=FixedArms(np.eye(2), rows=1)
    )
    curve = play_log(Uniform(), log, seed=4)
    assert (curve.events, curve.matched, curve.kept, curve.effective_sample_size) == (1, 0, 0, 0.0)
    assert math.isnan(curve.value)
    assert math.isnan(curve.standard_error)


def test_invalid_input_is_rejected_before_playing() -> None:
    log, played = write_log(200, seed=1), list[int]()
    many = LoggedData(
        chosen=np.zeros(200, dtype=np.int64),
        rewards=np.arange(200.0) / 150,
        propensities=np.ones(200),
        arms=FixedArms(np.eye(2), 200),
    )
    with pytest.raises(InvalidInput, match="optimist cannot learn row 151: a reward under"):
        play_log(Optimist(), Stream(many, 30, []), seed=1, progress=played.append)
    with pytest.raises(InvalidInput, match="log must have propensities.*estimate_propensities"):
        play_log(Uniform(), replace(log, propensities=None), seed=1, progress=played.append)
    with pytest.raises(InvalidInput, match="log must have at least one row; got none"):
        play_log(Uniform(), log[:0], seed=1)
    with pytest.raises(InvalidInput, match="policy must be an instance"):
        play_log(Uniform, log, seed=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="log must be LoggedData or another Log; got"):
        play_log(Uniform(), [], seed=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="seed must be a whole number of at least 0"):
        play_log(Uniform(), log, seed=-1)
    with pytest.raises(InvalidInput, match="points must be a whole number of at least 1"):
        play_log(Uniform(), log, seed=1, points=0)
    with pytest.raises(UnknownName, match="unknown way to learn 'match'"):
        play_log(Uniform(), log, seed=1, learn="match")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="least_propensity must be a finite number"):
        play_log(Uniform(), log, seed=1, least_propensity=1.5)
    with pytest.raises(InvalidInput, match='least_propensity needs learn="matched"'):
        play_log(Uniform(), log, seed=1, learn="all", least_propensity=0.1)
    with pytest.raises(InvalidInput, match='exact needs learn="all"'):
        play_log(Uniform(), log, seed=1, exact=True)
    assert not played


def test_policy_that_would_take_hours_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    log = write_log(400, seed=2)
    monkeypatch.setattr("glbandits.evaluation.learning.log_player.SECONDS_PER_STEP", 10.0)
    with pytest.raises(InvalidInput, match=r"greedy refits all rewards .* about [0-9.]+ hours for .* such as optimist"):
        play_log(Greedy(), log, seed=3)
