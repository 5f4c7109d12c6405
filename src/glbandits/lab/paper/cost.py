"""CPU time and memory of a run against T and d: sgd-ts, ucb-glm, glm-tsl and optimist.

Every policy has its default settings and the logistic link, with these exceptions:

- Against T, policies with a horizon setting get T.
- Against d, all runs have the same small number of rounds, and blocks or warm-ups of 20 rounds, because the default
  lengths grow with d and would exceed the run. ucb-glm and glm-tsl get ridge 1: with more features than rewards there
  is no maximum likelihood estimate, and a search for one after each reward takes longer (42 times as long for ucb-glm
  at d = 200 and 500 rounds). Their curves therefore show a favourable case.

All rounds have new arms. Repeated arms would be cheaper to generate, but ucb-glm and glm-tsl merge observations with
equal features, so their cost would appear not to grow with T.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from glbandits.common.errors import InvalidInput
from glbandits.lab.environments import Synthetic
from glbandits.lab.experiments.progress import Progress, no_progress
from glbandits.lab.paper.runtime import slope
from glbandits.lab.simulation import play_together, prepare, recorded_rounds
from glbandits.policies import GlmTsl, Optimist, SgdTs, UcbGlm
from glbandits.policies.contract import Policy

TITLE = "Cost of a run: CPU time and memory against T and d"
Axis = Literal["T", "d"]
AXES: tuple[Axis, ...] = ("T", "d")
POLICY_NAMES = ("sgd-ts", "ucb-glm", "glm-tsl", "optimist")
T_ARMS, T_DIM = 10, 6
"""K and d of the runs against T."""
D_ARMS, D_ROUNDS, D_WARM_UP = 4, 200, 20
"""K, T and the length of blocks and warm-ups of the runs against d."""
HORIZONS = tuple(2**k for k in range(10, 25))
"""T: 1,024 to 16.8 million. Powers of 2, because the capacity of a history doubles and is full at each of them."""
DIMENSIONS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
QUICK_HORIZONS, QUICK_DIMENSIONS = HORIZONS[:8], DIMENSIONS[:9]
BUDGET, QUICK_BUDGET = 16.0, 0.8
"""CPU seconds: a curve ends before the first size that is predicted to take longer."""
REPEATS, REPEAT_SECONDS, QUICK_REPEAT_SECONDS = 5, 1.0, 0.2
"""A size is run up to 5 times, until these CPU seconds are used up. The fastest run counts."""
FIT_POINTS = 3
"""Exponents are fitted to the upper half of the sizes, but to at least this many points."""


@dataclass(frozen=True)
class CostPoint:
    """The cost of one run."""

    size: int
    """T or d."""
    seconds: float
    """CPU seconds of choosing and learning in the whole run."""
    state_bytes: int
    """Size of the policy's state array after the run. The state is everything that the policy keeps."""


@dataclass(frozen=True)
class CostCurve:
    """The cost of one policy along one axis.

    It ends where the next size would exceed the budget.
    """

    policy: str
    axis: Axis
    points: tuple[CostPoint, ...]

    @property
    def fitted(self) -> tuple[CostPoint, ...]:
        """The points to which the exponents are fitted: the upper half of the sizes, at least 3.

        At small sizes other costs dominate: calls, the first block, and the d x d matrix in comparison with the
        history.
        """
        return self.points[max(0, min(len(self.points) // 2, len(self.points) - FIT_POINTS)) :]

    @property
    def time_slope(self) -> float:
        """The exponent p of CPU seconds ~ size^p, by least squares on logarithms."""
        return slope([point.size for point in self.fitted], [point.seconds for point in self.fitted])

    @property
    def memory_slope(self) -> float:
        """The exponent p of state bytes ~ size^p, by least squares on logarithms."""
        return slope([point.size for point in self.fitted], [point.state_bytes for point in self.fitted])


@dataclass(frozen=True)
class CostTable:
    """All curves, and how they were measured."""

    curves: tuple[CostCurve, ...]
    horizons: tuple[int, ...]
    """The sizes that were planned on the axis T."""
    dimensions: tuple[int, ...]
    """The sizes that were planned on the axis d."""
    budget_seconds: float
    """A curve ends before the first size that was predicted to take longer."""
    quick: bool
    t_arms: int = T_ARMS
    """K of the runs against T."""
    t_dim: int = T_DIM
    """d of the runs against T."""
    d_arms: int = D_ARMS
    """K of the runs against d."""
    d_rounds: int = D_ROUNDS
    """Rounds of the runs against d."""

    def curve(self, policy: str, axis: Axis) -> CostCurve:
        """Return the curve of a policy along an axis. Raises InvalidInput if it was not measured."""
        for curve in self.curves:
            if (curve.policy, curve.axis) == (policy, axis):
                return curve
        raise InvalidInput(f"The cost of {policy!r} against {axis!r} was not measured.")

    def sizes(self, axis: Axis) -> tuple[int, ...]:
        """Return the sizes that were planned on this axis."""
        return self.horizons if axis == "T" else self.dimensions

    def ended_early(self, curve: CostCurve) -> bool:
        """Return whether the budget ended the curve before the largest size."""
        return curve.points[-1].size < self.sizes(curve.axis)[-1]


def measure_cost(*, quick: bool = False, progress: Progress = no_progress) -> CostTable:
    """Measure all curves, one run after the other, in this thread.

    Args:
        quick: fewer and smaller sizes, and a smaller budget: about 6 s instead of 2 minutes, without compilation.
        progress: receives the number of sizes that are done, and of all sizes.
    """
    table = CostTable(
        curves=(),
        horizons=QUICK_HORIZONS if quick else HORIZONS,
        dimensions=QUICK_DIMENSIONS if quick else DIMENSIONS,
        budget_seconds=QUICK_BUDGET if quick else BUDGET,
        quick=quick,
    )
    total, done, curves = len(POLICY_NAMES) * (len(table.horizons) + len(table.dimensions)), 0, []
    for axis in AXES:
        size = table.sizes(axis)[0]
        prepare([policy_for(name, axis, size) for name in POLICY_NAMES], _problem(axis, size))
        for name in POLICY_NAMES:
            points: list[CostPoint] = []
            for size in table.sizes(axis):
                progress(f"cost of {name} at {axis} = {size:,}", float(done + len(points)), float(total))
                if predicted_seconds(points, size) > table.budget_seconds:
                    break
                points.append(_measure_point(name, axis, size, QUICK_REPEAT_SECONDS if quick else REPEAT_SECONDS))
            done += len(table.sizes(axis))
            curves.append(CostCurve(name, axis, tuple(points)))
    progress("cost measured", float(total), float(total))
    return CostTable(tuple(curves), table.horizons, table.dimensions, table.budget_seconds, quick)


def predicted_seconds(points: Sequence[CostPoint], size: int) -> float:
    """Extrapolate the CPU seconds of the last two points as a power of the size.

    Returns 0 for fewer points.

    >>> predicted_seconds([CostPoint(10, 1.0, 80), CostPoint(20, 4.0, 80)], 40)
    16.0
    """
    if len(points) < 2:
        return 0.0
    before, last = points[-2:]
    exponent = math.log(last.seconds / before.seconds) / math.log(last.size / before.size)
    return float(last.seconds * (size / last.size) ** exponent)


def policy_for(name: str, axis: Axis, size: int) -> Policy:
    """Return the policy with its settings for a size; see the docstring of the module."""
    if axis == "T":
        policies: dict[str, Policy] = {
            "sgd-ts": SgdTs(horizon=size),
            "ucb-glm": UcbGlm(horizon=size),
            "glm-tsl": GlmTsl(horizon=size),
            "optimist": Optimist(),
        }
    else:
        policies = {
            "sgd-ts": SgdTs(block_length=D_WARM_UP),
            "ucb-glm": UcbGlm(warm_up=D_WARM_UP, ridge=1.0),
            "glm-tsl": GlmTsl(warm_up=D_WARM_UP, ridge=1.0),
            "optimist": Optimist(),
        }
    return policies[name]


def _problem(axis: Axis, size: int) -> Synthetic:
    return Synthetic(dim=T_DIM, arms=T_ARMS) if axis == "T" else Synthetic(dim=size, arms=D_ARMS)


def _measure_point(name: str, axis: Axis, size: int, repeat_seconds: float) -> CostPoint:
    policy, problem = policy_for(name, axis, size), _problem(axis, size)
    rounds, seconds = size if axis == "T" else D_ROUNDS, list[float]()
    prepare([policy], problem)
    start = time.thread_time()
    while not seconds or (len(seconds) < REPEATS and time.thread_time() - start < repeat_seconds):
        (run,) = play_together([policy], problem, rounds, 1, recorded_rounds(rounds, 1), keep_state=True)
        seconds.append(run.seconds)
    assert run.state is not None
    return CostPoint(size, max(min(seconds), time.get_clock_info("thread_time").resolution), run.state.nbytes)
