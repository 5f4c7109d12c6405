"""Coverage of intervals on logs of a policy that learns: `python -m benchmarks coverage`.

Every log is written by `Optimist` while it learns. For each floor, kind of arms and target this counts how often an
interval contains the true value after 1,000 to 10,000 rows, and how often the anytime-valid interval contains it at
all of 100 intermediate evaluations (looks). Rewards are 0 and 1, and in the last kind of logs numbers with little
noise. `GLBANDITS_LOGS` sets the number of logs of each kind, 200 by default.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks.learning_logs import DIM, LearningLog, learning_log
from glbandits.evaluation import evaluate
from glbandits.evaluation.estimators.anytime import AnytimeSums
from glbandits.evaluation.estimators.estimator import Interval
from glbandits.evaluation.estimators.log_rows import RowReader
from glbandits.evaluation.estimators.measures import Measure
from glbandits.evaluation.models.reward_models import SequentialGlm
from glbandits.maths.links import find_link

ROWS = (1000, 2000, 5000, 10_000)
LOOKS = 100
TARGETS = ("uniform", "good", "bad", "final")
METHODS = ("normal ips", "normal snips", "normal dr", "fixed n", "anytime")


class Kind(NamedTuple):
    """A kind of logs: arguments of `learning_log`."""

    floor: float
    varying: bool
    concentration: float = 0.0

    def __str__(self) -> str:
        rewards = f", beta rewards of concentration {self.concentration:g}" if self.concentration else ""
        return f"floor {self.floor}, arms that {'vary' if self.varying else 'stay the same'}{rewards}"


KINDS = (*(Kind(floor, varying) for floor in (0.05, 0.1, 0.2) for varying in (True, False)), Kind(0.2, True, 20.0))


class Outcome(NamedTuple):
    """Coverage for one log and target."""

    target: str
    covered: tuple[tuple[bool, ...], ...]
    """For each of `ROWS`, whether each of `METHODS` contains the true value."""
    widths: tuple[tuple[float, ...], ...]
    at_all_looks: bool
    """Whether the anytime-valid interval contains it at every look."""


def outcomes_of(seed: int, kind: Kind) -> list[Outcome]:
    """Simulate a log and evaluate all targets on it."""
    simulated = learning_log(seed, ROWS[-1], **kind._asdict())
    return [_outcome(simulated, target) for target in TARGETS]


def _outcome(simulated: LearningLog, target: str) -> Outcome:
    log, truth, probabilities = simulated.log, simulated.values[target], simulated.targets[target]
    covered, widths = [], []
    for rows in ROWS:
        evaluation = evaluate(log[:rows], probabilities[:rows])
        assert evaluation.headline is not None
        fixed, anytime = evaluation.headline.value.fixed_n, evaluation.headline.value.interval
        intervals = [evaluation[name].normal for name in ("ips", "snips", "dr")]
        intervals += [interval or Interval(0.0, 1.0) for interval in (fixed, anytime)]
        covered.append(tuple(interval.low <= truth <= interval.high for interval in intervals))
        widths.append(tuple(interval.high - interval.low for interval in intervals))
    return Outcome(target, tuple(covered), tuple(widths), _covers_at_all_looks(simulated, target))


def _covers_at_all_looks(simulated: LearningLog, target: str) -> bool:
    sequence, step = AnytimeSums(Measure.VALUE, (0.0, 1.0)), ROWS[-1] // LOOKS
    reader = RowReader((0.0, 1.0), None, SequentialGlm(find_link("logistic"), DIM))
    for start in range(0, ROWS[-1], step):
        rows = reader.read(simulated.log[start : start + step])
        sequence.add(rows, Measure.VALUE.of_rows(rows, simulated.targets[target][start : start + step]))
        now = sequence.interval(0.95)
        if not now.low <= simulated.values[target] <= now.high:
            return False
    return True


def report() -> None:
    """Print a table for each floor and kind of arms."""
    logs = int(os.environ.get("GLBANDITS_LOGS", "200"))
    print(f"coverage of 95 % intervals, and their mean width in units of that of normal dr; {logs} logs of each kind")
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for kind in KINDS:
            work = partial(outcomes_of, kind=kind)
            outcomes = [outcome for outcomes_of_log in pool.map(work, range(logs)) for outcome in outcomes_of_log]
            print(f"\n{kind}")
            print("\n".join(_lines(outcomes)))


def _lines(outcomes: list[Outcome]) -> Iterator[str]:
    yield f"{'target':8s} {'rows':>6s} " + " ".join(f"{name:>14s}" for name in METHODS) + "   at all looks"
    for target in TARGETS:
        of_target = [outcome for outcome in outcomes if outcome.target == target]
        covered = np.mean([outcome.covered for outcome in of_target], axis=0)
        widths = np.mean([outcome.widths for outcome in of_target], axis=0)
        always = np.mean([outcome.at_all_looks for outcome in of_target])
        for index, rows in enumerate(ROWS):
            relative = widths[index] / widths[index, METHODS.index("normal dr")]
            cells = " ".join(f"{c:7.3f} {w:5.2f}x" for c, w in zip(covered[index], relative, strict=True))
            yield f"{target:8s} {rows:6d} {cells}" + (f"   {always:.3f}" if rows == ROWS[-1] else "")
