import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glbandits import Bandit, InvalidInput, Optimist, Policy, Uniform
from glbandits.common.arrays import Floats
from glbandits.features import Hashing
from glbandits.policies.contract import Coefficients
from glbandits.service.domain.events import Decision
from glbandits.service.domain.explanation import ActionExplanation, explain
from glbandits.service.domain.request_features import DENSE, JSON, RequestHashing, arms_of, encode_json_request
from tests.service.domain.test_request_features import OBJECTS
from tests.service.helpers import decision

WIDTH = 16
ENCODER = RequestHashing(Hashing(WIDTH))


def model_of(policy: Policy, dim: int = WIDTH) -> Bandit:
    """A model that has learned 100 rewards around 2."""
    model, rng = Bandit(policy, dim, seed=1), np.random.default_rng(1)
    X = rng.uniform(-1, 1, (100, dim))
    model.learn_batch(X, 2.0 + X @ rng.uniform(-1, 1, dim))
    return model


MODEL = model_of(Optimist(link="identity"))
LEARNED = MODEL.coefficients() or Coefficients(np.zeros(WIDTH))


def described(shared: Any, actions: list[Any]) -> Decision:
    return decision("e", request=encode_json_request(shared, actions), encoding=JSON, **ids(len(actions)))


def dense(arms: Floats) -> Decision:
    return decision("e", request=arms.tobytes(), encoding=DENSE, **ids(len(arms)))


def ids(count: int) -> dict[str, Any]:
    return {"actions": tuple(f"a{i}" for i in range(count)), "probabilities": (1.0 / count,) * count}


def check_sums(made: Decision, explanations: list[ActionExplanation], limit: int) -> None:
    """Contributions add up to the score, relative to the size of what was added."""
    assert tuple(explanation.id for explanation in explanations) == made.actions
    assert tuple(explanation.probability for explanation in explanations) == made.probabilities
    every = explain(made, MODEL, ENCODER, limit=10_000)
    for explanation, whole, x in zip(explanations, every, np.asarray(arms_of(made, ENCODER)), strict=True):
        margin = 1e-9 * sum(abs(term.contribution) for term in whole.contributions)
        assert sum(term.contribution for term in explanation.contributions) == pytest.approx(
            explanation.score, rel=0, abs=margin
        )
        assert explanation.score == pytest.approx(x @ LEARNED.theta + LEARNED.intercept, rel=0, abs=margin)
        assert len(explanation.contributions) <= limit + 2
        sizes = [abs(term.contribution) for term in explanation.contributions if term.value is not None]
        assert sizes == sorted(sizes, reverse=True)


@settings(deadline=None)
@given(OBJECTS, st.lists(OBJECTS, min_size=1, max_size=3), st.integers(1, 10))
def test_contributions_of_json_features_add_up(shared: Any, actions: list[Any], limit: int) -> None:
    made = described(*msgspec.json.decode(json.dumps([shared, actions])))
    check_sums(made, explain(made, MODEL, ENCODER, limit), limit)


@settings(deadline=None)
@given(st.integers(0, 1000), st.integers(1, 5), st.integers(1, 20))
def test_contributions_of_dense_features_add_up(seed: int, count: int, limit: int) -> None:
    made = dense(np.random.default_rng(seed).normal(size=(count, WIDTH)))
    check_sums(made, explain(made, MODEL, ENCODER, limit), limit)


def test_each_feature_gets_its_value_times_its_coefficient() -> None:
    features = {feature.name: feature for feature in Hashing(WIDTH).named_features({"age": 31}, {"topic": "a"})}
    (explanation,) = explain(described([{"age": 31}], [[{"topic": "a"}]]), MODEL, ENCODER)
    terms = {term.feature: term for term in explanation.contributions}
    assert terms.keys() == {"constant", "age", "topic=a", "age * topic=a", "intercept"}
    assert terms["age"].value == terms["age * topic=a"].value == 31.0
    assert terms["intercept"].contribution == LEARNED.intercept
    for name, feature in features.items():
        expected = feature.value * LEARNED.theta[feature.index]
        assert terms[name].contribution == pytest.approx(expected, rel=1e-12)


def test_dense_features_are_named_by_index() -> None:
    x = np.zeros((1, WIDTH))
    x[0, 3] = 2.0
    (explanation,) = explain(dense(x), MODEL, ENCODER, limit=1)
    terms = {term.feature: term for term in explanation.contributions}
    assert terms.keys() == {"x[3]", "intercept", "other features (15)"}
    assert terms["x[3]"].contribution == pytest.approx(2.0 * LEARNED.theta[3])
    assert terms["other features (15)"].contribution == 0.0
    assert terms["other features (15)"].value is None


def test_explanation_of_a_large_request_stays_small() -> None:
    shared, actions = [{"text": "y" * 50_000, "x": [0.5] * 900}], [[{"topic": "z" * 50_000}]] * 20
    explanations = explain(described(shared, actions), MODEL, ENCODER, limit=20)
    assert len(msgspec.json.encode(explanations)) < 20 * 21 * 300


def test_policy_without_coefficients_cannot_explain() -> None:
    with pytest.raises(InvalidInput, match="uniform has no single estimate of theta"):
        explain(dense(np.ones((1, 3))), Bandit(Uniform(), dim=3), RequestHashing(Hashing(3)))


def test_model_with_other_features_cannot_explain() -> None:
    message = "decision 'e' does not have the 16 features of this model"
    with pytest.raises(InvalidInput, match=message):
        explain(dense(np.ones((1, 3))), MODEL, ENCODER)
    with pytest.raises(InvalidInput, match=message):
        explain(described([], [[]]), MODEL, RequestHashing(Hashing(64)))


def test_limit_is_checked() -> None:
    with pytest.raises(InvalidInput, match="limit must be a whole number of at least 1"):
        explain(described([], [[]]), MODEL, ENCODER, limit=0)
