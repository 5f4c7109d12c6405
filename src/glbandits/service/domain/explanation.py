"""Why an action got its score: the contribution of each feature.

A contribution is the value of a feature times the coefficient that the model has learned for it. The contributions of
an action add up to its score, x'theta + intercept, which is the model's estimate on the scale of the link. They do not
explain why the action was drawn: that also depends on the bonus for uncertainty, on random decisions and on the draw.
Only the probability shows the effect of these. Contributions are not causes either: the model may give credit to a
feature because it occurs together with another one, or because both have the same hash index.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from glbandits.bandit import Bandit
from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput, check_int
from glbandits.maths.sparse_rows import as_sparse_rows
from glbandits.policies.contract import Coefficients
from glbandits.service.domain.contribution import Contribution
from glbandits.service.domain.decision_learning import has_width_of_model
from glbandits.service.domain.events import Decision
from glbandits.service.domain.request_features import (
    JSON,
    JsonRequest,
    RequestEncoder,
    RequestHashing,
    RequestMap,
    arms_of,
    vectors_of,
)

INTERCEPT = "intercept"


class ActionExplanation(msgspec.Struct, frozen=True):
    """The score of an action and the contributions to it."""

    id: str
    score: float
    """x'theta + intercept."""
    probability: float
    """The probability in the draw, with random decisions; 0 if the action was excluded."""
    contributions: tuple[Contribution, ...]
    """The largest first, by absolute value, and the other features last. They add up to the score."""


def explain(decision: Decision, model: Bandit, encoder: RequestEncoder, limit: int = 20) -> list[ActionExplanation]:
    """Return an explanation of each action of a decision, in the order of the request.

    Takes some milliseconds, and half a second for a request with a million products of features.

    Args:
        decision: the logged decision.
        model: the model that made it.
        encoder: the encoder of requests of the model.
        limit: the number of features listed for each action, beside the intercept.

    Raises:
        InvalidInput: if the policy has no coefficients, or the model has another number of features.
    """
    limit, coefficients = check_int("limit", limit, at_least=1), model.coefficients()
    if coefficients is None:
        raise InvalidInput(f"{model.policy.name} has no single estimate of theta, so its scores cannot be explained")
    if not has_width_of_model(decision, model, encoder):
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
    """The features of an action and their contributions."""

    values: Floats
    contributions: Floats
    name: Callable[[int], str]
    """Returns the name of the feature at an index of `values`."""


def _terms(decision: Decision, coefficients: Coefficients, encoder: RequestEncoder) -> Iterator[_Terms]:
    if decision.encoding == JSON and isinstance(encoder, RequestMap):
        names = encoder.features.names
        arms = as_sparse_rows(arms_of(decision, encoder), encoder.width)
        for row in map(arms.row, range(arms.row_count)):
            terms = row.values * coefficients.at(row.indices)
            yield _Terms(row.values, terms, [names[index] for index in row.indices.tolist()].__getitem__)
    elif decision.encoding == JSON and isinstance(encoder, RequestHashing):
        request = msgspec.json.decode(decision.request, type=JsonRequest)
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
