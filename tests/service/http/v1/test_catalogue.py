"""Catalogues over HTTP: arms that are sent once and chosen by id."""

from pathlib import Path
from typing import Any

import pytest

from glbandits.service.domain.events import Mode
from tests.service.http.v1.v1_site import Site

ARMS = [{"id": name, "features": [float(index), 1.0]} for index, name in enumerate("abc")]
REPEATED = "event 'e' was decided before with other actions or features; use another event id"


class Catalogued(Site):
    """A site whose default loop has a catalogue of three arms."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        assert self.put(ARMS) == 1

    def put(self, arms: list[dict[str, Any]], loop: str = "") -> int:
        """Add arms, and return the version."""
        reply = self.ask("PUT", f"{loop}/v1/catalogue/arms", {"arms": arms})
        assert reply.status_code == 200, reply.text
        return int(reply.json()["version"])

    def change(self, **changed: Any) -> int:
        """Retire or restore arms, and return the version."""
        reply = self.ask("PATCH", "/v1/catalogue/arms", changed)
        assert reply.status_code == 200, reply.text
        return int(reply.json()["version"])

    def decide_by_id(self, **question: Any) -> Any:
        """A decision from the catalogue."""
        reply = self.ask("POST", "/v1/catalogue/decide", question)
        assert reply.status_code == 200, reply.text
        return reply.json()


def test_an_arm_is_chosen_by_id(tmp_path: Path) -> None:
    with Catalogued(tmp_path) as site:
        decided = site.decide_by_id(eventId="e")
        assert decided.pop("id") in "abc"
        assert 0.1 <= decided.pop("probability") <= 1.0
        assert decided == {"eventId": "e", "catalogueVersion": 1, "modelVersion": "1.0", "degraded": False}


def test_a_decision_is_rewarded_and_learned(tmp_path: Path) -> None:
    with Catalogued(tmp_path) as site:
        before = site.service.loop("default").export_model()
        event = site.decide_by_id()["eventId"]
        assert site.ask("POST", "/v1/reward", {"eventId": event, "value": 1.0}).json()["status"] == "accepted"
        site.learn()
        assert site.service.loop("default").published.set_aside == 0
        assert site.service.loop("default").export_model() != before
        assert site.ask("GET", "/v1/statistics?window=all").json()["learned"] == 1


def test_the_same_event_gets_the_same_response(tmp_path: Path) -> None:
    with Catalogued(tmp_path) as site:
        first = site.decide_by_id(eventId="e", excluded=["a"])
        site.change(retire=[first["id"]])
        assert site.decide_by_id(eventId="e", excluded=["a"]) == first
        status, detail = site.refusal("POST", "/v1/catalogue/decide", {"eventId": "e"})
        assert (status, detail) == (400, REPEATED)
        status, detail = site.refusal("POST", "/v1/decide", {"eventId": "e", "arms": [[0.0, 1.0]]})
        assert (status, detail) == (400, REPEATED)


def test_the_log_has_the_chosen_arm_and_the_version(tmp_path: Path) -> None:
    with Catalogued(tmp_path) as site:
        decided = site.decide_by_id(eventId="e", only=["b", "c"], baseline="c")
        event = site.ask("GET", "/v1/events/e").json()
        assert event["actions"][event["shown"]] == decided["id"]
        assert event["features"][event["shown"]] == {"b": [1.0, 1.0], "c": [2.0, 1.0]}[decided["id"]]
        assert event["actions"][0] == "c"
        question = {"only": ["b", "c"], "excluded": [], "baseline": "c", "context": None}
        assert event["catalogue"].pop("highest") >= decided["probability"]
        assert event["catalogue"] == {"version": 1, "arms": 2, "question": question}
        (slot,) = site.ask("GET", "/v1/events/e/explanation").json()["slots"]
        assert [action["id"] for action in slot["actions"]] == event["actions"]


def test_arms_are_listed_and_read(tmp_path: Path) -> None:
    with Catalogued(tmp_path) as site:
        page = site.ask("GET", "/v1/catalogue/arms?limit=2").json()
        assert (page["version"], page["arms"]) == (1, ARMS[:2])
        assert site.ask("GET", f"/v1/catalogue/arms?after={page['after']}").json() == {
            "version": 1,
            "arms": ARMS[2:],
            "after": None,
        }
        assert site.ask("GET", "/v1/catalogue/arms/b").json() == ARMS[1]
        site.change(retire=["b"])
        assert site.refusal("GET", "/v1/catalogue/arms/b") == (
            404,
            "the catalogue has no arm 'b'; it was retired, or never added",
        )


def test_status_has_version_size_and_memory(tmp_path: Path) -> None:
    with Catalogued(tmp_path) as site:
        site.change(retire=["a"])
        status = site.ask("GET", "/v1/catalogue").json()
        assert status.pop("memory") > 0
        assert status == {"version": 2, "arms": 2, "encoding": "dense", "features": 2}


def test_each_loop_has_its_own_catalogue(tmp_path: Path) -> None:
    with Catalogued(tmp_path) as site:
        status, detail = site.refusal("POST", "/loops/a%2Fb/v1/catalogue/decide", {})
        assert (status, detail) == (400, "the catalogue is empty; add arms to it first")
        assert site.put(ARMS, loop="/loops/a%2Fb") == 1


def test_a_deleted_catalogue_is_empty(tmp_path: Path) -> None:
    with Catalogued(tmp_path) as site:
        assert site.ask("DELETE", "/v1/catalogue").json() == {"version": 2}
        assert site.ask("GET", "/v1/catalogue").json()["arms"] == 0


def test_fields_become_features(tmp_path: Path) -> None:
    with Catalogued(tmp_path) as site:
        site.change(retire=list("abc"))
        site.put([{"id": name, "features": {"topic": name, "price": 3}} for name in ("tea", "cola")])
        decided = site.decide_by_id(eventId="e")
        assert decided["id"] in ("tea", "cola")
        assert site.ask("GET", "/v1/catalogue/arms/tea").json()["features"] == {"topic": "tea", "price": 3}
        (slot,) = site.ask("GET", "/v1/events/e/explanation").json()["slots"]
        assert "topic" in str([term["feature"] for term in slot["actions"][0]["contributions"]])


def test_apprentice_mode_shows_the_named_baseline(tmp_path: Path) -> None:
    with Catalogued(tmp_path) as site:
        site.set_mode(Mode.APPRENTICE)
        assert site.decide_by_id(baseline="b")["id"] == "b"
        status, detail = site.refusal("POST", "/v1/catalogue/decide", {})
        assert (status, detail) == (
            400,
            "baseline is missing: the mode Apprentice shows it. Name an arm of the catalogue",
        )


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "detail"),
    [
        ("PUT", "arms", {"arms": []}, 400, "the body is invalid: Expected `array` of length >= 1 - at `$.arms`"),
        ("PUT", "arms", {"arms": [ARMS[0], ARMS[0]]}, 400, "ids must be unique; two arms have the same id"),
        ("PUT", "arms", {"arms": [{"id": "x", "features": [1.0]}]}, 400, "an arm must have 2 features, the width"),
        ("PUT", "arms", {"arms": [{"id": "x", "features": []}]}, 400, "an arm must have 1 to 10000 features; 'x' has"),
        ("PUT", "arms", {"arms": [{"id": "\0", "features": [1]}]}, 400, "the id of an arm must not contain NUL"),
        ("PUT", "arms", {"arms": [ARMS[0], {"id": "x", "features": {}}]}, 400, "features must be numbers for all arms"),
        ("PUT", "arms", {"arms": [{"id": "x", "features": {"t": "y" * 20000}}]}, 400, "may have 16384 bytes; 'x' has"),
        ("PUT", "arms", {"arms": ARMS, "after": 7}, 409, "the catalogue has version 1, not 7; read it again"),
        ("PUT", "arms", {"arms": [{**ARMS[0], "id": name} for name in "wxyz"]}, 400, "a catalogue may have 5 arms; it"),
        ("PATCH", "arms", {"retire": ["x"]}, 400, "the catalogue has no arm 'x', also not a retired one"),
        ("PATCH", "arms", {"retire": ["a"], "restore": ["a"]}, 400, "an arm can be retired or restored, not both"),
        ("GET", "arms?limit=0", None, 400, "limit must be 1 to 1000; got 0"),
        ("POST", "decide", {"only": ["x"]}, 400, "only: version 1 of the catalogue has no arm 'x'"),
        ("POST", "decide", {"excluded": ["a", "b", "c"]}, 400, "all 3 arms of the catalogue are excluded"),
        ("POST", "decide", {"context": [1.0]}, 400, "context must have 0 numbers, because"),
        ("POST", "decide", {"arms": [[1.0, 0.0]]}, 400, "unknown field `arms`"),
    ],
)
def test_wrong_requests_are_refused(
    tmp_path: Path, method: str, path: str, content: Any, status: int, detail: str
) -> None:
    with Catalogued(tmp_path, max_catalogue=5) as site:
        refused = site.refusal(method, f"/v1/catalogue/{path}", content)
        assert refused[0] == status
        assert detail in refused[1]
        assert site.service.store.catalogue_head("default")[0] == 1


def test_restoring_arms_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    with Catalogued(tmp_path, max_catalogue=3) as site:
        site.change(retire=["a"])
        site.put([{"id": "d", "features": [1.0, 1.0]}])
        refused = site.refusal("PATCH", "/v1/catalogue/arms", {"restore": ["a"]})
        assert refused == (400, "a catalogue may have 3 arms; it would have 4. Retire some first")


def test_changing_arms_needs_the_scope_admin(tmp_path: Path) -> None:
    with Catalogued(tmp_path) as site:
        narrow = {"headers": {"authorization": f"Bearer {site.narrow_key}"}}
        assert site.ask("POST", "/v1/catalogue/decide", {}, **narrow).status_code == 200
        for method, path in (("PUT", "/arms"), ("PATCH", "/arms"), ("DELETE", ""), ("GET", "")):
            assert site.ask(method, f"/v1/catalogue{path}", {}, **narrow).status_code == 403
