"""Two rankers at two network addresses share one PostgreSQL database."""

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.service.helpers import wait_until
from tests.service.http.servers.rankers import Ranker, configure, first_key_of, rankers
from tests.service.http.servers.server_process import ACTIONS, Reply
from tests.service.storage.postgres.postgres_server import PostgresServer

pytestmark = pytest.mark.system

log = logging.getLogger(__name__)

SOON = 2.0
"""Seconds within which models and configurations reach the other ranker."""
TAKEOVER = 10.0
"""Seconds within which the other ranker learns after the learner died."""
NEVER = 3600.0
"""A time between two updates of the model at which nothing is polled during a test."""


class Pair:
    """Two rankers that were started at the same moment over an empty database."""

    def __init__(self, started: list[Ranker]) -> None:
        self.rankers, self.key = started, first_key_of(started)

    def ask(self, ranker: Ranker, method: str, path: str, body: Any = None) -> Reply:
        return ranker.server.ask(method, path, body, self.key)

    def rank(self, ranker: Ranker, event_id: str) -> Any:
        reply = self.ask(ranker, "POST", "/personalizer/v1.0/rank", {"eventId": event_id, "actions": ACTIONS})
        assert reply.status == 201, reply
        return reply.json

    def reward(self, ranker: Ranker, event_id: str) -> int:
        return self.ask(ranker, "POST", "/v1/reward", {"eventId": event_id, "value": 1.0, "key": "sale"}).status

    def status(self, ranker: Ranker) -> Any:
        return self.ask(ranker, "GET", "/v1/status").json

    def learner_and_follower(self) -> tuple[Ranker, Ranker]:
        wait_until(lambda: bool(self._learner()))
        (learner,) = self._learner()
        (follower,) = [ranker for ranker in self.rankers if ranker is not learner]
        return learner, follower

    def _learner(self) -> list[Ranker]:
        return [ranker for ranker in self.rankers if ranker.server.learns(self.key)]


@pytest.fixture(scope="module", name="pair")
def pair_fixture(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    with rankers(folder, postgres.new_address(), ["127.0.0.1", "127.0.0.2"]) as started:
        yield Pair(started)


def test_an_event_ranked_by_both_at_once_is_one_decision(pair: Pair) -> None:
    configure(pair.rankers, pair.key, {"exploration": 1.0})
    with ThreadPoolExecutor(2) as pool:
        for number in range(50):
            name = f"both-{number}"
            one, other = pool.map(pair.rank, pair.rankers, [name, name])
            assert one == other
            assert list(pool.map(pair.reward, pair.rankers, [name, name])) == [200, 200]
            assert len(pair.ask(pair.rankers[0], "GET", f"/v1/events/{name}").json["rewards"]) == 1


def test_a_changed_configuration_reaches_the_other_ranker(pair: Pair) -> None:
    configure(pair.rankers, pair.key, {"modelUpdate": NEVER})
    for exploration in (0.3, 0.4):
        assert configure(pair.rankers, pair.key, {"exploration": exploration}) < SOON


def test_a_new_model_reaches_the_other_ranker(pair: Pair) -> None:
    configure(pair.rankers, pair.key, {"modelUpdate": NEVER})
    before = pair.status(pair.rankers[1])["modelVersion"]
    began = time.monotonic()
    changed = {"settings": {"link": "identity", "half_life": 1000}}
    assert pair.ask(pair.rankers[0], "PATCH", "/v1/configuration", changed).status == 200
    wait_until(lambda: pair.status(pair.rankers[1])["modelVersion"] != before)
    assert time.monotonic() - began < SOON
    assert pair.status(pair.rankers[0])["modelVersion"] == pair.status(pair.rankers[1])["modelVersion"]


def test_a_learned_model_reaches_the_other_ranker(pair: Pair) -> None:
    configure(pair.rankers, pair.key, {"modelUpdate": 0.2, "rewardWait": 0.2})
    learner, follower = pair.learner_and_follower()
    before = pair.status(learner)["learnedTo"]
    pair.rank(follower, "learned by the other")
    wait_until(lambda: pair.status(learner)["learnedTo"] > before)
    began = time.monotonic()
    wait_until(lambda: pair.status(follower)["learnedTo"] > before)
    assert time.monotonic() - began < SOON


def test_the_other_ranker_learns_after_the_learner_was_killed(pair: Pair) -> None:
    configure(pair.rankers, pair.key, {"modelUpdate": 0.2, "rewardWait": 0.2})
    learner, follower = pair.learner_and_follower()
    before = pair.status(follower)["learnedTo"]
    learner.kill()
    began = time.monotonic()
    pair.rank(follower, "after the kill")
    assert pair.reward(follower, "after the kill") == 200
    wait_until(lambda: pair.status(follower)["learnedTo"] > before)
    log.info("takeover after %.2f s", seconds := time.monotonic() - began)
    assert seconds < TAKEOVER
    learner.start()
    wait_until(lambda: pair.status(learner) == pair.status(follower))
