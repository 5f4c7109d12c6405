"""The online API."""

from glbandits.bandit.bandit import Bandit
from glbandits.bandit.catalogue import Catalogue
from glbandits.bandit.entries import compile_policy

__all__ = ["Bandit", "Catalogue", "compile_policy"]
