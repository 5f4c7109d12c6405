"""Decisions for many contexts: the arms by name, with probabilities and predictions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glbandits.bandit.arm_batch import ArmBlock
from glbandits.bandit.predictions import Ranking, best_orders
from glbandits.common.arrays import Floats, Ints
from glbandits.common.display.displayed import Displayed
from glbandits.common.errors import InvalidInput

DEFAULT_INTERVAL = 0.95


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Decisions(Displayed):
    """The best arms of each decision, in order."""

    arms: Ints
    """The indices of the arms, (n, top); -1 if a decision has fewer arms."""
    names: Any
    """Their names, (n, top); None if a decision has fewer arms."""
    probability: Floats
    """The probability of each decision, (n,)."""
    predictions: Mapping[str, Floats]
    """By name, each (n, top): "expected", the expected reward; "low" and "high", its interval; and the "payoff". Empty
    if the policy has no estimate."""
    explore: bool
    """Whether the policy explored. If not, every decision has probability 1."""
    frame_type: Any = None
    """The class of the contexts, if they were a data frame."""

    def __len__(self) -> int:
        return len(self.arms)

    def columns(self) -> dict[str, Any]:
        """The decisions as columns of a table. With several arms for a decision, names end in _1, _2 and so on."""
        top = self.arms.shape[1]
        suffixes = [""] if top == 1 else [f"_{position}" for position in range(1, top + 1)]
        columns: dict[str, Any] = {f"arm{end}": self.names[:, at] for at, end in enumerate(suffixes)}
        columns["probability"] = self.probability
        for name, values in self.predictions.items():
            columns |= {f"{name}{end}": values[:, at] for at, end in enumerate(suffixes)}
        return columns | {"explore": np.full(len(self), self.explore)}

    def to_frame(self, kind: Any = None) -> Any:
        """The decisions as a data frame, with `columns`.

        Args:
            kind: the class of the frame, such as pandas.DataFrame. By default that of the contexts.
        """
        kind = self.frame_type if kind is None else kind
        if kind is None:
            raise InvalidInput("the contexts were no data frame, so name the class of the result: pandas.DataFrame")
        frame = kind(
            {name: list(values) if values.dtype == object else values for name, values in self.columns().items()}
        )
        return frame.fill_nan(None) if hasattr(frame, "fill_nan") else frame

    def _values(self) -> dict[str, object]:
        return {"decisions": len(self), "explore": self.explore, "mean probability": float(np.mean(self.probability))}


def decide_block(
    bandit: Any, block: ArmBlock, names: Sequence[str], *, top: int, explore: bool, level: float
) -> Decisions:
    """Return the decisions of a Bandit for a block. `names` has the name of each arm."""
    counts = np.diff(block.bounds)
    predicted = _predicted(bandit, block.rows, level)
    if predicted and block.payoffs is not None:
        predicted["payoff"] = block.payoffs[0] * predicted["expected"] - block.payoffs[1]
    if explore:
        found = [_explored(bandit, *block.arms_of(decision), top) for decision in range(len(counts))]
        arms = np.array([[*each.arms, *[-1] * (top - len(each.arms))] for each in found], dtype=np.int64)
        arms, probability = arms.reshape(len(counts), top), np.array([each.probability for each in found])
    else:
        arms, probability = best_orders(bandit.ranking_scores(block), block.bounds, top), np.ones(len(counts))
    at, is_missing = np.maximum(block.bounds[:-1, np.newaxis] + arms, 0), arms < 0
    named = np.asarray(names, dtype=object)[at]
    named[is_missing] = None
    shown = {name: np.where(is_missing, np.nan, values[at]) for name, values in predicted.items()}
    return Decisions(arms=arms, names=named, probability=probability, predictions=shown, explore=explore)


def joined(parts: Sequence[Decisions], contexts: Any) -> Decisions:
    """Return the decisions of several blocks, at least one."""
    return Decisions(
        arms=np.concatenate([part.arms for part in parts]),
        names=np.concatenate([part.names for part in parts]),
        probability=np.concatenate([part.probability for part in parts]),
        predictions={name: np.concatenate([part.predictions[name] for part in parts]) for name in parts[0].predictions},
        explore=parts[0].explore,
        frame_type=type(contexts) if hasattr(contexts, "columns") else None,
    )


def _explored(bandit: Any, arms: Any, payoffs: Floats | None, top: int) -> Ranking:
    given: dict[str, Any] = {} if payoffs is None else {"values": payoffs[0], "costs": payoffs[1]}
    if top > 1:
        count = len(arms) if isinstance(arms, np.ndarray) else arms.row_count
        ranking: Ranking = bandit.rank(arms, min(top, count), **given)
        return ranking
    probabilities = bandit.probabilities(arms, **given)
    chosen = bandit.choose(arms, **given)
    return Ranking(np.array([chosen]), float(probabilities[chosen]))


def _predicted(bandit: Any, rows: Any, level: float) -> dict[str, Any]:
    """Return the expected rewards, with an interval if the policy has a posterior; nothing without an estimate."""
    try:
        expected = bandit.predict(rows)
    except InvalidInput:
        return {}
    try:
        return dict(zip(("expected", "low", "high"), bandit.predict(rows, interval=level), strict=True))
    except InvalidInput:
        return {"expected": expected}
