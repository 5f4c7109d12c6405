"""What the service is compared with: a bare reply, and what a user would write with FastAPI, without a log.

The FastAPI applications check requests with pydantic, score actions with an unpickled scikit-learn model, and choose
one with epsilon-greedy exploration. They do not store, learn or authenticate.
"""

import pickle
from typing import Any
from uuid import uuid4

import numpy as np
from fastapi import FastAPI
from pydantic import BaseModel, Field
from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline

EPSILON = 0.1
REPLY = b'{"reply": "%s"}' % (b"x" * 400)
HEADERS = [(b"content-length", b"%d" % len(REPLY)), (b"content-type", b"application/json")]

app = FastAPI()
_rng = np.random.default_rng(0)


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """Read a request and send a fixed reply: what HTTP with uvicorn costs."""
    assert scope["type"] == "http"
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": REPLY})


class DecideRequest(BaseModel):
    """Actions that are vectors of numbers."""

    event_id: str | None = Field(None, alias="eventId")
    arms: list[list[float]]


class Action(BaseModel):
    """An action that is described by JSON objects."""

    id: str
    features: list[dict[str, Any]]


class RankRequest(BaseModel):
    """Actions that are described by JSON objects, as Personalizer's API takes them."""

    event_id: str | None = Field(None, alias="eventId")
    context: list[dict[str, Any]] = Field([], alias="contextFeatures")
    actions: list[Action]


class Decided(BaseModel):
    """The chosen action and the probability of each one."""

    event_id: str
    action: str
    probabilities: list[float]


def _fitted(model: Any, features: Any) -> Any:
    """A model that was fitted, saved with pickle, and loaded."""
    model.fit(features, np.arange(len(features)) % 2)
    return pickle.loads(pickle.dumps(model))  # noqa: S301


_vector_model = _fitted(SGDClassifier(loss="log_loss"), _rng.normal(size=(1000, 6)))
_object_model = _fitted(
    make_pipeline(FeatureHasher(2**10), SGDClassifier(loss="log_loss")),
    [{"price": _rng.random(), "topic": f"topic-{i % 20}"} for i in range(1000)],
)


def _choose(scores: Any, ids: list[str], event_id: str | None) -> Decided:
    probabilities = np.full(len(ids), EPSILON / len(ids))
    probabilities[np.argmax(scores)] += 1.0 - EPSILON
    chosen = _rng.choice(len(ids), p=probabilities)
    return Decided(event_id=event_id or str(uuid4()), action=ids[chosen], probabilities=probabilities.tolist())


@app.post("/numpy")
async def numpy_decide(request: DecideRequest) -> Decided:
    """Score with the weights of the model alone, which is the cheapest way."""
    scores = np.array(request.arms) @ _vector_model.coef_[0]
    return _choose(scores, [str(i) for i in range(len(scores))], request.event_id)


@app.post("/decide")
async def decide(request: DecideRequest) -> Decided:
    """Score with the model."""
    scores = _vector_model.decision_function(request.arms)
    return _choose(scores, [str(i) for i in range(len(scores))], request.event_id)


@app.post("/rank")
async def rank(request: RankRequest) -> Decided:
    """Score with the model after feature hashing."""
    context = _flat(request.context)
    scores = _object_model.decision_function([context | _flat(action.features) for action in request.actions])
    return _choose(scores, [action.id for action in request.actions], request.event_id)


def _flat(objects: list[dict[str, Any]], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for part in objects:
        for name, value in part.items():
            flat |= _flat([value], f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat
