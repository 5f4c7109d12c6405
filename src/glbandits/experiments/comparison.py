"""Several policies on the same rounds."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from glbandits.environments import Environment
from glbandits.policies import Policy
from glbandits.simulation import Simulation, simulate

Comparison: TypeAlias = dict[str, Simulation]
"""A simulation for each label, all of the same environment, horizon and seeds."""


def compare(
    policies: Mapping[str, Policy],
    environment: Environment,
    horizon: int,
    seeds: int | Iterable[int],
    *,
    jobs: int = -1,
    progress: Callable[[str, int], None] | None = None,
) -> Comparison:
    """Simulate every policy on the same seeds.

    `progress` is called with a label and the rounds just played, first with 0 when the policy's turn begins.
    """
    chosen = seeds if isinstance(seeds, int) else tuple(seeds)
    comparison: Comparison = {}
    for label, policy in policies.items():

        def report(rounds: int, label: str = label) -> None:
            if progress is not None:
                progress(label, rounds)

        report(0)
        comparison[label] = simulate(
            policy, environment, horizon, chosen, jobs=jobs, keep_choices=False, progress=report
        )
    return comparison
