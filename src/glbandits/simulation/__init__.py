"""Play policies against environments, and replay logs with policies."""

from glbandits.extras import needed_for

with needed_for("glbandits.simulation", "lab"):
    from glbandits.simulation.replay import Replay, replay
    from glbandits.simulation.simulate import Run, Simulation, play_together, prepare, recorded_rounds, simulate

__all__ = ["Replay", "Run", "Simulation", "play_together", "prepare", "recorded_rounds", "replay", "simulate"]
