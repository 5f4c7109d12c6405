"""Evaluation in payoffs: value * reward - cost, on a simulated shop whose truth is known."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, InvalidInput, Optimist
from glbandits.evaluation import FixedArms, LoggedData, evaluate, play_log, promotion, train, tune
from glbandits.evaluation.estimators.frozen_target import FrozenTarget
from glbandits.evaluation.learning.log_player import play_policies
from glbandits.evaluation.learning.players import PlaySettings
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.logs.payoffs import payoff_range
from glbandits.evaluation.policy_comparison import ComparisonSettings, GateSettings, compare_policies
from glbandits.evaluation.readers.payoff_table import add_payoffs
from glbandits.evaluation.report.tables import differences_table, estimates_table, learning_table
from glbandits.policies import SupCbGlm
from tests.evaluation.shop_log import COSTS, LOGGED, NAMES, PRICES, Shop, shop

TARGETS = {"dear": "arm:40", "cheap": "arm:5", "mixed": np.array([0.1, 0.2, 0.3, 0.4])}


@pytest.fixture(scope="module")
def small() -> Shop:
    return shop(1100, seed=1)


def probabilities(target: Any, rows: int) -> Any:
    own = np.eye(4)[NAMES.index(target.removeprefix("arm:"))] if isinstance(target, str) else target
    return np.tile(own, (rows, 1))


def test_estimators_see_payoffs_as_rewards(small: Shop) -> None:
    """Estimates are those of a log whose rewards are the payoffs, up to the reward model."""
    log = small.log
    rewards = replace(small.plain, rewards=log.payoffs, link="identity")
    for target in ("arm:20", "uniform"):
        ours, theirs = (evaluate(each, target, ["ips", "snips"]) for each in (log, rewards))
        for name in ("ips", "snips"):
            assert ours[name].value == pytest.approx(theirs[name].value, rel=1e-12)
            assert ours[name].standard_error == pytest.approx(theirs[name].standard_error, rel=1e-12)
        assert ours.logged == pytest.approx(log.payoffs.mean())
        assert ours.unit == "payoff"
        assert theirs.unit == "reward"


def test_value_1_and_cost_0_change_nothing(small: Shop) -> None:
    units = replace(small.plain, values=np.ones(4), costs=np.zeros(4))
    with_values = evaluate(units[:300], "arm:5", payoff_range=(0.0, 1.0)).headline
    assert with_values is not None
    assert with_values == evaluate(small.plain[:300], "arm:5").headline


def coverage(rows: int, seeds: range) -> dict[str, float]:
    """The shares of simulated logs whose intervals contain the truth: of values, gains and differences."""
    hits: dict[str, list[bool]] = {}
    for seed in seeds:
        simulated = shop(rows, seed)
        logged = probabilities(LOGGED, rows)
        truths = {name: simulated.truth(probabilities(target, rows)) for name, target in TARGETS.items()}
        given = {name: each if isinstance(each, str) else probabilities(each, rows) for name, each in TARGETS.items()}
        possible = float(-COSTS.max()), 40.0
        results = evaluate(
            simulated.log, given, ["dr"], reference="cheap", comparisons=1, gains=1, payoff_range=possible
        )
        for name, result in results.items():
            assert result.headline is not None
            found = {"value": (result.headline.value, truths[name])}
            found["gain"] = (result.headline.gain, truths[name] - simulated.truth(logged))
            if result.headline.difference is not None:
                found["difference"] = (result.headline.difference, truths[name] - truths["cheap"])
            for kind, (estimate, truth) in found.items():
                assert estimate.fixed_n is not None
                assert estimate.anytime is not None
                hits.setdefault(kind, []).append(estimate.fixed_n.low <= truth <= estimate.fixed_n.high)
                hits.setdefault("every n", []).append(estimate.anytime.low <= truth <= estimate.anytime.high)
    return {kind: float(np.mean(each)) for kind, each in hits.items()}


@pytest.mark.statistics
@pytest.mark.usefixtures("compiled_now")
def test_intervals_contain_the_true_payoffs() -> None:
    """95% intervals of 60 logs. A share below 0.86 of 120 or more has a probability of less than 1e-4."""
    shares = coverage(500, range(60))
    assert min(shares[kind] for kind in ("value", "gain", "difference")) > 0.86
    assert shares["every n"] > 0.97


def test_difference_is_in_payoff_units() -> None:
    """By sales the cheap price is better, by payoff the dear one."""
    simulated = shop(1200, seed=2)
    by_payoff, by_sales = (
        evaluate(log, {"dear": "arm:40", "cheap": "arm:5"}, ["dr"], reference="cheap")["dear"].headline
        for log in (simulated.log, simulated.plain)
    )
    assert by_payoff is not None
    assert by_sales is not None
    assert by_payoff.difference is not None
    assert by_payoff.difference.fixed_n is not None
    assert by_sales.difference is not None
    truth = simulated.truth(probabilities("arm:40", 1200)) - simulated.truth(probabilities("arm:5", 1200))
    assert by_payoff.difference.fixed_n.low < truth < by_payoff.difference.fixed_n.high
    assert by_payoff.difference.value > 1.0 > 0.0 > by_sales.difference.value


def test_range_follows_from_values_and_costs(small: Shop) -> None:
    assert payoff_range(small.log, (0.0, 1.0)) == (-2.0, 38.0)
    assert payoff_range(small.log, (-1.0, np.inf)) == (-42.0, np.inf)
    assert payoff_range(small.plain, (0.0, 1.0)) == (0.0, 1.0)
    with pytest.raises(InvalidInput, match="same payoff"):
        evaluate(replace(small.plain, values=np.zeros(4)), "arm:5")


def test_bandit_chooses_by_payoff_and_learns_the_reward(small: Shop) -> None:
    """Policies choose as a Bandit that gets values and costs; trained Bandits do not depend on payoffs."""
    log, features = small.log[:300], small.log[:300].features()
    [[curve]] = play_policies([Optimist()], log, [3], PlaySettings(learn="all"))
    bandit, matched = Bandit(Optimist(), log.dim, 3), np.zeros(300)
    for row in range(300):
        matched[row] = bandit.choose(features[row], values=PRICES, costs=COSTS) == log.chosen[row]
        bandit.learn(features[row, log.chosen[row]], log.rewards[row])
    assert curve.matched == matched.sum()
    assert log.propensities is not None
    weights = matched / log.propensities
    assert curve.value == pytest.approx(weights @ log.payoffs / weights.sum())
    assert curve.unit == "payoff"
    learned = train(log, Optimist())
    assert (learned.state == train(small.plain[:300], Optimist()).state).all()
    expected = [learned.probabilities(each, values=PRICES, costs=COSTS) for each in features[:20]]
    np.testing.assert_array_equal(FrozenTarget(learned).probabilities(log[:20], 0), expected)


def test_frozen_bandit_can_decide_without_exploration(small: Shop) -> None:
    """It gives probability 1 to the arm that the bandit chooses by its estimate, with and without payoffs."""
    learned, rows = train(small.log[:300], Optimist()), slice(0, 20)
    features = small.log[rows].features()
    greedy = FrozenTarget(learned, explore=False)
    for log, payoffs in ((small.plain, {}), (small.log, {"values": PRICES, "costs": COSTS})):
        chosen = learned.choose_batch(features, explore=False, **payoffs)
        np.testing.assert_array_equal(greedy.probabilities(log[rows], 0), np.eye(features.shape[1])[chosen])
    both = evaluate(small.log[300:], {"greedy": greedy, "explores": learned})
    assert both["greedy"]["ips"].value != both["explores"]["ips"].value


def test_frozen_bandit_uses_the_payoffs_of_each_row() -> None:
    """The arms are the same in all rows, and the values are not."""
    log = LoggedData(
        chosen=np.array([0, 1, 0, 1]),
        rewards=np.array([1.0, 0.0, 1.0, 1.0]),
        propensities=np.full(4, 0.5),
        arms=FixedArms(np.eye(2), rows=4),
        values=np.array([[9.0, 1.0], [9.0, 1.0], [1.0, 9.0], [1.0, 9.0]]),
    )
    bandit = train(log[np.zeros(200, dtype=np.int64)], Optimist())
    found = FrozenTarget(bandit).probabilities(log, 0)
    for row in range(4):
        assert log.values is not None
        np.testing.assert_array_equal(found[row], bandit.probabilities(np.eye(2), values=log.values[row]))
    assert found[0, 0] > found[2, 0]


def test_comparison_reports_payoffs(small: Shop) -> None:
    settings, by_payoffs = (
        ComparisonSettings(gate=GateSettings(), payoff_range=each) for each in (None, (float(-COSTS.max()), 40.0))
    )
    by_payoff = compare_policies(small.log, {"optimist": Optimist(), "cheap": "arm:5"}, by_payoffs)
    by_reward = compare_policies(small.plain, {"optimist": Optimist(), "cheap": "arm:5"}, settings)
    for comparison, unit in ((by_payoff, "payoff"), (by_reward, "reward")):
        texts = [table(comparison).to_text() for table in (estimates_table, differences_table, learning_table)]
        texts.append(str(comparison.promotion) if unit == "payoff" else unit)
        assert all(unit in text.lower() for text in texts)
        other = "reward" if unit == "payoff" else "payoff"
        assert not any(other in text for text in (*texts, *comparison.verdict))
    [optimist, cheap] = by_payoff.policies
    assert optimist.evaluation.headline is not None
    assert cheap.evaluation.headline is not None
    assert optimist.evaluation.headline.value.value > 1.5 * cheap.evaluation.headline.value.value


def test_gate_needs_the_range_of_payoffs(small: Shop) -> None:
    with pytest.raises(InvalidInput, match="--payoff-range"):
        promotion(small.log, {"cheap": "arm:5"})
    for check in (promotion, evaluate):
        with pytest.raises(InvalidInput, match="outside of payoff_range"):
            check(small.log, {"cheap": "arm:5"}, payoff_range=(0.0, 1.0))
        with pytest.raises(InvalidInput, match="log with payoffs"):
            check(small.plain, {"cheap": "arm:5"}, payoff_range=(0.0, 1.0))


def test_range_that_only_the_rows_tell_gives_no_interval_at_every_n(small: Shop) -> None:
    def anytime(log: Log, **options: Any) -> object:
        headline = evaluate(log, "arm:5", "dr", **options).headline
        assert headline is not None
        assert headline.gain.fixed_n is not None
        return headline.gain.anytime

    assert anytime(small.log) is None
    assert anytime(small.log, payoff_range=(-3.0, 40.0)) is not None
    table = {"arm": small.log.arm_names, "value": PRICES, "cost": COSTS}
    assert anytime(add_payoffs(small.plain, table)) is not None
    assert promotion(add_payoffs(small.plain, table), {"cheap": "arm:5"}).unit == "payoff"


@pytest.mark.statistics
def test_gate_compares_payoffs() -> None:
    simulated = shop(6000, seed=5)
    assert promotion(simulated.plain, {"dear": "arm:40"}).verdict == "keep"
    payoffs = (float(-COSTS.max()), 40.0)
    gate = promotion(simulated.log, {"by payoff": Optimist(), "cheap": "arm:5"}, payoff_range=payoffs)
    assert (gate.verdict, gate.candidate) == ("promote", "by payoff")
    assert "Gain in payoff" in str(gate)


@pytest.mark.filterwarnings("ignore:the effective sample size")
def test_tuning_maximises_payoffs(small: Shop) -> None:
    result = tune(Optimist(), small.log, grid={"floor": (0.9,)}, seeds=1)
    assert result.unit == "payoff"
    assert result.best == Optimist()
    assert result.value > 4.0


def test_policy_without_scores_refuses_payoffs(small: Shop) -> None:
    policy = SupCbGlm(horizon=300)
    with pytest.raises(InvalidInput, match="no score for each arm"):
        play_log(policy, small.log[:300], 0)
    with pytest.raises(InvalidInput, match="no score for each arm"):
        evaluate(small.log[:300], Bandit(policy, small.log.dim))


def test_other_rewards_are_refused(small: Shop) -> None:
    with pytest.raises(InvalidInput, match="one reward"):
        compare_policies(small.log, {"a": "arm:5"}, ComparisonSettings(), other_rewards=["clicks"])


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"costs": [1.0, 1.0]}, "costs needs values"),
        ({"values": [1.0, -1.0]}, "at least 0; got -1 for arm 1 of row 0"),
        ({"values": [1.0, np.nan]}, "finite"),
        ({"values": [1.0, 1.0, 1.0]}, "a number for each arm"),
        ({"values": [[1.0, 1.0]]}, "a number for each arm"),
        ({"values": [1.0, 1.0], "costs": [0.0]}, "costs must have a number"),
        ({"values": 3.0}, "2 axes"),
    ],
)
def test_invalid_payoffs_of_a_log_are_refused(fields: dict[str, Any], match: str) -> None:
    arms = FixedArms(np.eye(2), rows=3)
    with pytest.raises(InvalidInput, match=match):
        LoggedData(chosen=np.zeros(3, dtype=int), rewards=np.ones(3), propensities=np.full(3, 0.5), arms=arms, **fields)
