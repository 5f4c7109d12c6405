import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from glbandits import EpsilonGreedy, InvalidInput, Optimist, Uniform, UnknownName
from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.evaluation import CrossedArms, FixedArms, LoggedData, play_log, tune
from glbandits.evaluation.logs.log_slice import LogSlice, split
from glbandits.evaluation.logs.logged_data import Log
from glbandits.maths.links import LinkFunctions
from glbandits.policies.contract import Grid
from tests.counting_policy import Counting
from tests.evaluation.learning_problem import Stream, write_log

few = pytest.mark.filterwarnings("ignore:the effective sample size of")


class Stubborn(Uniform):
    """Always pull the arm of this index."""

    name: ClassVar[str] = "stubborn"
    grid: ClassVar[Grid] = {"place": (0, 1, 2)}
    place: int = 0

    @staticmethod
    def choose(_state: Floats, settings: Any, _arms: Floats, _rng: Generator, _link: LinkFunctions) -> int:
        return int(settings.place)


def changing_log(rows: int = 3000) -> LoggedData:
    """Three arms; the second is the best in the first half, and the worst in the second."""
    rng = np.random.default_rng(2)
    chosen = rng.integers(3, size=rows)
    probabilities = np.where(
        np.arange(rows) < rows // 2, np.array([0.3, 0.9, 0.5])[chosen], np.array([0.3, 0.1, 0.5])[chosen]
    )
    return LoggedData(
        chosen=chosen,
        rewards=(rng.random(rows) < probabilities).astype(np.float64),
        propensities=np.full(rows, 1 / 3),
        arms=FixedArms(np.eye(3), rows=rows),
    )


def rows_of(log: Log, size: int = 1000) -> Ints:
    """The rows of `numbered` that a log has."""
    return np.concatenate([block.rewards for block in log.blocks(size)]).astype(np.int64)


def numbered(rows: int, clusters: Ints | None = None) -> LoggedData:
    """The reward of each row is its index."""
    return LoggedData(
        chosen=np.zeros(rows, dtype=np.int64),
        rewards=np.arange(float(rows)),
        propensities=np.ones(rows),
        arms=FixedArms(np.eye(2), rows=rows),
        clusters=clusters,
        arm_names=("a", "b"),
    )


def test_choice_is_evaluated_on_the_second_part() -> None:
    log = changing_log()
    result = tune(Stubborn(), log)
    assert [played.policy for played in result.candidates] == [Stubborn(), Stubborn(place=1), Stubborn(place=2)]
    assert result.best == Stubborn(place=1)
    assert result.rows == (1500, 1500)
    first, second = log[:1500], log[1500:]
    for place, played in enumerate(result.candidates):
        assert played.value == pytest.approx(first.rewards[first.chosen == place].mean(), rel=1e-12)
    chosen, default = second.rewards[second.chosen == 1], second.rewards[second.chosen == 0]
    assert result.value == pytest.approx(chosen.mean(), rel=1e-12)
    assert result.gain == pytest.approx(chosen.mean() - default.mean(), rel=1e-12)
    assert result.gain < -0.1
    errors = [rewards.std(ddof=1) / math.sqrt(len(rewards)) for rewards in (chosen, default)]
    assert result.standard_error == pytest.approx(errors[0], rel=1e-12)
    assert result.gain_standard_error == pytest.approx(math.hypot(*errors), rel=1e-12)
    reach = 1.6448536 * math.hypot(*errors)
    assert result.gain_interval(0.9) == pytest.approx((result.gain - reach, result.gain + reach), rel=1e-6)


def test_the_default_may_be_the_best() -> None:
    result = tune([Stubborn(place=1), Stubborn(place=0)], changing_log(), share=0.4)
    assert result.rows == (1200, 1800)
    assert (result.best, result.gain, result.gain_standard_error) == (Stubborn(place=1), 0.0, 0.0)


def constant_log(means: tuple[float, ...], rows: int = 3000, seed: int = 3) -> LoggedData:
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(means), size=rows)
    return LoggedData(
        chosen=chosen,
        rewards=(rng.random(rows) < np.array(means)[chosen]).astype(np.float64),
        propensities=np.full(rows, 1 / len(means)),
        arms=CrossedArms(rng.normal(size=(rows, 1)), np.eye(len(means))),
    )


@few
@pytest.mark.parametrize(
    ("log", "kind", "place", "word"),
    [
        (constant_log((0.3, 0.6, 0.3)), "better", 1, "is better than the default on the 1,500 rows"),
        (constant_log((0.6, 0.3, 0.3)), "keep the default", 0, "no setting had a higher mean"),
        (constant_log((0.49, 0.51, 0.49)), "keep the default", 0, "not distinguishable from the default"),
        (changing_log(), "keep the default", 0, "is worse than the default"),
        (constant_log((0.0, 0.9, 0.5), rows=400), "withheld", 0, "rows are worth only"),
        (constant_log((0.0, 0.5, 0.9)), "withheld", 0, "have the same reward"),
        (constant_log((0.3, 0.6, 0.3))[np.tile(np.arange(1000), 3)], "withheld", 0, "copies"),
    ],
)
def test_default_is_replaced_only_by_settings_shown_to_be_better(
    log: LoggedData, kind: str, place: int, word: str
) -> None:
    verdict = tune(Stubborn(), log).verdict()
    assert (verdict.kind.value, verdict.policy) == (kind, Stubborn(place=place))
    assert word in str(verdict)


@pytest.mark.statistics
def test_winners_of_noise_are_rarely_called_better() -> None:
    """At most 2.5 % of 200 logs; more than 12 would have a probability of 0.4 %."""
    logs = (constant_log((0.3, 0.3, 0.3), rows=1500, seed=seed) for seed in range(200))
    found = [tune(Stubborn(), log, seeds=1, progress=lambda *_: None).verdict().kind.value for log in logs]
    assert found.count("better") <= 12
    assert found.count("withheld") <= 6


