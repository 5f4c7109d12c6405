"""Logs with a known truth, some as assumed and some not, for `benchmarks.verdicts`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from glbandits.common.arrays import Bools, Floats, Ints
from glbandits.evaluation import Columns, CrossedArms, FixedArms, LoggedData, open_log, train
from glbandits.evaluation.logs.logged_data import Log
from glbandits.policies import LinUcb

ROWS, ARMS, DIM = 6000, 4, 4
NAMES = tuple("abcdefghijkl")


@dataclass(frozen=True, kw_only=True)
class TruthfulLog:
    """A log, its candidates, and their true gains."""

    log: Log
    candidates: Mapping[str, Any]
    gains: Mapping[str, float]
    """The value of each candidate minus that of the logging policy as it is after the last row."""
    row_gains: Mapping[str, Floats]
    """The same on each row, minus that of the logging policy at this row."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the comparison."""
    are_slates: bool = False
    """Whether the rows of a cluster are the slots of a slate. Gains are then those of slates."""

    def gain_on_rows(self, label: str, first: int) -> float:
        """Return the true gain of a candidate on the rows from the first one on."""
        return float(self.row_gains[label][first:].mean())


@dataclass(frozen=True, kw_only=True)
class World:
    """The rows of a log before anything is wrong with it."""

    contexts: Floats
    """(rows, DIM); one column of ones if there is no context."""
    means: Floats
    """The mean reward of each arm in each row, (rows, arms)."""
    logging: Floats
    """The probability of each arm in each row, (rows, arms)."""
    chosen: Ints
    rewards: Floats
    today: Floats
    """What the logging policy of the last row would choose in each row, (rows, arms)."""
    means_today: Floats

    def made(self, log: Log | None = None, *, only_chosen: bool = False, **settings: Any) -> TruthfulLog:
        """Return a log with candidates: uniform, an arm, and a personal rule that is slightly wrong."""
        names, arms = NAMES[: self.means.shape[1]], self.means.shape[1]
        targets = {"uniform": np.full(self.means.shape, 1.0 / arms)}
        targets["b"] = np.tile(np.eye(arms)[1], (len(self.means), 1))
        given = self.data(only_chosen=only_chosen) if log is None else log
        return TruthfulLog(
            log=given,
            candidates={"uniform": "uniform", "b": f"arm:{names[1]}"},
            gains={label: _mean(each - self.today, self.means_today) for label, each in targets.items()},
            row_gains={label: ((each - self.logging) * self.means).sum(axis=1) for label, each in targets.items()},
            settings=settings,
        )

    def data(self, *, only_chosen: bool = False, **changes: Any) -> LoggedData:
        """Return the log."""
        arms, rows = self.means.shape[1], len(self.means)
        has_context = self.contexts.shape[1] > 1
        values: dict[str, Any] = {
            "chosen": self.chosen,
            "rewards": self.rewards,
            "arms": CrossedArms(self.contexts, np.eye(arms)) if has_context else FixedArms(np.eye(arms), rows=rows),
            "arm_names": NAMES[:arms],
        }
        of_chosen = self.logging[np.arange(rows), self.chosen]
        values |= {"propensities": of_chosen} if only_chosen else {"probabilities": self.logging}
        return LoggedData(**(values | changes))

    def table(self) -> dict[str, Any]:
        """Return the log as columns."""
        columns: dict[str, Any] = {"arm": np.array(NAMES)[self.chosen], "reward": self.rewards}
        columns |= {f"p_{name}": self.logging[:, arm] for arm, name in enumerate(NAMES[: self.means.shape[1]])}
        if self.contexts.shape[1] > 1:
            columns |= {f"x{index}": column for index, column in enumerate(self.contexts.T)}
        return columns

    def __getitem__(self, rows: Ints | slice) -> "World":
        return World(**{name: getattr(self, name)[rows] for name in World.__dataclass_fields__})


def _mean(measure: Floats, means: Floats) -> float:
    return float((measure * means).sum(axis=1).mean())


def _softmax(scores: Floats, floor: float = 0.05) -> Floats:
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    mixed: Floats = (1.0 - floor * scores.shape[1]) * shares + floor
    return mixed


def _draw(rng: np.random.Generator, probabilities: Floats) -> Ints:
    above = (rng.random((len(probabilities), 1)) > np.cumsum(probabilities, axis=1)).sum(axis=1)
    drawn: Ints = np.minimum(above, probabilities.shape[1] - 1)
    return drawn


def world(
    rng: np.random.Generator,
    rows: int = ROWS,
    *,
    arms: int = ARMS,
    context: bool = True,
    base: float = -1.5,
    logging: Callable[[Floats, Floats], tuple[Floats, Floats]] | None = None,
    means: Floats | None = None,
) -> World:
    """Simulate a log. Half of the worlds have arms that are equally good on average.

    Args:
        rng: the source of all random numbers.
        rows: of the log.
        arms: in each row.
        context: whether rewards depend on a context.
        base: the log odds of a reward.
        logging: returns the probabilities of the logging policy, and those of today, from contexts and true means.
        means: the mean rewards, (rows, arms), instead of simulated ones.
    """
    contexts = rng.normal(size=(rows, DIM)) if context else np.ones((rows, 1))
    effects = rng.normal(size=(DIM, arms)) * 0.4
    levels = rng.normal(size=arms) * (0.25 if rng.random() < 0.5 else 0.0)
    if means is None:
        scores = base + levels + (contexts @ effects if context else 0.0)
        means = 1.0 / (1.0 + np.exp(-np.broadcast_to(scores, (rows, arms))))
    if logging is None:
        rule = rng.normal(size=(contexts.shape[1], arms)) * 0.5
        probabilities = today = _softmax(contexts @ rule)
    else:
        probabilities, today = logging(contexts, means)
    chosen = _draw(rng, probabilities)
    rewards = (rng.random(rows) < means[np.arange(rows), chosen]).astype(float)
    return World(
        contexts=contexts,
        means=means,
        logging=probabilities,
        chosen=chosen,
        rewards=rewards,
        today=today,
        means_today=means,
    )


def changed(share_of_good: Callable[[Floats], Floats], **options: Any) -> Callable[[np.random.Generator], TruthfulLog]:
    """Logs of a policy that mixes a uniform and a good rule, whose share depends on the time between 0 and 1."""

    def make(rng: np.random.Generator) -> TruthfulLog:
        def logging(contexts: Floats, means: Floats) -> tuple[Floats, Floats]:
            good = _softmax(8.0 * means, 0.02)
            share = share_of_good(np.linspace(0.0, 1.0, len(contexts)))[:, np.newaxis]
            today = share[-1] * good + (1.0 - share[-1]) / means.shape[1]
            return share * good + (1.0 - share) / means.shape[1], today

        return world(rng, logging=logging, **options).made()

    return make


def changed_assignment(rng: np.random.Generator) -> TruthfulLog:
    """The shares of all arms stay, but another half of the contexts gets the good arms from 60 % of the rows on."""

    def logging(contexts: Floats, means: Floats) -> tuple[Floats, Floats]:
        rule = rng.normal(size=(contexts.shape[1], means.shape[1]))
        late = (np.arange(len(contexts)) >= 0.6 * len(contexts))[:, np.newaxis]
        return _softmax(np.where(late, 1.0, -1.0) * (contexts @ rule)), _softmax(contexts @ rule)

    return world(rng, logging=logging).made()


