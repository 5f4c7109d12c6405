"""PromptRouter: sends each prompt to one of several language models, within a budget."""

from __future__ import annotations

import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from os import PathLike
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glbandits.bandit import Bandit, Budget
from glbandits.bandit.input_checks import as_floats, check_usable
from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import MAX_ABS, InvalidInput, check_float, check_int, lookup, value_text
from glbandits.features import FeatureMap
from glbandits.features.kinds.hashed_text import Text
from glbandits.features.kinds.numeric import Number
from glbandits.policies import Optimist
from glbandits.routing.model_costs import ModelCosts, price_within
from glbandits.routing.route_log import Event, RouteLog

CHUNK = 256
"""The number of prompts of a benchmark that are learned at once."""
AFFORDABLE = 10.0
"""A model is offered for a prompt if its expected cost is at most this many times the budget."""
OVERSPENT = 10.0
"""With a larger `Budget.debt`, only models that cost at most the budget are offered."""
UNSURE = 0.2
"""Half the width of an interval of a model's quality, above which the default model is used in its place."""
LEVEL = 0.9
"""The probability of this interval."""
PROMPT_TEXT = FeatureMap(context={"prompt": Text(64), "length": Number(mean=5.0, scale=1.5)})
"""The default features: 64 hashed words, and the logarithm of the number of characters."""


class Route(NamedTuple):
    """The model for one prompt."""

    model: str
    probability: float
    """The probability of this model; 1 if the session kept its model."""
    event_id: str
    """What `PromptRouter.feedback` takes."""


