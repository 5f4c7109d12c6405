"""The evaluation of one flag: values, reasons, stickiness, errors."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest

from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import Mode
from glbandits.service.domain.groups.experiment import Control
from glbandits.service.domain.variants import Variant
from glbandits.service.runtime.loops.guardrails import Fallback, GuardrailState
from glbandits.service.runtime.replay.replay_verification import verify
from tests.service.http.ofrep.flag_site import COLOURS, PATH, FlagSite

pytestmark = pytest.mark.usefixtures("plain_python")


@pytest.fixture(name="site")
def site_fixture(tmp_path: Path) -> Iterator[FlagSite]:
    with FlagSite(tmp_path) as site:
        yield site
        site.learn()
        assert verify(site.service.store, "colour").sound


def test_an_evaluation_is_a_logged_decision(site: FlagSite) -> None:
    found = site.evaluate("ann", plan="free")
    logged = site.event(found)
    assert (found["key"], found["reason"]) == ("colour", "SPLIT")
    assert found["value"] == COLOURS[found["variant"]].value
    assert found["metadata"]["probability"] == logged["probability"] == pytest.approx(1 / 3, abs=0.05)
    assert found["metadata"]["modelVersion"] == logged["modelVersion"]
    assert logged["actions"] == list(COLOURS)
    assert logged["features"]["shared"] == [{"plan": "free"}]


def test_the_log_has_a_hash_of_the_targeting_key_only(site: FlagSite) -> None:
    logged = site.event(site.evaluate("ann@example.com", plan="free"))
    assert len(logged["unit"]) == 32
    assert "ann" not in str(logged)


@pytest.mark.parametrize("value", [True, "text", 3, 2.5, {"size": 4, "parts": ["a"]}])
def test_values_have_their_type(site: FlagSite, value: Any) -> None:
    site.configure(variants={"only": Variant(value=value)})
    found = site.evaluate("ann")["value"]
    assert (found, type(found)) == (value, type(value))


def test_repeated_evaluations_are_one_decision(site: FlagSite) -> None:
    first = site.evaluate("ann", plan="free")
    for seconds in (0, 5, 30, 24):  # also after the reward window
        site.now += seconds * 1_000_000
        assert site.evaluate("ann", plan="paid") == first
    assert site.decisions() == 1
    site.now += 10_000_000
    assert site.evaluate("ann")["metadata"]["eventId"] != first["metadata"]["eventId"]


def test_evaluations_at_the_same_time_are_one_decision(site: FlagSite) -> None:
    async def ask_together() -> list[httpx.Response]:
        body = {"context": {"targetingKey": "ann"}}
        return await asyncio.gather(*(site.ask_async("POST", f"{PATH}/colour", body) for _ in range(8)))

    assert len({reply.text for reply in site.run(ask_together())}) == 1
    assert len(site.service.store.latest_of_unit("colour", site.service.loop("colour").hashed_unit("ann"), 9)) == 1


def test_a_decision_that_is_not_known_to_be_durable_is_stale(site: FlagSite, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = site.ask("POST", PATH, {"context": {"targetingKey": "bob"}}).json()["flags"][0]
    with monkeypatch.context() as patch:
        patch.setattr(site.service.store, "append", AsyncMock(side_effect=StoreError("a test")))
        stale = site.evaluate("ann")
        assert (stale["reason"], site.evaluate("ann")["variant"]) == ("STALE", stale["variant"])
        assert site.evaluate("bob") == shown | {"reason": "STALE"}  # that it is shown cannot be written
    site.run(asyncio.sleep(0.3))
    assert site.evaluate("ann") == stale | {"reason": "SPLIT"}
    assert site.evaluate("bob") == shown


@pytest.mark.parametrize("mode", [Mode.APPRENTICE, Mode.LOGGING])
def test_a_stopped_loop_returns_the_default_once(site: FlagSite, mode: Mode) -> None:
    learned = site.evaluate("ann")
    site.configure(mode=mode, default_variant="blue")
    found = site.evaluate("ann")
    assert (found["variant"], found["reason"], found["metadata"]["probability"]) == ("blue", "DEFAULT", 1.0)
    assert site.evaluate("ann") == found
    assert site.decisions() == 2
    site.configure(mode=Mode.ONLINE)
    assert site.evaluate("ann") == learned


def test_fallback_returns_the_default(site: FlagSite) -> None:
    site.service.loop("colour").guardrails.state = GuardrailState(fallback=Fallback(1, "m", "a test"))
    found = site.evaluate("ann")
    assert (found["variant"], found["reason"]) == ("red", "DEFAULT")
    site.service.loop("colour").guardrails.state = GuardrailState()


def test_control_gets_the_default_variant(site: FlagSite) -> None:
    site.configure(control=Control(share=0.5), default_variant="green")
    found = [site.evaluate(f"u{number}") for number in range(30)]
    control = [each for each in found if site.event(each)["group"] == "control"]
    assert {each["variant"] for each in control} == {"green"}
    assert all((each["reason"] == "DEFAULT") == (each in control) for each in found)
    assert 0 < len(control) < 30


def test_a_retired_variant_is_shown_to_nobody_and_others_stay(site: FlagSite) -> None:
    before = {f"u{number}": site.evaluate(f"u{number}") for number in range(20)}
    site.configure(variants=COLOURS | {"green": Variant(value="#0f0", retired=True)})
    for unit, first in before.items():
        now = site.evaluate(unit)
        assert now["variant"] != "green"
        assert (now == first) == (first["variant"] != "green")
    assert {first["variant"] for first in before.values()} == set(COLOURS)


def test_an_added_variant_is_shown_and_removed_ones_stay_in_the_log(site: FlagSite) -> None:
    first = site.evaluate("ann")
    site.learn()
    variants = {"black": Variant(value="#000", features={"dark": True}), "grey": Variant(value="#888")}
    site.configure(variants=variants, exploration=1.0)
    assert {site.evaluate(f"u{number}")["variant"] for number in range(20)} == {"black", "grey"}
    assert site.event(first)["actions"] == list(COLOURS)


def test_a_worth_of_a_variant_decides(site: FlagSite) -> None:
    site.configure(variants={"a": Variant(value=1), "b": Variant(value=2, worth=3.0, cost=0.5)})
    logged = site.event(site.evaluate("ann"))
    assert (logged["values"], logged["costs"]) == ([1.0, 3.0], [0.0, 0.5])


def test_the_dashboard_names_actions_by_their_variants(site: FlagSite) -> None:
    for number in range(20):
        site.evaluate(f"u{number}")
    site.learn()
    found = site.ask("GET", "/loops/colour/v1/statistics").json()["actions"]
    assert {action["id"] for action in found} == set(COLOURS)


ERRORS: list[tuple[Any, str]] = [
    (b"{", "PARSE_ERROR"),
    (b"\xff", "PARSE_ERROR"),
    ([], "PARSE_ERROR"),
    ({}, "INVALID_CONTEXT"),
    ({"context": "ann"}, "INVALID_CONTEXT"),
    ({"context": {}}, "TARGETING_KEY_MISSING"),
    ({"context": {"targetingKey": ""}}, "TARGETING_KEY_MISSING"),
    ({"context": {"targetingKey": 7}}, "INVALID_CONTEXT"),
    ({"context": {"targetingKey": "a" * 257}}, "INVALID_CONTEXT"),
    ({"context": {"targetingKey": "ann", "groups": ["a", "b"]}}, "INVALID_CONTEXT"),
]


@pytest.mark.parametrize(("body", "code"), ERRORS)
def test_a_bad_request_has_the_code_of_the_standard(site: FlagSite, body: Any, code: str) -> None:
    reply = site.ask("POST", f"{PATH}/colour", body)
    assert reply.status_code == 400
    found = reply.json()
    assert (found["key"], found["errorCode"]) == ("colour", code)
    assert found["errorDetails"]
    assert reply.headers["content-type"] == "application/json"
    assert site.decisions() == 0


@pytest.mark.parametrize("key", ["plain", "nothing", "a/b", "%00"])
def test_a_loop_without_variants_is_no_flag(site: FlagSite, key: str) -> None:
    reply = site.try_evaluate("ann", key)
    assert (reply.status_code, reply.json()["errorCode"]) == (404, "FLAG_NOT_FOUND")


def test_an_evaluate_key_can_evaluate_and_nothing_else(site: FlagSite) -> None:
    bodies: list[tuple[str, str, int]] = [
        ("POST", f"{PATH}/colour", 200),
        ("POST", "/v1/decide", 403),
        ("POST", "/v1/reward", 403),
        ("POST", "/v1/activate", 403),
        ("GET", "/v1/configuration", 403),
        ("GET", "/metrics", 403),
    ]
    for method, path, status in bodies:
        body = {"context": {"targetingKey": "ann"}} if method == "POST" else None
        shown = {"authorization": "", "x-api-key": site.narrow_key}
        assert site.ask(method, path, body, headers=shown).status_code == status, path


def test_too_many_requests_say_when_to_retry(tmp_path: Path) -> None:
    with FlagSite(tmp_path, rate_limit=2.0) as site:
        replies = [site.try_evaluate("ann") for _ in range(3)]
    assert [reply.status_code for reply in replies] == [200, 200, 429]
    assert replies[-1].headers["retry-after"] == "1"
    assert replies[-1].json()["errorCode"] == "GENERAL"


def test_a_page_of_an_allowed_origin_may_send_its_key(tmp_path: Path) -> None:
    with FlagSite(tmp_path, cors_origins=("https://shop.example",)) as site:
        asked = {
            "origin": "https://shop.example",
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type,if-none-match,x-api-key",
        }
        reply = site.ask("OPTIONS", f"{PATH}/colour", headers=asked)
        assert reply.status_code == 200
        assert reply.headers["access-control-allow-origin"] == "https://shop.example"
        other = site.ask("OPTIONS", f"{PATH}/colour", headers=asked | {"origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers
