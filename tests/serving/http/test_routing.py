"""Who answers, and who tells of errors where nobody does."""

import pytest

from glbandits.serving.http.application import Application
from glbandits.serving.http.http_types import HttpError, Request, Response
from glbandits.serving.http.routing import Route, Routes
from tests.serving.http.talking import Plain


async def answer(_: Request) -> Response:
    return Response(200)


def route(name: str) -> Route:
    return Route(Plain(), name, answer, 0)


@pytest.fixture(name="routes")
def routes_fixture() -> Routes:
    routes = Routes()
    for pattern in ("/events/{event}", "/events/all", "/loops/{loop}/events/{event}"):
        routes.add("GET", pattern, route(pattern))
    routes.add("PUT", "/events/{event}", route("put"))
    return routes


@pytest.mark.parametrize(
    ("path", "values", "name"),
    [
        ("/events/a%2Fb", {"event": "a/b"}, "/events/{event}"),
        ("/events/all", {}, "/events/all"),
        ("/events/all/", {}, "/events/all"),
        ("/loops/%C3%BC/events/all", {"loop": "ü", "event": "all"}, "/loops/{loop}/events/{event}"),
    ],
)
def test_finds_by_the_parts_of_a_path(routes: Routes, path: str, values: dict[str, str], name: str) -> None:
    for _ in range(2):  # what is remembered is the same
        found, route = routes.find("GET", path)
        assert (dict(found), route.scope) == (values, name)
    assert routes.find("HEAD", path)[1].scope == name


@pytest.mark.parametrize("path", ["/", "/events", "/events/a/b", "/loops/a", "/other"])
def test_nothing_is_at_other_paths(routes: Routes, path: str) -> None:
    for _ in range(2):
        with pytest.raises(HttpError, match=f"there is nothing at {path}$") as caught:
            routes.find("GET", path)
        assert caught.value.status == 404


def test_another_method_is_told_which_there_are(routes: Routes) -> None:
    with pytest.raises(HttpError, match="/events/a takes GET, HEAD, PUT; got POST") as caught:
        routes.find("POST", "/events/a")
    assert (caught.value.status, caught.value.headers) == (405, ((b"allow", b"GET, HEAD, PUT"),))
    with pytest.raises(HttpError, match="/events/all takes GET, HEAD; got PUT"):
        routes.find("PUT", "/events/all")


def test_what_is_added_later_is_found(routes: Routes) -> None:
    assert routes.find("GET", "/events/new")[1].scope == "/events/{event}"
    routes.add("GET", "/events/new", route("new"))
    assert routes.find("GET", "/events/new")[1].scope == "new"


class TestSpeakers:
    @pytest.fixture(name="told")
    def told_fixture(self, routes: Routes) -> Application:
        routes.speak_for("/events", Plain("E: "))
        routes.speak_for("/loops/{loop}/old", Plain("L: "))
        routes.speak_for("/loops/{loop}/old/older", Plain("O: "))
        return Application(routes, Plain("fallback: "))

    @pytest.mark.parametrize(
        ("path", "name"),
        [
            ("/events", "E"),
            ("/events/a/b", "E"),
            ("/events/all/b/c", "E"),
            ("/loops/x/old", "L"),
            ("/loops/x%2Fy/old/z", "L"),
            ("/loops/x/old/older", "O"),
            ("/loops/x/old/older/z/z", "O"),
            ("/loops/x", "fallback"),
            ("/loops/x/new/old", "fallback"),
            ("/", "fallback"),
            ("/other/events", "fallback"),
        ],
    )
    def test_the_nearest_tells_of_what_is_not_there(self, told: Application, path: str, name: str) -> None:
        response = told.open(Request("GET", path, "", {}, "", ""))
        assert isinstance(response, Response)
        assert (response.status, response.body) == (404, f"{name}: there is nothing at {path}".encode())

    def test_nobody_is_named_by_default(self, routes: Routes) -> None:
        assert routes.speaker("/events/a/b") is None

    def test_an_api_speaks_for_its_own_routes(self, told: Application) -> None:
        request = Request("GET", "/events/a", "", {b"authorization": b"nobody"}, "", "")
        response = told.open(request)
        assert isinstance(response, Response)
        assert (response.status, response.body) == (401, b"/events/{event} is not for nobody")


def test_long_paths_are_found_and_not_remembered(routes: Routes) -> None:
    for size, remembered in ((10, 1), (1000, 1)):
        assert routes.find("GET", "/events/" + "a" * size)[0] == {"event": "a" * size}
        assert routes._remembered.cache_info().currsize == remembered