class PromptRouter:
    """Chooses a language model for each prompt, and keeps the mean cost at a budget.

    One bandit (`Optimist`) learns the quality of each model, and maximises quality - price * expected cost. The price
    is that of a `Budget`, and the expected costs are learned too. All probabilities are exact. Methods may be called
    from several threads.

    Args:
        models: the expected cost of a typical prompt for each model, in any unit. Observed costs correct it.
        budget: the mean cost of a prompt to keep to, in the same unit; a `Budget` with a step of 0 for a fixed price;
            None if money does not matter.
        features: a FeatureMap of the fields of a prompt, or the number of numbers in an embedding that you compute. By
            default prompts are texts, with `PROMPT_TEXT`.
        floor: the probability of a random model among those that are offered. An audit of the log needs it.
        default: the model for prompts for which the router does not know the others well enough. Without it, uncertain
            models are tried, because they may be better.
        half_life: the number of answers after which old ones count half, for models that change; None never forgets.
        room: the largest number of models, retired ones included.
        memory: the number of latest decisions that accept feedback.
        log: the folder to which decisions are written as Parquet files, with their feedback.
        seed: of the random choices.

    >>> router = PromptRouter({"small": 0.03, "large": 0.9}, budget=0.3, seed=7)
    >>> route = router.route("Write a haiku about bandits.")
    >>> route.model, round(route.probability, 3)
    ('small', 0.985)
    >>> router.feedback(route.event_id, quality=0.8, cost=0.02)
    """

    def __init__(
        self,
        models: Mapping[str, float],
        budget: float | Budget | None = None,
        *,
        features: FeatureMap | int = PROMPT_TEXT,
        floor: float = 0.03,
        default: str | None = None,
        half_life: float | None = None,
        room: int = 16,
        memory: int = 100_000,
        log: str | PathLike[str] | None = None,
        seed: int | None = None,
    ) -> None:
        if not isinstance(features, FeatureMap):
            features = check_int("features", features, at_least=1)
        self.features = features
        self.floor = check_float("floor", floor, at_least=0.0, at_most=1.0)
        self.budget = budget if isinstance(budget, Budget) or budget is None else Budget(budget)
        self.memory = check_int("memory", memory, at_least=1)
        self.default = default
        self._room = check_int("room", room, at_least=max(1, len(models)))
        self._dim = 1 + (features.dim if isinstance(features, FeatureMap) else features)
        self._quality = Bandit(Optimist(link="identity", half_life=half_life), self._room * self._dim, seed)
        self._costs = ModelCosts(self._dim)
        self._rng = np.random.default_rng(seed)
        self._typical, self._seen = np.zeros(self._dim), 0
        self._models: dict[str, int] = {}
        self._active: list[int] = []
        self._answers = 0
        self._events: OrderedDict[str, Event] = OrderedDict()
        self._sessions: OrderedDict[str, int] = OrderedDict()
        self._log = None if log is None else RouteLog(log)
        self._lock = RLock()
        for name, cost in models.items():
            self.add(name, cost)
        if default is not None:
            lookup("model", default, self._models)

    @property
    def models(self) -> list[str]:
        """The models among which the router chooses."""
        return [name for name, model in self._models.items() if model in self._active]

    def add(self, model: str, cost: float) -> None:
        """Add a model, or bring a retired one back, with the expected cost of a typical prompt."""
        cost = check_float("cost", cost, above=0.0)
        with self._lock:
            if model in self.models:
                raise InvalidInput(f"there is a model {value_text(model)} already. Use set_cost to change its cost")
            if model in self._models:
                self._active.append(self._models[model])
                self._costs.declared[self._models[model]] = cost
                return
            if len(self._models) == self._room:
                raise InvalidInput(
                    f"there is room for {self._room} models, retired ones included; got one more, {value_text(model)}. "
                    "Create the router with a larger room"
                )
            self._models[model] = len(self._models)
            self._active.append(self._models[model])
            self._costs.add(cost, np.append(1.0, self._typical[1:]))

    def retire(self, model: str) -> None:
        """Choose a model no longer. Late feedback is still learned, and `add` brings the model back."""
        with self._lock:
            index = self._index(model)
            if self._active == [index] or model == self.default:
                raise InvalidInput(f"model must not be the default or the last one; got {model}. Add another one first")
            self._active.remove(index)

    def set_cost(self, model: str, cost: float) -> None:
        """Change what a model costs for a typical prompt, for example because its prices have changed."""
        with self._lock:
            self._costs.declared[self._index(model)] = check_float("cost", cost, above=0.0)

    def warm_start(self, prompts: Any, quality: ArrayLike, costs: ArrayLike) -> None:
        """Learn a benchmark: the quality and the cost of each model for each prompt.

        Sets the price of the budget to the one that would have kept to the budget on this benchmark.

        Args:
            prompts: a sequence of prompts, as for `route`, or an array with a row for each.
            quality: between 0 and 1, (n, models), in the order of `models`. NaN where a model was not measured.
            costs: in the unit of the budget, likewise.
        """
        X, Q, C = self._features(prompts), np.asarray(quality, dtype=float), np.asarray(costs, dtype=float)
        with self._lock:
            if not Q.shape == C.shape == (len(X), len(self._active)):
                raise InvalidInput(
                    f"quality and costs must have shape ({len(X)}, {len(self._active)}), a row for each prompt and a "
                    f"column for each model; got {Q.shape} and {C.shape}"
                )
            measured = ~(np.isnan(Q) | np.isnan(C))
            if not (((Q >= 0) & (Q <= 1) & (C >= 0) & (C <= MAX_ABS)) | ~measured).all():
                raise InvalidInput("quality must be between 0 and 1, and costs at least 0. Use NaN for what is unknown")
            for start in range(0, len(X), CHUNK):
                prompt, column = np.nonzero(measured[start : start + CHUNK])
                rows = np.zeros((len(prompt), self._room, self._dim))
                rows[np.arange(len(prompt)), np.array(self._active)[column]] = X[start + prompt]
                self._quality.learn_batch(rows.reshape(len(prompt), -1), Q[start + prompt, column])
            for column, model in enumerate(self._active):
                self._costs.learn(model, X[measured[:, column]], C[measured[:, column], column])
            self._answers += int(measured.sum())
            for x in X:
                self._see(x)
            if self.budget is not None and self.budget.step > 0.0:
                self.budget.price = self._price_for(X, self.budget.per_decision)

    def route(self, prompt: Any, *, session: str | None = None, event_id: str | None = None) -> Route:
        """Choose a model.

        Args:
            prompt: a text, a dict of fields, or an embedding, as `features` says.
            session: the id of a conversation, which keeps its model until that is retired.
            event_id: the id of this decision. The default is a random id.
        """
        x = self._features([prompt])[0]
        event_id = secrets.token_hex(12) if event_id is None else event_id
        with self._lock:
            if event_id in self._events:
                raise InvalidInput(f"event_id must be new; got {value_text(event_id)}, which has been decided already")
            costs = self._costs.predict(x)
            kept = None if session is None else self._sessions.get(session)
            if kept in self._active:
                model, probabilities = kept, np.zeros(len(costs))
                probabilities[model] = 1.0
            else:
                probabilities = self._probabilities(x, costs)
                model = min(int(np.searchsorted(probabilities.cumsum(), self._rng.random(), "right")), len(costs) - 1)
            if session is not None:
                self._sessions[session] = model
                self._sessions.move_to_end(session)
                if len(self._sessions) > self.memory:
                    self._sessions.popitem(last=False)
            price = 0.0 if self.budget is None else self.budget.price
            if self.budget is not None:
                self.budget.spend(float(costs[model]))
            names, probability = list(self._models), float(probabilities[model])
            self._events[event_id] = Event(
                event_id, time.time(), names[model], probability, model is not kept, names,
                probabilities.tolist(), costs.tolist(), price, x,
            )  # fmt: skip
            if len(self._events) > self.memory:
                self._settle(next(iter(self._events)))
            self._see(x)
        return Route(names[model], probability, event_id)

    def feedback(self, event_id: str, quality: float | None = None, cost: float | None = None) -> None:
        """Learn the quality of an answer, from 0 to 1, and its cost; both or first one and later the other, or never.

        Raises InvalidInput if the event is unknown, too old, or has this feedback already.
        """
        given = {
            "quality": None if quality is None else check_float("quality", quality, at_least=0.0, at_most=1.0),
            "cost": None if cost is None else check_float("cost", cost, at_least=0.0),
        }
        with self._lock:
            event = self._events.get(event_id)
            if event is None:
                raise InvalidInput(
                    f"event_id must be one of the last {self.memory:,} decisions without complete feedback; got "
                    f"{value_text(event_id)}"
                )
            for name, value in given.items():
                if value is not None and getattr(event, name) is not None:
                    raise InvalidInput(f"the event {event_id} has the {name} {getattr(event, name):g} already")
            model = self._models[event.model]
            if quality is not None:
                event.quality = given["quality"]
                self._quality.learn(self._rows(event.features)[model], float(quality))
                self._answers += 1
            if cost is not None:
                event.cost = given["cost"]
                self._costs.learn(model, event.features[None], np.array([cost]))
                if self.budget is not None:
                    self.budget.correct(event.expected_costs[model], cost)
            if event.quality is not None and event.cost is not None:
                self._settle(event_id)

    def predict(self, prompt: Any) -> dict[str, tuple[float, float]]:
        """Return the expected quality and the expected cost of each model for a prompt. Changes nothing."""
        x = self._features([prompt])[0]
        with self._lock:
            quality, costs = self._quality.predict(self._rows(x)[self._active]), self._costs.predict(x)[self._active]
        return {name: (float(q), float(c)) for name, q, c in zip(self.models, quality, costs, strict=True)}

    def write_log(self) -> None:
        """Write all decisions to the log. Those that still miss feedback do not accept it any more."""
        with self._lock:
            for event_id in list(self._events):
                self._settle(event_id)
            if self._log is not None:
                self._log.flush()

    def _probabilities(self, x: Floats, costs: Floats) -> Floats:
        """Return the probability of each model for the next decision, 0 if it is not offered."""
        offered = np.array(self._active)
        if self.budget is not None:
            most = self.budget.per_decision * (AFFORDABLE if self.budget.debt <= OVERSPENT else 1.0)
            offered = offered[costs[offered] <= max(most, costs[offered].min())]
        probabilities = np.zeros(len(costs))
        probabilities[offered] = self.floor / len(offered)
        trusted = self._trusted(x, offered)
        if self._answers == 0 or len(trusted) == 1:
            probabilities[trusted[costs[trusted].argmin()]] += 1.0 - self.floor
            return probabilities
        payoff: Any = {}
        if self.budget is not None and self.budget.price > 0.0:
            payoff = {"values": np.ones(len(trusted)), "costs": self.budget.price * costs[trusted]}
        exact = self._quality.exact_probabilities(self._rows(x)[trusted], **payoff)
        assert exact is not None  # the default policy has exact probabilities
        probabilities[trusted] += (1.0 - self.floor) * exact
        return probabilities

    def _trusted(self, x: Floats, offered: Ints) -> Ints:
        """Return the models among which the bandit chooses: all that are offered, or known ones and the default."""
        if self.default is None:
            return offered
        default = self._models[self.default]
        if self._answers == 0:
            return np.array([default])
        found = self._quality.predict(self._rows(x)[offered], interval=LEVEL)
        return np.union1d(offered[found.high - found.low <= 2.0 * UNSURE], [default])

    def _price_for(self, X: Floats, limit: float) -> float:
        """Return the lowest price at which the best models of these prompts have a mean cost of at most the limit."""
        estimate = self._quality.coefficients()
        assert estimate is not None
        quality = (X @ estimate.theta.reshape(self._room, self._dim).T)[:, self._active]
        costs = self._costs.predict(X)[:, self._active]
        return price_within(limit, quality, costs)

    def _features(self, prompts: Any) -> Floats:
        """Return the features of prompts with a constant, (n, dim)."""
        if isinstance(self.features, FeatureMap):
            named = [as_fields(prompt) for prompt in prompts] if isinstance(prompts, list | tuple) else prompts
            values = self.features.transform(named)
        else:
            values = as_floats("prompt", prompts)
            if values.ndim != 2 or values.shape[1] != self.features:
                raise InvalidInput(f"a prompt must be {self.features} numbers; got shape {values.shape[1:]}")
            check_usable("prompt", values)
        return np.hstack([np.ones((len(values), 1)), values])

    def _rows(self, x: Floats) -> Floats:
        """Return a row of features for each model: x in the block of this model, and zeros elsewhere."""
        count = np.arange(len(self._models))
        rows = np.zeros((len(count), self._room, self._dim))
        rows[count, count] = x
        return rows.reshape(len(count), -1)

    def _see(self, x: Floats) -> None:
        """Update the mean features of all prompts, with which a new model starts."""
        self._seen += 1
        self._typical += (x - self._typical) / self._seen

    def _settle(self, event_id: str) -> None:
        event = self._events.pop(event_id)
        if self._log is not None:
            self._log.add(event)

    def _index(self, model: str) -> int:
        return lookup("model", model, {name: self._models[name] for name in self.models})


def as_fields(prompt: Any) -> Any:
    """Return the fields of `PROMPT_TEXT` for a text, and other prompts as they are."""
    return {"prompt": prompt, "length": math.log1p(len(prompt))} if isinstance(prompt, str) else prompt
