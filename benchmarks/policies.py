"""Every policy on the paper's simulation: seconds a run, the ratio to SGD-TS beside the paper's, growth in T and d."""

from benchmarks.timing import slope
from glbandits import POLICIES, Policy
from glbandits.cli.policy_text import parse_policy
from glbandits.environments import Synthetic
from glbandits.simulation import simulate

PAPER_SECONDS = {
    "ucb-glm": 2.024,
    "laplace-ts": 0.964,
    "gloc": 0.330,
    "glm-tsl": 8.253,
    "supcb-glm": 4.609,
    "epsilon-greedy": 2.020,
    "sgd-ts": 0.099,
}
"""Table 1 of the paper, simulation column. Its SupCB-GLM is another algorithm (docs/theory/supcb-glm.md)."""

HORIZONS, DIMENSIONS = (500, 1000, 2000), (6, 12, 24)


def report() -> None:
    """Print a row for each policy."""
    print("A run of T=1000, K=100, d=6, logistic (least CPU seconds of 5 runs)")
    print(f"  {'policy':16s} {'seconds':>9s} {'/ sgd-ts':>9s} {'paper':>7s} {'T^':>6s} {'d^':>6s}")
    measured = {name: min(seconds(name), seconds(name)) for name in POLICIES}
    base = measured["sgd-ts"]
    for name, ours in measured.items():
        paper = f"{PAPER_SECONDS[name] / PAPER_SECONDS['sgd-ts']:7.1f}" if name in PAPER_SECONDS else "      -"
        in_T = slope(HORIZONS, [seconds(name, horizon=horizon) for horizon in HORIZONS])
        in_d = slope(DIMENSIONS, [seconds(name, dim=dim) for dim in DIMENSIONS])
        print(f"  {name:16s} {ours:9.5f} {ours / base:9.1f} {paper} {in_T:6.2f} {in_d:6.2f}")
    print(f"  (T^ and d^: fitted exponents over T = {HORIZONS} and d = {DIMENSIONS})")


def seconds(name: str, horizon: int = 1000, dim: int = 6) -> float:
    """The least CPU seconds that the policy itself takes for a run."""
    policy: Policy = parse_policy(name, horizon=horizon, link="logistic")
    problem = Synthetic(dim=dim, arms=100)
    return float(simulate(policy, problem, horizon, 5, jobs=1, keep_choices=False).seconds.min())
