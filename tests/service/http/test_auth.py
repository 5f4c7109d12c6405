from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from starlette.requests import Request

from glbandits.service.http.auth import Authenticator, RateLimit
from glbandits.service.http.http_errors import HttpError
from glbandits.service.storage.api_keys import Keys
from glbandits.service.storage.sqlite_store import SqliteStore


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[Keys]:
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        yield Keys(store, lambda: 0)


def request(**headers: str) -> Request:
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": sent, "client": ("10.0.0.1", 80), "state": {"headers": dict(sent)}})


def refusal(guard: Authenticator, request: Request, scope: str = "rank") -> HttpError:
    with pytest.raises(HttpError) as caught:
        guard.authorize(request, scope)
    return caught.value


def test_a_key_is_accepted_in_each_header(keys: Keys) -> None:
    text, guard = keys.create("shop").text, None
    guard = Authenticator(keys.live)
    for shown in ({"ocp_apim_subscription_key": text}, {"x_api_key": text}, {"authorization": f"Bearer {text}"}):
        for _ in range(3):  # the first is looked for, the others are remembered
            guard.authorize(request(**shown), "rank")
    guard.authorize(request(authorization=f"bearer  {text} "), "rank")
    guard.authorize(request(ocp_apim_subscription_key="", authorization=f"Bearer {text}"), "rank")


@pytest.mark.parametrize(
    "shown",
    [{}, {"authorization": "Basic abc"}, {"authorization": "Bearer"}, {"authorization": ""}],
)
def test_a_missing_key_is_explained(keys: Keys, shown: dict[str, str]) -> None:
    refused = refusal(Authenticator(keys.live), request(**shown))
    assert (refused.status, refused.code) == (401, "Unauthorized")
    assert "Ocp-Apim-Subscription-Key: KEY or as Authorization: Bearer KEY" in refused.message
    assert refused.headers == {"www-authenticate": "Bearer"}


def test_a_store_without_keys_refuses_all(keys: Keys) -> None:
    assert refusal(Authenticator(keys.live), request(ocp_apim_subscription_key="")).status == 401


def test_a_wrong_key_is_refused_and_not_echoed(keys: Keys) -> None:
    text = keys.create("shop").text
    refused = refusal(Authenticator(keys.live), request(authorization=f"Bearer {text}x"))
    assert refused.status == 401
    assert text not in refused.message


def test_a_key_has_only_its_scopes(keys: Keys) -> None:
    text = keys.create("shop", ("rank", "read")).text
    guard = Authenticator(keys.live)
    guard.authorize(request(authorization=f"Bearer {text}"), "read")
    refused = refusal(guard, request(authorization=f"Bearer {text}"), "admin")
    assert (refused.status, refused.code) == (403, "Forbidden")
    assert refused.message.startswith("the key must have the scope admin; 'shop' has rank, read. Create one")


def test_a_refresh_applies_new_and_revoked_keys(keys: Keys) -> None:
    old = keys.create("shop")
    guard = Authenticator(keys.live)
    guard.authorize(request(authorization=f"Bearer {old.text}"), "rank")
    new = keys.create("shop")
    keys.revoke(old.key.id)
    guard.refresh()
    guard.authorize(request(authorization=f"Bearer {new.text}"), "rank")
    assert refusal(guard, request(authorization=f"Bearer {old.text}")).status == 401


def test_rate_limit_returns_429_with_retry_after(keys: Keys) -> None:
    now, texts = 0.0, [keys.create(name).text for name in "ab"]
    guard = Authenticator(keys.live, rate_limit=RateLimit(0.5, clock=lambda: now))
    guard.authorize(request(authorization=f"Bearer {texts[0]}"), "rank")
    refused = refusal(guard, request(authorization=f"Bearer {texts[0]}"))
    assert (refused.status, refused.code, refused.headers) == (429, "TooManyRequests", {"retry-after": "2"})
    guard.authorize(request(authorization=f"Bearer {texts[1]}"), "rank")
    now = 2.0
    guard.authorize(request(authorization=f"Bearer {texts[0]}"), "rank")


def test_refused_scopes_do_not_use_the_rate_limit(keys: Keys) -> None:
    text = keys.create("shop", ("rank",)).text
    guard = Authenticator(keys.live, rate_limit=RateLimit(1.0, clock=lambda: 0.0))
    assert refusal(guard, request(authorization=f"Bearer {text}"), "read").status == 403
    guard.authorize(request(authorization=f"Bearer {text}"), "rank")


def test_an_address_cannot_guess_keys_quickly(keys: Keys) -> None:
    text, other = keys.create("shop").text, keys.create("news").text
    guard = Authenticator(keys.live)
    guard.authorize(request(authorization=f"Bearer {text}"), "rank")
    statuses = {refusal(guard, request(authorization=f"Bearer guess-{number}")).status for number in range(50)}
    assert statuses == {401, 429}
    assert refusal(guard, request(authorization="Bearer guess")).headers == {"retry-after": "1"}
    for known in (text, other):  # known keys of the address are not affected, not even at their first use
        guard.authorize(request(authorization=f"Bearer {known}"), "rank")
