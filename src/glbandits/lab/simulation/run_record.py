"""The regret and the choices of one run, recorded while it is played."""

import numpy as np

from glbandits.common.arrays import Floats, Ints


class RunRecord:
    """What a run keeps of its rounds.

    Args:
        rounds: the rounds at which regret is recorded, as from `recorded_rounds`.
        horizon: the number of rounds.
        keep_choices: store the arm of every round.
    """

    def __init__(self, rounds: Ints, horizon: int, keep_choices: bool) -> None:
        self._rounds = rounds
        self.played, self.total_regret = 0, 0.0
        self.regret = np.empty(len(rounds))
        self.choices = np.empty(horizon, dtype=np.int32) if keep_choices else None

    def add(self, choices: Ints, regret: Floats) -> None:
        """Record consecutive rounds: the arm of each, and the cumulative regret after it."""
        end = self.played + len(regret)
        recorded = slice(*np.searchsorted(self._rounds, [self.played + 1, end + 1]))
        self.regret[recorded] = regret[self._rounds[recorded] - 1 - self.played]
        if self.choices is not None:
            self.choices[self.played : end] = choices
        self.played, self.total_regret = end, float(regret[-1])
