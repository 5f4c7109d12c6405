"""Why an action got its score: the contribution of each feature. Nothing here reads a clock or a file.

A contribution is the value of a feature times the coefficient that the model has learned for it. The contributions of
an action add up to its score, x'theta + intercept: the model's estimate, on the scale of the link. They say what the
estimate is made of. They do not say why the action was drawn: the bonus for uncertainty, the draw and the share of
random decisions decide that too, and only the probability shows their effect. They are not causes either: the model may
give credit to a feature because it occurs together with another one, or because both have the same hash index.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from glbandits.bandit import Bandit
from glbandits.errors import InvalidInput, check_int
from glbandits.maths.sparse_rows import as_sparse_rows
from glbandits.policy import Coefficients
from glbandits.records import Floats
from glbandits.serving.domain.action_selection import JSON, Described, arms_of, vectors_of
from glbandits.serving.domain.events import Decision
from glbandits.serving.domain.request_map import RequestEncoder, RequestHashing, RequestMap
from glbandits.serving.domain.reward_aggregation import fits

INTERCEPT = "intercept"


class Contribution(msgspec.Struct, frozen=True):
    """What one feature adds to the score of an action."""

    feature: str
    """Its name in the feature map, or in the request (see `Hashing.named_features`); "x[0]", "x[1]" ... in a dense
    request; "intercept"; or "other features (n)" for the n features that are not listed."""
    value: float | None
    """Its value in the request; 1 for the intercept, None for other features."""
    contribution: float


class ActionExplanation(msgspec.Struct, frozen=True):
    """The score of an action and what it is made of."""

    id: str
    score: float
    """x'theta + intercept."""
    probability: float
    """The probability that the model's draw gave it, random decisions included; 0 if it was excluded."""
    contributions: tuple[Contribution, ...]
    """The largest first, by absolute size, and then that of other features. They add up to the score."""


def explain(decision: Decision, model: Bandit, encoder: RequestEncoder, limit: int = 20) -> list[ActionExplanation]:
    """Return an explanation of each action of a decision, in the order of the request.

    Takes some milliseconds, and half a second for a request with a million products of features.

    Args:
        decision: as it was logged.
        model: the model that made it.
        encoder: of the model.
        limit: the number of features listed for each action, beside the intercept.

    Raises:
        InvalidInput: if the policy has no coefficients, or the model has another number of features.
    """
    limit, coefficients = check_int("limit", limit, at_least=1), model.coefficients()
    if coefficients is None:
        raise InvalidInput(f"{model.policy.name} has no single estimate of theta that could explain a score")
    if not fits(model, decision, encoder):
        raise InvalidInput(
            f"decision {decision.event_id!r} does not have the {model.dim} features of this model; "
            "explain it with the model that made it"
        )
    terms = _terms(decision, coefficients, encoder)
    return [
        _explanation(action, probability, term, coefficients.intercept, limit)
        for action, probability, term in zip(decision.actions, decision.probabilities, terms, strict=True)
    ]


class _Terms(NamedTuple):
    """The features of an action."""

    values: Floats
    contributions: Floats
    name: Callable[[int], str]
    """The name of the feature at an index."""


def _terms(decision: Decision, coefficients: Coefficients, encoder: RequestEncoder) -> Iterator[_Terms]:
    if decision.encoding == JSON and isinstance(encoder, RequestMap):
        names = encoder.features.names
        arms = as_sparse_rows(arms_of(decision, encoder), encoder.width)
        for row in map(arms.row, range(arms.row_count)):
            terms = row.values * coefficients.at(row.indices)
            yield _Terms(row.values, terms, [names[index] for index in row.indices.tolist()].__getitem__)
    elif decision.encoding == JSON and isinstance(encoder, RequestHashing):
        request = msgspec.json.decode(decision.request, type=Described)
        for features in encoder.hashing.named_features_of_actions(request.shared, request.actions):
            weights = features.signs * coefficients.at(features.indices)
            yield _Terms(features.values, features.values * weights, features.name)
    else:
        for x in vectors_of(decision):
            yield _Terms(x, x * coefficients.at(np.arange(x.size)), "x[{}]".format)


def _explanation(action: str, probability: float, terms: _Terms, intercept: float, limit: int) -> ActionExplanation:
    contributions = terms.contributions
    order = np.argsort(-np.abs(contributions), kind="stable")
    listed = [
        Contribution(terms.name(i), float(terms.values[i]), float(contributions[i])) for i in order[:limit].tolist()
    ]
    if intercept != 0.0:
        listed.append(Contribution(INTERCEPT, 1.0, intercept))
        listed.sort(key=lambda term: -abs(term.contribution))
    if len(order) > limit:
        others = math.fsum(contributions[order[limit:]].tolist())
        listed.append(Contribution(f"other features ({len(order) - limit})", None, others))
    score = math.fsum([*contributions.tolist(), intercept])
    return ActionExplanation(action, score, probability, tuple(listed))
