"""The online API."""

from glbandits.bandit.bandit import Bandit
from glbandits.bandit.inputs import compile_policy

__all__ = ["Bandit", "compile_policy"]
