"""The online API."""

from glbandits.bandit.bandit import Bandit
from glbandits.bandit.entries import compile_policy

__all__ = ["Bandit", "compile_policy"]
