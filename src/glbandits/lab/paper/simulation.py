"""The simulation (Figure 1): new arms in each round, T=1000, K=100, d=6, logistic link."""

from glbandits.lab.environments import Synthetic
from glbandits.lab.experiments.experiment import Experiment
from glbandits.lab.paper.compared_policies import later_policies, paper_policies

NAME, HORIZON, ARMS, DIM = "simulation", 1000, 100, 6


def experiment() -> Experiment:
    """Return the experiment of the paper's section on simulations."""
    return Experiment(
        name=NAME,
        title=f"Simulation: T={HORIZON}, K={ARMS}, d={DIM}, logistic",
        environment=Synthetic(dim=DIM, arms=ARMS, link="logistic"),
        horizon=HORIZON,
        entries=paper_policies(HORIZON),
        extras=later_policies(),
        note="Features and theta* are uniform in [-1/sqrt(d), 1/sqrt(d)], and different for each seed.",
    )
