"""Helper of tests of environments."""

from dataclasses import fields

import numpy as np

from glbandits.lab.environments import Environment
from glbandits.lab.environments.rounds import Rounds


def all_rounds(problem: Environment, horizon: int, seed: int) -> Rounds:
    """Return the rounds of a run, with all chunks concatenated."""
    chunks = list(problem.rounds(horizon, seed))
    names = [field.name for field in fields(Rounds) if getattr(chunks[0], field.name) is not None]
    return Rounds(**{name: np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in names})
