"""Regret of DOMD-GLB when theta changes, against Optimist and GLB-OMD.

The default half-life and exploration of DOMD-GLB were chosen on the development problems of `benchmarks drift`. This
table has its reporting problems, on other seeds.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.drift import REPORTING, ratio_text
from glbandits import Optimist
from glbandits.lab import simulate
from glbandits.lab.environments import Environment
from glbandits.policies import DomdGlb, GlbOmd
from glbandits.policies.algorithms.domd_glb import REWARDS_PER_DIMENSION
from glbandits.policies.contract import Policy

DEFAULT, SAME, AUTO, NONE = "domd", "opt same", "opt auto", "opt none"


def policies_for(environment: Any) -> Mapping[str, Policy]:
    """The policies of the table, by column."""
    link, half_life = environment.link, REWARDS_PER_DIMENSION * (environment.dim + 1)
    return {
        NONE: Optimist(link=link),
        SAME: Optimist(link=link, half_life=half_life),
        AUTO: Optimist(link=link, half_life="auto"),
        "glb-omd": GlbOmd(link=link),
        "domd x2": DomdGlb(link=link, half_life=2.0 * half_life),
        DEFAULT: DomdGlb(link=link),
        "domd /2": DomdGlb(link=link, half_life=0.5 * half_life),
    }


def report(
    problems: Mapping[str, Environment] = REPORTING, seeds: Sequence[int] = range(70_000, 70_020), horizon: int = 10_000
) -> None:
    """Print the mean regret of each policy, and ratios of the default of DOMD-GLB to Optimist. Takes 15 minutes."""
    half_life = f"{REWARDS_PER_DIMENSION:g} (d + 1)"
    print(f"Regret over {horizon} rounds, mean of {len(seeds)} seeds. opt: optimist without forgetting, with the")
    print(f'half-life of domd ({half_life} rewards, its default), and with half_life="auto"; domd also with the')
    print("double and half of it. Ratios with a 95 % bootstrap interval over seeds.")
    columns = (NONE, SAME, AUTO, "glb-omd", "domd x2", DEFAULT, "domd /2")
    print(f"  {'':36s} " + " ".join(f"{column:>8s}" for column in columns))
    for name, problem in problems.items():
        regret = {
            column: simulate(policy, problem, horizon, seeds, jobs=1, keep_choices=False).final_regret
            for column, policy in policies_for(problem).items()
        }
        print(f"  {name:36s} " + " ".join(f"{regret[column].mean():8.0f}" for column in columns))
        ratios = "; ".join(f"/ {column} {ratio_text(regret[DEFAULT], regret[column])}" for column in (NONE, SAME, AUTO))
        print(f"  {'':36s} domd {ratios}", flush=True)
