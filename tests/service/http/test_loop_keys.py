"""Keys for single loops."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from glbandits.common.errors import InvalidInput, UnknownName
from glbandits.service.http.auth import OPEN
from glbandits.service.http.endpoint import Endpoint
from glbandits.service.http.endpoints import ENDPOINTS
from glbandits.service.storage.api_keys import SCOPES, Keys
from tests.service.http.ofrep.flag_site import COLOURS, PATH, FlagSite
from tests.service.http.v1.v1_site import ARMS, Site

pytestmark = pytest.mark.usefixtures("plain_python")
CLOSED = [endpoint for endpoint in ENDPOINTS if endpoint.scope != OPEN]


@pytest.fixture(name="site", scope="module")
def site_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site with a narrow key for the loop `shop`."""
    with Site(tmp_path_factory.mktemp("site"), scopes=(*SCOPES, "loop:shop")) as site:
        yield site


def status_of(site: Site, endpoint: Endpoint, loop: str, prefix: str = "") -> int:
    path = prefix + endpoint.path
    for name, value in (("{loop}", loop), ("{key:event}", loop), ("{event}", "e"), ("{event:event}", "e")):
        path = path.replace(name, value)
    headers = {"authorization": f"Bearer {site.narrow_key}"}
    return int(site.ask(endpoint.method, path, b"no JSON", headers=headers).status_code)


@pytest.mark.parametrize("endpoint", CLOSED, ids=lambda endpoint: f"{endpoint.method} {endpoint.path}")
def test_a_key_of_a_loop_is_refused_elsewhere(site: Site, endpoint: Endpoint) -> None:
    assert (status_of(site, endpoint, "default") == 403) != endpoint.of_any_loop
    if endpoint.per_loop:
        assert status_of(site, endpoint, "", "/loops/default") == 403
        assert status_of(site, endpoint, "", "/loops/shop") != 403
    elif "{" in endpoint.path and endpoint.method != "DELETE":
        assert status_of(site, endpoint, "shop") != 403


def test_a_key_of_a_loop_lists_only_this_loop(site: Site) -> None:
    headers = {"authorization": f"Bearer {site.narrow_key}"}
    assert site.ask("GET", "/v1/loops", headers=headers).json() == {"loops": ["shop"]}
    assert site.ask("POST", "/loops/shop/v1/decide", {"arms": ARMS}, headers=headers).status_code == 200
    refused = site.ask("POST", "/v1/decide", {"arms": ARMS}, headers=headers).json()
    assert refused["detail"].startswith("the key must be for the loop 'default'; 'narrow' has rank,")


def test_a_key_of_a_loop_evaluates_only_its_flag(tmp_path: Path) -> None:
    with FlagSite(tmp_path, loops=("colour", "size")) as site:
        site.configure("size", variants=COLOURS)
        key = Keys(site.service.store, site.service.clock).create("one", ("evaluate", "loop:size")).text
        site.site.authenticator.refresh()
        body, headers = {"context": {"targetingKey": "ann"}}, {"authorization": f"Bearer {key}"}
        flags = site.ask("POST", PATH, body, headers=headers).json()["flags"]
        assert [flag["key"] for flag in flags] == ["size"]
        replies = [site.ask("POST", f"{PATH}/{flag}", body, headers=headers) for flag in ("size", "colour")]
        assert [reply.status_code for reply in replies] == [200, 403]


def test_a_loop_is_no_scope_by_itself(site: Site) -> None:
    keys = Keys(site.service.store, site.service.clock)
    with pytest.raises(InvalidInput, match="at least one scope of rank"):
        keys.create("x", ("loop:shop",))
    with pytest.raises(InvalidInput, match="needs the name of a loop"):
        keys.create("x", ("rank", "loop:"))
    with pytest.raises(UnknownName, match="scope"):
        keys.create("x", ("loops:shop",))
