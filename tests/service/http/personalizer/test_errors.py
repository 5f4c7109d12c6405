"""Error responses in the format of the API."""

from typing import Any

import pytest

from glbandits.service.domain.errors import QueueFull, StoreError
from tests.service.http.personalizer.personalizer_site import ACTIONS, V1, Site

RANK = {"actions": ACTIONS}


def test_v1_has_coarse_codes_with_fine_inner_codes(site: Site) -> None:
    reply = site.ask("POST", f"{V1}/rank", {"actions": []})
    assert reply.status_code == 400
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-ms-error-code"] == "InvalidRankRequest"
    assert reply.json() == {
        "error": {
            "code": "BadRequest",
            "message": "Action count should be between 1 and 50.",
            "target": "/personalizer/v1.0/rank",
            "innerError": {"code": "InvalidRankRequest"},
            "details": [],
        }
    }


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/configurations/service"),
        ("GET", "/configurations/service"),
        ("POST", "/rank"),
    ],
)
def test_a_reward_key_allows_only_rewards(site: Site, method: str, path: str) -> None:
    headers = {"ocp-apim-subscription-key": site.reward_key}
    for base in (V1, "/loops/shop" + V1):
        assert site.refusal(method, base + path, headers=headers)[0] == 403


def test_unknown_paths_and_methods_are_refused(site: Site) -> None:
    reply = site.ask("GET", f"{V1}/rank")
    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")
    assert reply.headers["x-ms-error-code"] == "OperationNotAllowed"
    for path in ("/multislot/rank", "/configurations/policy"):  # not offered
        assert site.refusal("POST", V1 + path, RANK)[:2] == (404, "ResourceNotFound")
    for version in ("/v0.9", "/v1.1-preview.3", ""):
        assert site.refusal("POST", f"/personalizer{version}/rank", RANK)[:2] == (404, "ResourceNotFound")
    assert site.refusal("POST", f"{V1}/events/%FF/reward", {"value": 1})[0] == 404


@pytest.mark.parametrize("prefix", ["", "/loops/shop", "/loops/none"])
def test_errors_of_the_router_have_the_format(site: Site, prefix: str) -> None:
    for method, path, status, code in (
        ("POST", "/ranks", 404, "ResourceNotFound"),
        ("DELETE", "/rank", 405, "BadRequest"),
    ):
        reply = site.ask(method, prefix + V1 + path)
        assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
        assert reply.json()["error"]["target"] == prefix + V1 + path


def test_other_paths_have_problem_details(site: Site) -> None:
    for path in ("/nothing", "/loops/shop/nothing", "/personalizers"):
        assert site.ask("GET", path).headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (QueueFull("3 events wait"), "3 events wait"),
        (StoreError("/srv/store.db: the disk is full"), "The store failed. Retry later."),
    ],
)
def test_failures_of_the_store_can_be_retried(
    site: Site, error: Exception, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(site.service.writer, "submit", submit)
    reply = site.ask("POST", f"{V1}/events/e/reward", {"value": 1})
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
    assert reply.json()["error"]["message"] == expected
    assert reply.headers["x-ms-error-code"] == "OperationNotAllowed"
    assert site.ask("POST", f"{V1}/rank", RANK).json()["error"]["code"] == "InternalServerError"


def test_an_internal_error_has_no_details(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def submit(*_: Any) -> Any:
        raise RuntimeError("secret")

    monkeypatch.setattr(site.service.writer, "submit", submit)
    assert site.refusal("POST", f"{V1}/rank", RANK) == (
        500,
        "InternalServerError",
        "The server failed. Its log has the error.",
    )
    assert "secret" in caplog.text
