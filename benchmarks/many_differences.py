"""`GroupDifference` for many simulated loops at once, in arrays whose first axis is the loop.

The benchmark `guardrails` compares its numbers with those of `GroupDifference` in the first loop of each case.
"""

import math

import numpy as np
import numpy.typing as npt

from glbandits.common.arrays import Floats
from glbandits.maths.online_statistics.confidence_sequence import PRIOR_ROWS
from glbandits.maths.online_statistics.group_difference import (
    BETS,
    BLOCK,
    LARGEST_BET,
    LARGEST_LOSS,
    LOG_SHARES,
    ODDS_RATIOS,
    PRIOR_UNITS,
    SMALLEST_SPREAD,
)

PRODUCTS = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2))


class ManyDifferences:
    """Add blocks of `BLOCK` units to many comparisons. The share of control is the same in all of them."""

    def __init__(self, loops: int) -> None:
        self.units, self.terms = 0, 0
        self._bets: Floats = BETS
        self._log_capital: Floats = np.zeros((2, loops, len(BETS)))
        self._terms, self._centres = np.zeros((2, loops)), np.zeros((2, loops))
        self._total = np.zeros(loops)
        self._weight, self._means, self._products = np.zeros(loops), np.zeros((loops, 3)), np.zeros((loops, 5))
        self._log_ratios: Floats = np.zeros((loops, len(ODDS_RATIOS)))

    def add(self, treated: npt.NDArray[np.bool_], share: float, values: Floats, covariates: Floats | None) -> None:
        """Add a block: groups and values, (loops, `BLOCK`), and covariates, (loops, `BLOCK`, 2)."""
        if not self.units:
            self._bets = np.minimum(BETS * share * (1.0 - share), LARGEST_BET)
        else:
            predicted = self._predicted(covariates)
            weights = np.where(treated, 1.0 / (1.0 - share), -1.0 / share)
            for side, sign in enumerate((1.0, -1.0)):
                self._bet(side, sign, treated, share, values, predicted, weights)
            self.terms += BLOCK
        self.units += BLOCK
        self._total += values.sum(axis=1)
        self._learn(np.where(treated, (share / (1.0 - share)) ** 2, 1.0), values, covariates)
        in_control = (~treated).sum(axis=1)[:, np.newaxis]
        self._log_ratios += in_control * np.log(ODDS_RATIOS) - BLOCK * np.log1p(share * (ODDS_RATIOS - 1.0))

    def log_evidence(self, value: Floats | float) -> Floats:
        """Evidence against a mean of at most `value` and of at least `value`, (2, loops)."""
        excess = self._centres - self.terms * np.array([[1.0], [-1.0]]) * value
        result: Floats = np.logaddexp.reduce(
            LOG_SHARES + self._log_capital + self._bets * excess[:, :, np.newaxis], axis=2
        )
        return result

    def log_evidence_of_ratio(self) -> Floats:
        """Evidence against the declared share, (loops,)."""
        result: Floats = np.logaddexp.reduce(self._log_ratios, axis=1) - math.log(len(ODDS_RATIOS))
        return result

    def _bet(
        self,
        side: int,
        sign: float,
        treated: npt.NDArray[np.bool_],
        share: float,
        values: Floats,
        predicted: Floats,
        weights: Floats,
    ) -> None:
        term = sign * weights * (values - predicted)
        before = self._terms[side][:, np.newaxis] + np.cumsum(term, axis=1) - term
        centre = np.clip(before / (PRIOR_ROWS + self.terms + np.arange(BLOCK)), -1.0, 1.0)
        for index, bet in enumerate(self._bets):
            limit = LARGEST_LOSS / bet - 2.0
            of_bet = term
            if limit < 1.0 / share:  # the prediction of each group is limited so that the term is at least -limit
                room = {group: min(limit * each, 1.0) for group, each in ((True, 1.0 - share), (False, share))}
                limited = {
                    group: np.minimum(predicted, room[group])
                    if (sign > 0.0) == group
                    else np.maximum(predicted, 1.0 - room[group])
                    for group in (True, False)
                }
                own = np.where(treated, limited[True], limited[False])
                of_bet = sign * (limited[True] - limited[False] + weights * (values - own))
            factors = 1.0 + bet * (of_bet - centre)
            for half in (factors[:, : BLOCK // 2], factors[:, BLOCK // 2 :]):
                self._log_capital[side, :, index] += np.log(half.prod(axis=1))
        self._terms[side] += term.sum(axis=1)
        self._centres[side] += centre.sum(axis=1)

    def _predicted(self, covariates: Floats | None) -> Floats:
        mean = self._total / self.units
        total = self._weight[:, np.newaxis]
        level = (total * self._means[:, 2:] + PRIOR_UNITS * mean[:, np.newaxis]) / (total + PRIOR_UNITS)
        if covariates is None:
            return np.broadcast_to(level, (len(level), BLOCK))
        spread = np.sqrt(self._products[:, [0, 2]] / np.maximum(total, 1.0))
        varies = spread > SMALLEST_SPREAD * np.abs(self._means[:, :2])
        scale = np.where(varies, spread, 1.0)
        both = np.where(varies.all(axis=1), self._products[:, 1] / scale.prod(axis=1), 0.0)[:, np.newaxis]
        with_values = np.where(varies, self._products[:, 3:] / scale, 0.0)
        diagonal = total + PRIOR_UNITS
        slopes = (diagonal * with_values - both * with_values[:, ::-1]) / (diagonal**2 - both**2)
        slopes = np.where(varies, slopes / scale, 0.0)
        moved = ((covariates - self._means[:, np.newaxis, :2]) * slopes[:, np.newaxis]).sum(axis=2)
        predicted: Floats = np.clip(level + moved, 0.0, 1.0)
        return predicted

    def _learn(self, weights: Floats, values: Floats, covariates: Floats | None) -> None:
        columns = [values] if covariates is None else [covariates[:, :, 0], covariates[:, :, 1], values]
        own = weights.sum(axis=1)
        joint = self._weight * own / (self._weight + own)
        means = np.stack([(weights * column).sum(axis=1) / own for column in columns], axis=1)
        shift = means - self._means[:, -len(columns) :]
        if covariates is not None:
            deviations = [column - means[:, [index]] for index, column in enumerate(columns)]
            for index, (first, second) in enumerate(PRODUCTS):
                self._products[:, index] += (weights * deviations[first] * deviations[second]).sum(axis=1)
                self._products[:, index] += shift[:, first] * shift[:, second] * joint
        self._means[:, -len(columns) :] += shift * (own / (self._weight + own))[:, np.newaxis]
        self._weight += own
