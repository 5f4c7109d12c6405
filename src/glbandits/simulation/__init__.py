"""Playing a policy against an environment, many times over."""

from glbandits.simulation.simulate import Simulation, simulate

__all__ = ["Simulation", "simulate"]