def changed_rewards(rng: np.random.Generator) -> TruthfulLog:
    """The arm b is good at first, and bad in the last third of the rows."""
    means = np.tile([0.2, 0.3, 0.2, 0.2], (ROWS, 1))
    means[2 * ROWS // 3 :, 1] = 0.1
    made = world(rng, context=False, means=means)
    return replace(made, means_today=np.tile(means[-1], (ROWS, 1))).made()


def learning(rng: np.random.Generator) -> TruthfulLog:
    """The logging policy learns mean rewards of arms, and today's is what it has become after the last row."""
    true = np.array([0.15, 0.25, 0.2, 0.2]) + rng.normal(size=4) * 0.03
    probabilities, counts, wins = np.empty((ROWS, 4)), np.ones(4), np.full(4, 0.2)
    draws, uniforms = rng.random(ROWS), rng.random(ROWS)
    for row in range(ROWS):
        scores = np.exp(40.0 * min(1.0, row / 2000) * (wins / counts))
        probabilities[row] = 0.8 * scores / scores.sum() + 0.05
        arm = int(min(3, (draws[row] > np.cumsum(probabilities[row])).sum()))
        counts[arm] += 1.0
        wins[arm] += uniforms[row] < true[arm]
    chosen = np.minimum(3, (draws[:, np.newaxis] > np.cumsum(probabilities, axis=1)).sum(axis=1))
    means = np.tile(true, (ROWS, 1))
    return World(
        contexts=np.ones((ROWS, 1)),
        means=means,
        logging=probabilities,
        chosen=chosen,
        rewards=(uniforms < true[chosen]).astype(float),
        today=np.tile(probabilities[-1], (ROWS, 1)),
        means_today=means,
    ).made()


def clusters(rng: np.random.Generator) -> TruthfulLog:
    """Interleaved decisions for 600 users, who differ in how often they reward any arm."""
    users = rng.integers(0, 600, ROWS)
    level = rng.normal(size=600)[users][:, np.newaxis]
    means = 1.0 / (1.0 + np.exp(-(np.array([-1.5, -1.4, -1.5, -1.6]) + 0.7 * level)))
    made = world(rng, context=False, means=means)
    return made.made(made.data(clusters=users))


def copied(rows_of: Callable[[np.random.Generator], Ints], *, context: bool) -> Callable[..., TruthfulLog]:
    """Logs of which some rows are repeated."""

    def make(rng: np.random.Generator) -> TruthfulLog:
        made = world(rng, context=context)
        return made.made(made[rows_of(rng)].data())

    return make


def sorted_by(key: Callable[[World], Any], *, context: bool = True) -> Callable[..., TruthfulLog]:
    """Logs whose rows are in another order."""

    def make(rng: np.random.Generator) -> TruthfulLog:
        made = world(rng, context=context)
        return made[np.argsort(key(made), kind="stable")].made()

    return make


def reversed_with_time(rng: np.random.Generator) -> TruthfulLog:
    """The newest row is the first one, of a logger that changed. The time is in a column that nobody names."""
    made = world(rng, logging=lambda _, means: _uniform_then_good(means))[np.arange(ROWS)[::-1]]
    times = np.datetime64("2025-01-01", "ms") + np.arange(ROWS)[::-1] * np.timedelta64(600_000, "ms")
    import polars as pl

    frame = pl.DataFrame(made.table() | {"created": times})
    columns = Columns(probabilities="p_{arm}", propensity=None, context=tuple(f"x{i}" for i in range(DIM)))
    return made.made(open_log(frame, columns))


def _uniform_then_good(means: Floats) -> tuple[Floats, Floats]:
    good, late = _softmax(8.0 * means, 0.02), (np.arange(len(means)) > 0.7 * len(means))[:, np.newaxis]
    return np.where(late, good, 1.0 / means.shape[1]), good


def leaked(rng: np.random.Generator, column: Callable[[np.random.Generator, Floats], Floats]) -> TruthfulLog:
    """A column of the context depends on the reward."""
    means = np.tile([0.15, 0.3, 0.2, 0.1], (ROWS, 1))
    made = world(rng, means=means)
    contexts = np.column_stack([made.contexts, column(rng, made.rewards)])
    return made.made(made.data(arms=CrossedArms(contexts, np.eye(ARMS))))


def wrong_propensities(rng: np.random.Generator) -> TruthfulLog:
    """The log says that arms were chosen at random, but they depend on the context."""
    made = world(rng)
    uniform = np.full((ROWS, ARMS), 1.0 / ARMS)
    return made.made(made.data(probabilities=uniform))


def deterministic(rng: np.random.Generator) -> TruthfulLog:
    """The logging policy explores in a fifth of the contexts, and always chooses the same arm in the others."""

    def logging(contexts: Floats, means: Floats) -> tuple[Floats, Floats]:
        fixed = np.tile(np.eye(ARMS)[0], (len(means), 1))
        probabilities = np.where(contexts[:, :1] > 0.84, 1.0 / ARMS, fixed)
        return probabilities, probabilities

    return world(rng, logging=logging).made()


def rare(rewards: int) -> Callable[[np.random.Generator], TruthfulLog]:
    """Logs of 30,000 rows with about so many rewards, and the propensities of chosen arms only."""

    def make(rng: np.random.Generator) -> TruthfulLog:
        rate = rewards / 30_000
        means = np.tile(rate * np.array([0.8, 1.2, 1.0, 1.0]), (30_000, 1))
        return world(rng, 30_000, context=False, means=means).made(only_chosen=True)

    return make


def slates(rng: np.random.Generator, *, shown: int = ARMS) -> TruthfulLog:
    """Slates of two slots, which are filled independently. Only the first `shown` arms are in the log."""
    values = rng.normal(size=ARMS) * (0.05 if rng.random() < 0.5 else 0.0) + 0.3
    logging = np.zeros((2, ARMS))
    logging[:, :shown] = _softmax(rng.normal(size=(2, shown)) * 0.5)
    chosen = _draw(rng, np.tile(logging, (ROWS // 2, 1)))
    targets = {"uniform": np.full(ARMS, 1.0 / ARMS), "b": np.eye(ARMS)[1]}
    gains = {label: float((2.0 * each - logging.sum(axis=0)) @ values) for label, each in targets.items()}
    log = LoggedData(
        chosen=chosen,
        rewards=(rng.random(ROWS) < values[chosen]).astype(float),
        propensities=logging[np.arange(ROWS) % 2, chosen],
        arms=FixedArms(np.eye(ARMS), rows=ROWS),
        clusters=np.arange(ROWS) // 2,
        arm_names=NAMES[:ARMS],
        link="logistic",
    )
    return TruthfulLog(
        log=log, candidates={"uniform": "uniform", "b": "arm:b"}, gains=gains, row_gains={}, are_slates=True
    )


def trained_on_it(rng: np.random.Generator) -> TruthfulLog:
    """All arms are equally good, and a saved model has learned the first two thirds of the rows."""
    log = world(rng, means=np.full((ROWS, ARMS), 0.2)).data()
    model = train(log[: 2 * ROWS // 3], LinUcb(), progress=lambda *_: None)
    return TruthfulLog(log=log, candidates={"model": model}, gains={"model": 0.0}, row_gains={"model": np.zeros(ROWS)})


def heavy_revenue(rng: np.random.Generator) -> TruthfulLog:
    """A few rows have most of the revenue."""
    made = world(rng)
    amounts = np.exp(2.0 * rng.normal(size=ROWS))
    mean = float(np.exp(2.0))
    made = replace(made, rewards=made.rewards * amounts, means=made.means * mean, means_today=made.means_today * mean)
    return made.made()


def _appended(rng: np.random.Generator) -> Ints:
    start = int(rng.integers(0, ROWS // 2))
    return np.concatenate([np.arange(ROWS), np.arange(start, start + ROWS // 3)])


def _joined(rng: np.random.Generator) -> Ints:
    return np.repeat(np.arange(ROWS), 1 + rng.poisson(0.4, ROWS))


def _step(at: float) -> Callable[[Floats], Floats]:
    return lambda time: (time > at).astype(float)


def _status(_: np.random.Generator, rewards: Floats) -> Floats:
    return rewards


def _minutes(rng: np.random.Generator, rewards: Floats) -> Floats:
    times: Floats = np.log(rng.exponential(1.0 + 9.0 * rewards))
    return times


def _half_known(rng: np.random.Generator, rewards: Floats) -> Floats:
    return rewards * (rng.random(len(rewards)) < 0.5)


Kinds = Mapping[str, Callable[[np.random.Generator], TruthfulLog]]
KINDS: Kinds = {
    "as assumed": lambda rng: world(rng).made(),
    "as assumed: chosen p": lambda rng: world(rng, context=False).made(only_chosen=True),
    "as assumed: few contexts": lambda rng: _few_contexts(rng),
    "as assumed: 12 arms": lambda rng: world(rng, arms=12, context=False).made(),
    "as assumed: time in context": lambda rng: _timed(rng),
    "two arms": lambda rng: world(rng, arms=2).made(only_chosen=True),
    "clusters": clusters,
    "learning logger": learning,
    "changed at 70 %": changed(_step(0.7)),
    "changed slowly": changed(lambda time: time),
    "changed and back": changed(lambda time: ((time * 4.999).astype(int) % 2 == 0).astype(float)),
    "changed at 93 %": changed(_step(0.93)),
    "changed assignment": changed_assignment,
    "changed rewards": changed_rewards,
    "copies appended": copied(_appended, context=True),
    "copies by a join": copied(_joined, context=True),
    "tripled: no context": copied(lambda rng: rng.permutation(np.tile(np.arange(ROWS), 3)), context=False),
    "copies: no context": copied(_appended, context=False),
    "sorted by reward": sorted_by(lambda made: made.rewards),
    "sorted by arm": sorted_by(lambda made: made.chosen),
    "sorted by reward in days": sorted_by(lambda made: np.arange(ROWS) // 600 - made.rewards / 2),
    "newest first": reversed_with_time,
    "leaked status": lambda rng: leaked(rng, _status),
    "leaked minutes": lambda rng: leaked(rng, _minutes),
    "leaked half": lambda rng: leaked(rng, _half_known),
    "wrong propensities": wrong_propensities,
    "deterministic": deterministic,
    "20 rewards": rare(20),
    "50 rewards": rare(50),
    "100 rewards": rare(100),
    "heavy revenue": heavy_revenue,
    "trained on two thirds": trained_on_it,
    "slates": slates,
    "slates: arm never shown": lambda rng: slates(rng, shown=ARMS - 1),
}


def _few_contexts(rng: np.random.Generator) -> TruthfulLog:
    contexts: Bools = rng.random((ROWS, DIM)) < 0.3
    made = world(rng)
    return made.made(made.data(arms=CrossedArms(contexts.astype(float), np.eye(ARMS))))


def _timed(rng: np.random.Generator) -> TruthfulLog:
    made = world(rng)
    contexts = np.column_stack([made.contexts, np.linspace(-2.0, 2.0, ROWS)])
    return made.made(made.data(arms=CrossedArms(contexts, np.eye(ARMS))))
