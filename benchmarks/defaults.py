"""The choice of default exploration: regret over a range of scales on two problems."""

import numpy as np

from glbandits.lab import Synthetic, simulate
from glbandits.policies import POLICIES
from glbandits.policies.contract import settings_of
from glbandits.policies.parsing import parse_policy

SCALES = (0.03, 0.1, 0.3, 0.5, 1.0, 2.0, 3.0)
SEEDS = range(10_000, 10_040)
"""No other result uses these seeds."""
PROBLEMS = {
    "moving": (Synthetic(dim=6, arms=100), 1000),
    "fixed": (Synthetic(dim=5, arms=20, fixed_arms=True, theta_norm=3.0), 3000),
}
"""The paper's simulation, and fixed arms, where too little exploration is costly."""


def report() -> None:
    """Print a row for each policy and scale; a star marks the default."""
    print(f"Mean regret over {len(SEEDS)} seeds; the mean is geometric, over both problems")
    print(f"  {'policy':18s} {'exploration':>11s} {'moving':>14s} {'fixed':>14s} {'mean':>7s}")
    for name, kind in POLICIES.items():
        default = settings_of(kind()).get("exploration")
        for scale in SCALES if default is not None else (None,):
            text = name if scale is None else f"{name}:exploration={scale}"
            cells, means = [], []
            for problem, horizon in PROBLEMS.values():
                policy = parse_policy(text, horizon=horizon, link="logistic")
                result = simulate(policy, problem, horizon, SEEDS, keep_choices=False)
                means.append(result.mean[-1])
                cells.append(f"{result.mean[-1]:7.1f} +- {result.standard_error[-1]:4.1f}")
            shown = "" if scale is None else f"{scale}{'*' if scale == default else ' '}"
            mean = np.exp(np.log(means).mean())
            print(f"  {name:18s} {shown:>12s} {cells[0]:>14s} {cells[1]:>14s} {mean:7.1f}")
