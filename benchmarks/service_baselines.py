"""Servers for comparison: a bare reply, and a typical FastAPI application.

The FastAPI application checks requests with pydantic, scores actions with unpickled models, and explores with
epsilon-greedy. It does not store, learn or authenticate.
"""

import pickle
from typing import Any
from uuid import uuid4

import numpy as np
from fastapi import FastAPI
from pydantic import BaseModel
from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline

EPSILON = 0.1
REPLY = b'{"reply": "%s"}' % (b"x" * 400)
HEADERS = [(b"content-length", b"%d" % len(REPLY)), (b"content-type", b"application/json")]

app = FastAPI()
_rng = np.random.default_rng(0)
_model = make_pipeline(FeatureHasher(2**10), SGDClassifier(loss="log_loss"))
_model.fit([{"price": _rng.random(), "topic": f"topic-{i % 20}"} for i in range(1000)], np.arange(1000) % 2)
_weights, _model = pickle.loads(pickle.dumps((_rng.normal(size=6), _model)))


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """Read a request and send a fixed reply: the cost of HTTP with uvicorn."""
    assert scope["type"] == "http"
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": REPLY})


class DecideRequest(BaseModel):
    """Actions that are vectors of numbers."""

    arms: list[list[float]]


class Action(BaseModel):
    """An action that is described by JSON objects."""

    id: str
    features: list[dict[str, Any]]


class RankRequest(BaseModel):
    """Actions that are described by JSON objects, as in Personalizer's API."""

    contextFeatures: list[dict[str, Any]] = []
    actions: list[Action]


class Decided(BaseModel):
    """The chosen action and the probability of each one."""

    event_id: str
    action: str
    probabilities: list[float]


@app.post("/decide")
async def decide(request: DecideRequest) -> Decided:
    """Score with the weights of a linear model, the cheapest method."""
    return _choose(np.array(request.arms) @ _weights, [str(i) for i in range(len(request.arms))])


@app.post("/rank")
async def rank(request: RankRequest) -> Decided:
    """Score with scikit-learn's feature hashing and linear model."""
    context = {name: str(value) for part in request.contextFeatures for name, value in part.items()}
    rows = [context | {k: v for part in action.features for k, v in part.items()} for action in request.actions]
    return _choose(_model.decision_function(rows), [action.id for action in request.actions])


def _choose(scores: Any, ids: list[str]) -> Decided:
    probabilities = np.full(len(ids), EPSILON / len(ids))
    probabilities[np.argmax(scores)] += 1.0 - EPSILON
    chosen = _rng.choice(len(ids), p=probabilities)
    return Decided(event_id=str(uuid4()), action=ids[chosen], probabilities=probabilities.tolist())
