"""Play policies against environments (`simulate`), and over the news events of R6A files (`replay_r6a`)."""

from glbandits.lab.simulation.r6a_replay import R6aReplay, replay_r6a
from glbandits.lab.simulation.simulate import Run, Simulation, play_together, prepare, recorded_rounds, simulate

__all__ = [
    "R6aReplay",
    "Run",
    "Simulation",
    "play_together",
    "prepare",
    "recorded_rounds",
    "replay_r6a",
    "simulate",
]
