"""Helper of tests of environments."""

from dataclasses import fields

import numpy as np

from glbandits.lab import Environment
from glbandits.lab.environments.rounds import Rounds


def all_rounds(problem: Environment, horizon: int, seed: int) -> Rounds:
    """Return the rounds of a run, with all chunks concatenated."""
    chunks = list(problem.rounds(horizon, seed))
    return Rounds(*(np.concatenate([getattr(chunk, field.name) for chunk in chunks]) for field in fields(Rounds)))
