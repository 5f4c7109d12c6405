"""Play policies against environments."""

from glbandits.lab.simulation.simulate import play_together, prepare, recorded_rounds, simulate
from glbandits.lab.simulation.simulated_runs import Run, Simulation

__all__ = [
    "Run",
    "Simulation",
    "play_together",
    "prepare",
    "recorded_rounds",
    "simulate",
]
