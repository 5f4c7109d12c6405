import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from glbandits import Bandit, InvalidInput, Uniform
from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.compilation.numba_support import jittable
from glbandits.lab import R6aReplay, read_events, replay_r6a, write_simulated_news
from glbandits.lab.environments import r6a
from glbandits.maths.links import LinkFunctions
from tests.counting_policy import Counting

USER = b"|user 2:0.1 3:0.2 4:0.3 5:0.2 6:0.2 1:1.000000 "
FEATURES = np.concatenate([np.ones((5, 1)), np.eye(5)], axis=1)
"""An article for each of the features 2 to 6."""
CLICK_RATES = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
"""The click probability of each article."""


@dataclass(frozen=True, kw_only=True)
class Largest(Uniform):
    """Pull the arm with the largest feature 3, whatever was learned."""

    name: ClassVar[str] = "largest"

    @staticmethod
    @jittable
    def choose(_state: Floats, _settings: Floats, arms: Floats, _rng: Generator, _link: LinkFunctions) -> int:
        best = 0
        for arm in range(arms.shape[0]):
            if arms[arm, 2] > arms[best, 2]:
                best = arm
        return best


def write_log(path: Path, displayed: Ints, clicks: Ints, features: Floats = FEATURES) -> Path:
    pool = b" ".join(
        b"|%d " % article + b" ".join(b"%d:%.6f" % (key + 1, value) for key, value in enumerate(row))
        for article, row in enumerate(features)
    )
    events = zip(displayed.tolist(), clicks.tolist(), strict=True)
    path.write_bytes(b"".join(b"300 %d %d " % event + USER + pool + b"\n" for event in events))
    return path


def random_log(path: Path, events: int, seed: int) -> Path:
    """Write a log in which articles are displayed at random, and clicked with CLICK_RATES."""
    rng = np.random.default_rng(seed)
    displayed = rng.integers(5, size=events)
    return write_log(path, displayed, (rng.random(events) < CLICK_RATES[displayed]).astype(np.int64))


def test_only_events_with_the_chosen_article_match(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", np.array([0, 1, 1, 2, 1]), np.array([1, 1, 0, 1, 1]))
    result = replay_r6a(Largest(), [log], seed=1)  # article 1 has feature 3
    assert (result.events, result.matched, result.clicks) == (5, 3, 2)
    assert result.ctr == 2 / 3
    assert result.standard_error == pytest.approx(math.sqrt(2 / 27))
    assert result.at_events.tolist() == [1, 2, 3, 4, 5]
    assert result.at_matched.tolist() == [0, 1, 2, 2, 3]
    np.testing.assert_array_equal(result.running_ctr, [math.nan, 1.0, 1 / 2, 1 / 2, 2 / 3])
    assert not result.simulated


def test_click_rate_of_a_fixed_policy_is_unbiased(tmp_path: Path) -> None:
    log = random_log(tmp_path / "log", 20_000, seed=5)
    for policy, rate in ((Largest(), CLICK_RATES[1]), (Uniform(), CLICK_RATES.mean())):
        result = replay_r6a(policy, [log], seed=2)
        # One event in five matches, whatever the policy; five standard errors each: once in a million logs.
        assert result.matched / 20_000 == pytest.approx(0.2, abs=5 * math.sqrt(0.2 * 0.8 / 20_000))
        assert result.ctr == pytest.approx(rate, abs=5 * math.sqrt(rate * (1 - rate) / result.matched))


def live_clicks(seed: int, rounds: int) -> int:
    rng, bandit, clicks = np.random.default_rng(seed), Bandit(Counting(), dim=6, seed=seed), 0
    for _ in range(rounds):
        arm = bandit.choose(FEATURES)
        click = float(rng.random() < CLICK_RATES[arm])
        bandit.learn(FEATURES[arm], click)
        clicks += int(click)
    return clicks


@pytest.mark.statistics
def test_click_rate_of_a_learning_policy_matches_online_play(tmp_path: Path) -> None:
    runs, rounds = 100, 40
    live = np.array([live_clicks(seed, rounds) for seed in range(runs)])
    replayed = np.empty(runs)
    for seed in range(runs):
        # 600 events give 120 matches, give or take 10: fewer than 40 is eight standard deviations away.
        result = replay_r6a(Counting(), [random_log(tmp_path / "log", 600, seed)], seed=1000 + seed)
        replayed[seed] = result.at_clicks[np.searchsorted(result.at_matched, rounds)]
    # Clicks spread by about 4 a run, so the difference of two means of 100 by 0.6. Four standard errors: once in
    # 15,000 sets of seeds. Uniform play would have 20, and the best 36.
    error = math.sqrt((live.var(ddof=1) + replayed.var(ddof=1)) / runs)
    assert error < 1.0
    assert replayed.mean() == pytest.approx(live.mean(), abs=4 * error)
    assert live.mean() > 24


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    return write_simulated_news(tmp_path_factory.mktemp("news"), days=1, events_per_day=5760, seed=1)


def by_hand(files: tuple[Path, ...], seed: int, limit: int) -> tuple[int, int, int]:
    bandit, events, matched, clicks = Bandit(Counting(), dim=6, seed=seed), 0, 0, 0
    for batch in read_events(files):
        for row, place, click in zip(batch.displayed, batch.pool, batch.clicks, strict=True):
            if row >= 0 and events < limit:
                events += 1
                arms = batch.pools[place].features
                if bandit.choose(arms) == row:
                    bandit.learn(arms[row], float(click))
                    matched, clicks = matched + 1, clicks + int(click)
    return events, matched, clicks


@pytest.mark.parametrize("limit", [None, 3000])
def test_replay_makes_the_choices_of_a_bandit(simulated: tuple[Path, ...], limit: int | None) -> None:
    result = replay_r6a(Counting(), simulated, seed=3, limit=limit)
    assert (result.events, result.matched, result.clicks) == by_hand(simulated, 3, limit or 10**9)
    assert result.simulated
    if limit is None:
        assert result.counts.events == 5760 > result.events  # some displayed an article that is left out
    else:
        assert result.events == limit


def curve(result: R6aReplay) -> list[list[int]]:
    return [values.tolist() for values in (result.at_events, result.at_matched, result.at_clicks)]


def test_result_does_not_depend_on_read_size(simulated: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    uncut = replay_r6a(Counting(), simulated, seed=3, points=50)
    monkeypatch.setattr(r6a, "BLOCK", 30_000)
    cut = replay_r6a(Counting(), simulated, seed=3, points=50, progress=read.append)
    assert curve(cut) == curve(uncut)
    assert sum(read) == 5760
    assert len(read) > 100


def test_click_rate_is_nan_without_matches(tmp_path: Path) -> None:
    result = replay_r6a(Largest(), [write_log(tmp_path / "log", np.array([0, 3]), np.array([1, 1]))], seed=1)
    assert (result.events, result.matched, result.clicks) == (2, 0, 0)
    assert math.isnan(result.ctr)
    assert math.isnan(result.standard_error)


def test_invalid_arguments_are_errors(tmp_path: Path) -> None:
    log = random_log(tmp_path / "log", 5, seed=1)
    with pytest.raises(InvalidInput, match="policy must be an instance"):
        replay_r6a(Counting, [log], seed=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="limit must be a whole number of at least 1"):
        replay_r6a(Uniform(), [log], seed=1, limit=0)
    with pytest.raises(InvalidInput, match="points must be a whole number of at least 1"):
        replay_r6a(Uniform(), [log], seed=1, points=0)
    with pytest.raises(InvalidInput, match="seed must be a whole number"):
        replay_r6a(Uniform(), [log], seed=-1)