@few
@pytest.mark.parametrize("learn", ["matched", "all"])
def test_candidates_do_not_affect_each_other(learn: str) -> None:
    log, seeds = write_log(2000, seed=1, uneven=True), (4, 9)
    result = tune([Counting(), Uniform()], Stream(log, 170, []), seeds=seeds, learn=learn)  # type: ignore[arg-type]
    for played in result.candidates:
        alone = [play_log(played.policy, log[:1000], seed, learn=learn) for seed in seeds]  # type: ignore[arg-type]
        assert [curve.value for curve in played.curves] == pytest.approx([curve.value for curve in alone], rel=1e-12)
        assert played.value == pytest.approx(np.mean([curve.value for curve in alone]), rel=1e-12)
        assert [curve.seed for curve in played.curves] == [4, 9]
    alone = [play_log(Counting(), log[1000:], seed, learn=learn) for seed in seeds]  # type: ignore[arg-type]
    assert result.best == Counting()
    assert result.value == pytest.approx(np.mean([curve.value for curve in alone]), rel=1e-12)


def test_streamed_log_is_read_in_blocks_with_progress() -> None:
    given, reported = list[int](), list[tuple[int, int]]()
    log = Stream(changing_log(), 100, given)
    tune(Stubborn(), log, seeds=2, progress=lambda done, total: reported.append((done, total)))
    assert max(given) == 100
    # Each half is checked and played, and doubts read all rows. Without machine code 32 rows tell how long that takes.
    assert sum(given) - (2 * 1500 + 2 * 1500 + 3000) in (0, 32)
    total = 3 * 2 * 1500 + 2 * 2 * 1500
    assert reported[0] == (100, total)
    assert reported[-1] == (total, total)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("start", "stop"), [(0, 10), (3, 4), (0, 95), (30, 70), (5, 100), (99, 100)])
def test_slice_has_its_rows_only(start: int, stop: int, streamed: bool) -> None:
    data, given = numbered(100), list[int]()
    part = LogSlice(Stream(data, 10, given) if streamed else data, start, stop)
    assert isinstance(part, Log)
    assert (len(part), part.dim, part.arm_names) == (stop - start, 2, ("a", "b"))
    assert rows_of(part).tolist() == rows_of(part, 7).tolist() == list(range(start, stop))
    if streamed:  # nothing else is read
        assert sum(given) == 2 * (stop - start)


@pytest.mark.parametrize(
    ("clusters", "share", "cut"),
    [
        (None, 0.5, 5),
        (None, 0.26, 3),
        ([0, 0, 0, 1, 1, 1, 1, 2, 2, 2], 0.5, 7),
        ([0, 0, 0, 1, 1, 1, 1, 2, 2, 2], 0.3, 3),
        ([0, 0, 0, 1, 1, 1, 1, 2, 2, 2], 0.01, 3),
        ([0, 1, 0, 1, 2, 3, 2, 3, 4, 4], 0.1, 4),  # clusters that run side by side
    ],
)
def test_clusters_are_not_split(clusters: list[int] | None, share: float, cut: int) -> None:
    data = numbered(10, None if clusters is None else np.array(clusters))
    first, second = split(Stream(data, 4, []), share)
    assert rows_of(first).tolist() == list(range(cut))
    assert rows_of(second).tolist() == list(range(cut, 10))


def test_log_that_cannot_be_split_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="must leave rows in both parts.*10 of 10 rows"):
        split(numbered(10), 1.0)
    with pytest.raises(InvalidInput, match="must leave clusters in both parts of the log"):
        split(numbered(10, np.zeros(10, dtype=np.int64)), 0.5)


@few
def test_candidate_without_matches_is_not_chosen() -> None:
    log = replace(changing_log(100), chosen=np.repeat([2, 1], 50))
    result = tune(Stubborn(), log)
    assert [math.isnan(played.value) for played in result.candidates] == [True, True, False]
    assert result.best == Stubborn(place=2)
    assert math.isnan(result.value)
    with pytest.raises(InvalidInput, match="no candidate chose the logged arm in any"):
        tune([Stubborn(), Stubborn(place=1)], log)


def test_few_rows_cause_a_warning() -> None:
    with pytest.warns(UserWarning, match="the effective sample size of stubborn is only .* of 50 rows"):
        tune(Stubborn(), changing_log(100))


def test_invalid_input_is_rejected() -> None:
    log = changing_log(100)
    with pytest.raises(InvalidInput, match="optimist has no grid of settings to choose"):
        tune(Optimist(), log)
    with pytest.raises(UnknownName, match="unknown setting of epsilon-greedy 'explore'"):
        tune(EpsilonGreedy(), log, grid={"explore": (1.0,)})
    with pytest.raises(InvalidInput, match="the grid of epsilon-greedy has a setting"):
        tune(EpsilonGreedy(), log, grid={"exploration": ()})
    with pytest.raises(InvalidInput, match="candidates must be at least two policies"):
        tune([Uniform()], log)
    for no_settings in (Uniform, 3):
        with pytest.raises(InvalidInput, match="policy must be an instance"):
            tune(no_settings, log)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="policy must be an instance"):
        tune([Uniform(), Uniform], log)  # type: ignore[list-item]
    with pytest.raises(InvalidInput, match="grid needs a single policy"):
        tune([Uniform(), Stubborn()], log, grid={"place": (1,)})
    with pytest.raises(InvalidInput, match="seeds must be at least one seed"):
        tune(Stubborn(), log, seeds=[])
    with pytest.raises(InvalidInput, match="share must be a finite number above 0"):
        tune(Stubborn(), log, share=0.0)
