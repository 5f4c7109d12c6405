"""A policy at work: settings, state and randomness behind the online API."""

from glbandits.bandit.bandit import Bandit

__all__ = ["Bandit"]
