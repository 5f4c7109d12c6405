"""PromptRouter: sends each prompt to one of several language models, within a budget."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import asdict
from os import PathLike
from threading import RLock
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from glbandits.bandit import Budget
from glbandits.bandit.input_checks import as_floats
from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import MAX_ABS, InvalidInput, ModelFileError, check_float, check_int, lookup, value_text
from glbandits.features import FeatureMap
from glbandits.routing.model_costs import ModelCosts
from glbandits.routing.model_quality import ModelQuality
from glbandits.routing.prompt_features import PROMPT_TEXT, PromptFeatures
from glbandits.routing.route_log import Event, PendingDecisions
from glbandits.routing.router_file import read_router, write_router

AFFORDABLE = 10.0
"""A model is offered for a prompt if its expected cost is at most this many times the budget."""
OVERSPENT = 10.0
"""With a larger `Budget.debt`, only models that cost at most the budget are offered."""
UNSURE = 0.2
"""Half the width of an interval of a model's quality, above which the default model is used in its place."""
LEVEL = 0.9
"""The probability of this interval."""


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
            models are tried, because they may be better. With a floor of 0, only `warm_start` makes them known.
        half_life: the number of answers after which old ones count half, for models that change. "auto" forgets
            after changes, and None never forgets.
        room: the largest number of models, retired ones included.
        memory: the number of latest decisions that accept feedback.
        log: the folder to which decisions are written as Parquet files, with their feedback.
        seed: of the random choices.

    >>> router = PromptRouter({"small": 0.03, "large": 0.9}, budget=0.3, seed=7)
    >>> route = router.route("Write a haiku about bandits.")
    >>> route.model, round(route.probability, 3)
    ('small', 0.99)
    >>> router.feedback(route.event_id, quality=0.8, cost=0.02)
    """

    def __init__(
        self,
        models: Mapping[str, float],
        budget: float | Budget | None = None,
        *,
        features: FeatureMap | int = PROMPT_TEXT,
        floor: float = 0.02,
        default: str | None = None,
        half_life: float | Literal["auto"] | None = "auto",
        room: int = 16,
        memory: int = 10_000,
        log: str | PathLike[str] | None = None,
        seed: int | None = None,
    ) -> None:
        self._features = PromptFeatures(features)
        self.floor = check_float("floor", floor, at_least=0.0, at_most=1.0)
        self.budget = budget if isinstance(budget, Budget) or budget is None else Budget(budget)
        self.default = default
        if not isinstance(models, Mapping) or not models:
            raise InvalidInput(f"models must be a dict with the cost of at least one model; got {value_text(models)}")
        room, dim = check_int("room", room, at_least=max(1, len(models))), self._features.dim
        self._quality, self._costs = ModelQuality(room, dim, half_life, seed), ModelCosts(dim)
        self._rng = np.random.default_rng(seed)
        self._typical, self._seen = np.eye(1, dim)[0], 0
        self._models: dict[str, int] = {}
        self._active: list[int] = []
        self._sessions: OrderedDict[str, int] = OrderedDict()
        self.memory = check_int("memory", memory, at_least=1)
        self._decisions = PendingDecisions(self.memory, log)
        self._lock = RLock()
        for name, cost in models.items():
            self.add(name, cost)
        if default is not None:
            lookup("model", default, self._models)

    @property
    def models(self) -> list[str]:
        """The models among which the router chooses."""
        names = list(self._models)
        return [names[model] for model in self._active]

    def add(self, model: str, cost: float) -> None:
        """Add a model, or bring a retired one back, with the expected cost of a typical prompt."""
        model, cost = check_text("model", model), check_float("cost", cost, above=0.0)
        with self._lock:
            if model in self.models:
                raise InvalidInput(f"there is a model {value_text(model)} already. Use set_cost to change its cost")
            if model in self._models:
                self._costs.declared[self._models[model]] = cost
            elif len(self._models) == self._quality.room:
                raise InvalidInput(
                    f"there is room for {len(self._models)} models, retired ones included; got one more, "
                    f"{value_text(model)}. Create the router with a larger room"
                )
            else:
                self._models[model] = len(self._models)
                self._costs.add(cost, self._typical)
            self._active = sorted([*self._active, self._models[model]])

    def retire(self, model: str) -> None:
        """Choose a model no longer. Late feedback is still learned, and `add` brings the model back."""
        with self._lock:
            index = self._index(model)
            if self._active == [index] or model == self.default:
                raise InvalidInput(f"model must not be the default or the last one; got {model}. Add another one first")
            self._active.remove(index)

    def set_cost(self, model: str, cost: float) -> None:
        """Change what a model costs for a typical prompt, for example because its prices have changed.

        Costs that are reported later are learned as costs at the new prices, also those of earlier decisions.
        """
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
        X, Q, C = self._features.encode(prompts), as_floats("quality", quality), as_floats("costs", costs)
        with self._lock:
            if not Q.shape == C.shape == (len(X), len(self._active)):
                raise InvalidInput(
                    f"quality and costs must have shape ({len(X)}, {len(self._active)}), a row for each prompt and a "
                    f"column for each model; got {Q.shape} and {C.shape}"
                )
            measured = ~(np.isnan(Q) | np.isnan(C))
            if not measured.any():
                raise InvalidInput("a benchmark must have a model with quality and cost for at least one prompt")
            if not (((Q >= 0) & (Q <= 1) & (C >= 0) & (C <= MAX_ABS)) | ~measured).all():
                raise InvalidInput("quality must be between 0 and 1, and costs at least 0. Use NaN for what is unknown")
            active = np.array(self._active)
            self._quality.learn_benchmark(active, X, np.where(measured, Q, np.nan))
            for column, model in enumerate(self._active):
                self._costs.learn(model, X[measured[:, column]], C[measured[:, column], column])
            for x in X:
                self._see(x)
            if self.budget is not None and self.budget.step > 0.0:
                expected = self._costs.predict(X)[:, active]
                self.budget.price = self._quality.price_for(self.budget.per_decision, active, X, expected)

    def route(
        self,
        prompt: Any,
        *,
        session: str | None = None,
        event_id: str | None = None,
        among: Collection[str] | None = None,
    ) -> Route:
        """Choose a model.

        Args:
            prompt: a text, a dict of fields, or an embedding, as `features` says.
            session: the id of a conversation, which keeps its model until that is retired or not in `among`.
            event_id: the id of this decision. The default is a random id.
            among: the models that can answer now. The default is all. Retired ones are ignored.
        """
        x = self._features.encode([prompt])[0]
        event_id = secrets.token_hex(12) if event_id is None else check_text("event_id", event_id)
        session = None if session is None else check_text("session", session)
        with self._lock:
            self._decisions.check_is_new(event_id)
            models = self._active if among is None else self._usable(among)
            costs, kept = self._costs.predict(x), None if session is None else self._sessions.get(session)
            probabilities = np.zeros(len(costs))
            if kept in models:
                probabilities[kept] = 1.0
            else:
                self._decide(x, np.array(models), costs, probabilities)
            possible = np.flatnonzero(probabilities)
            number = int(np.searchsorted(probabilities[possible].cumsum(), self._rng.random(), "right"))
            model = int(possible[min(number, len(possible) - 1)])
            if session is not None:
                self._sessions[session] = model
                self._sessions.move_to_end(session)
                if len(self._sessions) > self.memory:
                    self._sessions.popitem(last=False)
            event = Event(
                event_id,
                time.time(),
                list(self._models)[model],
                float(probabilities[model]),
                kept not in models,
                list(self._models),
                probabilities.tolist(),
                costs.tolist(),
                0.0 if self.budget is None else self.budget.price,
                x.tolist(),
            )
            if self.budget is not None:
                self.budget.spend(event.expected_costs[model])
            self._decisions.add(event)
            self._see(x)
        return Route(event.model, event.probability, event_id)

    def feedback(self, event_id: str, quality: float | None = None, cost: float | None = None) -> None:
        """Learn the quality of an answer, from 0 to 1, and its cost; both or first one and later the other, or never.

        Raises InvalidInput if the event is unknown, too old, or has this feedback already.
        """
        quality = None if quality is None else check_float("quality", quality, at_least=0.0, at_most=1.0)
        cost = None if cost is None else check_float("cost", cost, at_least=0.0)
        with self._lock:
            event = self._decisions.find(event_id)
            for name, value in (("quality", quality), ("cost", cost)):
                if value is not None and getattr(event, name) is not None:
                    raise InvalidInput(f"the event {event_id} has the {name} {getattr(event, name):g} already")
            model = self._models[event.model]
            if quality is not None:
                event.quality = quality
                self._quality.learn(model, np.array(event.features), quality)
            if cost is not None:
                event.cost = cost
                self._costs.learn(model, np.array([event.features]), np.array([cost]))
                if self.budget is not None:
                    self.budget.correct(event.expected_costs[model], cost)
            if event.quality is not None and event.cost is not None:
                self._decisions.settle(event_id)

    def cancel(self, event_id: str) -> None:
        """Take back a decision whose model gave no answer: the budget forgets it, and nothing is learned.

        The log keeps the decision, with a cost of 0 if none was reported, and without a quality.
        """
        with self._lock:
            event = self._decisions.find(event_id)
            if event.cost is None:
                event.cost = 0.0
                if self.budget is not None:
                    expected = event.expected_costs[self._models[event.model]]
                    self.budget.correct(expected, self.budget.per_decision)
            self._decisions.settle(event_id)

    def predict(self, prompt: Any) -> dict[str, tuple[float, float]]:
        """Return the expected quality and the expected cost of each model for a prompt. Changes nothing."""
        x = self._features.encode([prompt])[0]
        with self._lock:
            quality = self._quality.predict(np.array(self._active), x)
            costs = self._costs.predict(x)[self._active]
        return {name: (float(q), float(c)) for name, q, c in zip(self.models, quality, costs, strict=True)}

    def write_log(self) -> None:
        """Write all decisions to the log. Those that still miss feedback do not accept it any more."""
        with self._lock:
            for event_id in list(self._decisions.events):
                self._decisions.settle(event_id)
            self._decisions.write()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the router with all that it has learned, its sessions and its pending decisions to one file.

        Replaces the file atomically. Complete decisions go to the log first.
        """
        with self._lock:
            self._decisions.write()
            features = self._features.features
            document = {
                "settings": {
                    "features": features.document() if isinstance(features, FeatureMap) else features,
                    "floor": self.floor,
                    "default": self.default,
                    "room": self._quality.room,
                    "memory": self.memory,
                },
                "models": dict(zip(self._models, self._costs.declared.tolist(), strict=True)),
                "active": self._active,
                "budget": None if self.budget is None else asdict(self.budget),
                "random": self._rng.bit_generator.state,
                "prompts": [self._typical.tolist(), self._seen],
                "answers": self._quality.answers,
                "sessions": list(self._sessions.items()),
                "events": [asdict(event) for event in self._decisions.events.values()],
            }
            write_router(path, document, self._quality.bandit, self._costs.bandits)

    @classmethod
    def load(cls, path: str | PathLike[str], *, log: str | PathLike[str] | None = None) -> Self:
        """Load a saved router. It makes exactly the same decisions as the saved one would.

        Args:
            path: a file written by `save`.
            log: the folder of the log, as for a new router.
        """
        document, quality, costs = read_router(path)
        try:
            settings = document["settings"]
            if isinstance(settings["features"], dict):
                settings["features"] = FeatureMap.from_document(settings["features"])
            budget = document["budget"]
            router = cls(document["models"], None if budget is None else Budget(**budget), log=log, **settings)
            active = set(document["active"])
            if not active or not active <= {*router._active} or quality.dim != router._quality.bandit.dim:
                raise ValueError("models are missing")
            router._active = sorted(active)
            router._quality.bandit, router._quality.answers = quality, document["answers"]
            router._costs.restore(costs)
            router._rng.bit_generator.state = document["random"]
            router._typical, router._seen = np.array(document["prompts"][0], dtype=float), document["prompts"][1]
            router._sessions = OrderedDict(document["sessions"])
            router._decisions.events.update((row["event_id"], Event(**row)) for row in document["events"])
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ModelFileError(f"{path} was changed or damaged after it was saved ({error}). Load a copy") from None
        return router

    def _decide(self, x: Floats, models: Ints, costs: Floats, out: Floats) -> None:
        """Write the probabilities of some models for the next decision. Those that are not offered keep 0."""
        price = 0.0
        if self.budget is not None:
            price = self.budget.price
            if self.budget.step > 0.0:
                most = self.budget.per_decision * (AFFORDABLE if self.budget.debt <= OVERSPENT else 1.0)
                models = models[costs[models] <= max(most, costs[models].min())]
        out[models] = self.floor / len(models)
        models = self._known(x, models)
        if self._quality.answers == 0:
            out[models[costs[models].argmin()]] += 1.0 - self.floor
        else:
            above_cheapest = costs[models] - costs[models].min()  # small numbers, even at a huge price
            prices = np.minimum(price * above_cheapest, MAX_ABS) if price > 0.0 else None
            out[models] += (1.0 - self.floor) * self._quality.probabilities(models, x, prices)

    def _known(self, x: Floats, models: Ints) -> Ints:
        """Return those of the models whose quality is known well enough, or the default. Without a default: all."""
        default = None if self.default is None else self._models[self.default]
        if default is None or default not in models:
            return models
        if self._quality.answers == 0:
            return np.array([default])
        is_known = self._quality.widths(models, x, LEVEL) <= 2.0 * UNSURE
        return np.asarray(models[is_known | (models == default)])

    def _see(self, x: Floats) -> None:
        """Update the mean features of all prompts, with which a new model starts."""
        self._seen += 1
        self._typical += (x - self._typical) / self._seen

    def _usable(self, among: Collection[str]) -> list[int]:
        usable = sorted({lookup("model", model, self._models) for model in among} & set(self._active))
        if not usable:
            raise InvalidInput(f"among must have a model of {', '.join(self.models)}; got {value_text(list(among))}")
        return usable

    def _index(self, model: str) -> int:
        return lookup("model", model, {name: self._models[name] for name in self.models})


def check_text(name: str, value: Any) -> str:
    """Return the value. Raises InvalidInput if it is not a text with at least one character."""
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{name} must be a text with at least one character; got {value_text(value)}", field=name)
    return value
