"""The simulation (Figure 1, left): new arms each round, T=1000, K=100, d=6, logistic."""

from glbandits.environments import Synthetic
from glbandits.experiments.contest import Experiment
from glbandits.experiments.paper.contestants import the_seven

HORIZON = 1000

EXPERIMENT = Experiment(
    name="simulation",
    title="Simulation: T=1000, K=100, d=6, logistic",
    environment=Synthetic(dim=6, arms=100, link="logistic"),
    horizon=HORIZON,
    contestants=the_seven(HORIZON),
    note="Features and theta* are uniform in [-1/sqrt(d), 1/sqrt(d)], drawn anew for each seed.",
)
