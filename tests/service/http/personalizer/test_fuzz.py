"""Whatever is sent to rank and reward: never a failure, and never taken if it is wrong."""

import json
import math
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.http.personalizer.personalizer_site import ACTIONS, CONTEXT, V1, Site

WHOLE = {"contextFeatures": CONTEXT, "actions": ACTIONS, "excludedActions": ["juice"], "deferActivation": False}
NEAR: dict[str, Any] = {
    "configurations/service": {"rewardWaitTime": "PT10M", "defaultReward": 0.0, "learningMode": "Online"},
}

ODD: list[Any] = [
    None, True, 0, -1, 2**63, 2**64, 10**400, 1e308, 1e-320, math.nan, math.inf,
    "", " ", "\0", "\ud800", "ä😀", "x" * 300,
    [], {}, [[]], [{}], [None], ["x"], {"": ""}, {"_": 1}, {"a": {"b": {"c": {"d": 1}}}}, [1, "x"], [[1, 2], [3]],
]  # fmt: skip
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.sampled_from(ODD))
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module", name="site")
def site_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("fuzz")) as site:
        site.rank(eventId="known")
        yield site


def encoded(value: Any) -> bytes:
    """JSON as a careless program writes it, with NaN and lone surrogates."""
    return json.dumps(value).encode()


def is_json(body: bytes) -> bool:
    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        json.loads(body, parse_constant=refuse)
    except (ValueError, RecursionError):
        return False
    return True


def judge_rank(status: int, body: bytes) -> None:
    """No failure; and what is taken has actions that could be shown."""
    assert status in (201, 400), body
    if status == 201:
        assert is_json(body)
        request_body = json.loads(body)
        ids = [action["id"] for action in request_body["actions"]]
        assert 1 <= len(set(ids)) == len(ids) <= 50
        assert all(isinstance(name, str) and 0 < len(name) <= 256 for name in ids)
        assert all(action["features"] for action in request_body["actions"])
        assert request_body.get("eventId") is None or 0 < len(request_body["eventId"]) <= 256
        if "slots" not in request_body:
            assert set(ids) - set(request_body.get("excludedActions") or ())


def judge_reward(status: int, body: bytes) -> None:
    assert status in (204, 400), body
    if status == 204:
        assert is_json(body)
        value = json.loads(body)["value"]
        assert not isinstance(value, bool)
        assert -1 <= value <= 1


def changed(value: Any, rng: random.Random) -> Any:
    """Something near it: one part is another, is gone, or is there twice."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        name = rng.choice(list(value))
        if rng.random() < 0.15:
            return {key: part for key, part in value.items() if key != name}
        if rng.random() < 0.1:
            return value | {name + "2": value[name]}
        return value | {name: changed(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.85:
        index = rng.randrange(len(value))
        if rng.random() < 0.15:
            return value * rng.choice([0, 2, 30])
        return [*value[:index], changed(value[index], rng), *value[index + 1 :]]
    return rng.choice(ODD)


def spoiled(body: bytes, rng: random.Random) -> bytes:
    """Its bytes, mostly whole; or broken off, changed, or within many brackets."""
    kind = rng.random()
    if kind < 0.6:
        return body
    if kind < 0.75:
        return body[: rng.randrange(len(body) + 1)]
    if kind < 0.9:
        index = rng.randrange(len(body) + 1)
        return body[:index] + rng.randbytes(rng.randrange(4)) + body[index + rng.randrange(3) :]
    deep = rng.choice([10, 500, 20_000])
    return body.replace(b'"salty"', b"[" * deep + b"]" * deep)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(body=st.one_of(VALUES.map(encoded), st.binary(max_size=50)))
def test_any_body_gets_a_valid_response(site: Site, body: bytes) -> None:
    judge_rank(site.ask("POST", f"{V1}/rank", body).status_code, body)
    judge_reward(site.ask("POST", f"{V1}/events/known/reward", body).status_code, body)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(name=st.sampled_from([*WHOLE, "eventId", "other"]), value=VALUES, features=VALUES, reward=VALUES)
def test_any_field_value_gets_a_valid_response(site: Site, name: str, value: Any, features: Any, reward: Any) -> None:
    for request_body in (WHOLE | {name: value}, WHOLE | {"actions": [{"id": "a", "features": features}]}):
        judge_rank(site.ask("POST", f"{V1}/rank", encoded(request_body)).status_code, encoded(request_body))
    body = encoded({"value": reward})
    judge_reward(site.ask("POST", f"{V1}/events/known/reward", body).status_code, body)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(path=st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_any_event_id_in_a_path_gets_a_valid_response(site: Site, path: str) -> None:
    quoted = "".join(f"%{byte:02X}" for byte in path.encode())
    assert site.ask("POST", f"{V1}/events/{quoted}/reward", {"value": 1}).status_code in (204, 400, 404)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), path=st.sampled_from(list(NEAR)))
def test_any_setting_gets_a_valid_response(site: Site, seed: int, path: str) -> None:
    rng = random.Random(seed)
    body = spoiled(encoded(changed(NEAR[path], rng)), rng)
    assert site.ask("PUT", f"/loops/shop{V1}/{path}", body).status_code in (200, 400)


def fuzz(site: Site, requests: int, seed: int) -> Counter[tuple[str, int]]:
    """Requests near good ones, one after the other; how they were answered."""
    rng, responses = random.Random(seed), Counter[tuple[str, int]]()

    async def send() -> None:
        for _ in range(requests):
            kind = rng.choice(["rank", "rank", "events/known/reward"])
            request_body: Any = {"value": 0.5} if kind.endswith("reward") else WHOLE
            for _ in range(rng.randrange(3)):
                request_body = changed(request_body, rng)
            body = spoiled(encoded(request_body), rng)
            status = (await site.ask_async("POST", f"{V1}/{kind}", body)).status_code
            responses[kind, status] += 1
            if kind == "events/known/reward":
                judge_reward(status, body)
            else:
                judge_rank(status, body)

    site.run(send())
    return responses


def test_nearly_valid_requests_get_a_valid_response(site: Site) -> None:
    responses = fuzz(site, 1_000, seed=1)
    assert all(responses[kind, 400] > 30 for kind in ("rank", "events/known/reward"))
    assert min(responses["rank", 201], responses["events/known/reward", 204]) > 30
    site.learn()  # all accepted events can be learned
    assert site.service.store.check() == []
