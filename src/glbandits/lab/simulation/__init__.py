"""Play policies against environments."""

from glbandits.lab.simulation.simulate import Run, Simulation, play_together, prepare, recorded_rounds, simulate

__all__ = [
    "Run",
    "Simulation",
    "play_together",
    "prepare",
    "recorded_rounds",
    "simulate",
]
