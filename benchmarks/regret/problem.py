"""A problem of the benchmark, and the kinds and roles of problems."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from glbandits.lab.environments import Environment, News

TABLES, STUCK, OTHERS = "tables", "stuck", "others"
"""Kinds: classification tables, problems where some runs never find a good arm, and all others."""
SEEN, NEW = "development", "reporting"
"""Roles: whether earlier versions of the default policy were tried on the problem."""


@dataclass(frozen=True)
class Problem:
    """An environment, its horizon, and the facts that the page shows."""

    name: str
    description: str
    build: Callable[[Path], Environment]
    """Create the environment; it may write files to the given folder."""
    max_rounds: int = 1000
    link: str = "logistic"
    """The link of the policies."""
    kind: str = OTHERS
    role: str = NEW

    def horizon(self, environment: Environment) -> int:
        """The number of rounds: `max_rounds`, or as many as the environment has."""
        return min(self.max_rounds, environment.length()) if isinstance(environment, News) else self.max_rounds
