"""Paths and methods, and who answers them."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeAlias
from urllib.parse import unquote

from glbandits.serving.http.http_types import HttpError, Request, Response

REMEMBERED, LONGEST_REMEMBERED = 1024, 256
"""Paths whose route need not be searched again, and their characters. Those that name an event come seldom twice, and
others often."""
Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


class Api(Protocol):
    """A family of routes that tells of errors in one way."""

    def admit(self, request: Request, scope: str) -> None:
        """Refuse a request that lacks the right to a route of this scope, or comes too often."""

    def refuse(self, refused: HttpError, request: Request) -> Response:
        """What is sent for a request that is refused."""


class Route(NamedTuple):
    """Who answers."""

    api: Api
    scope: str
    handler: Handler
    largest_body: int
    swift: bool = False
    """Whether the handler waits for futures alone, and so needs no task of its own: see `run_swiftly`."""


@dataclass
class _Node:
    literal: dict[str, "_Node"] = field(default_factory=dict)
    named: "tuple[str, _Node] | None" = None
    routes: dict[str, Route] = field(default_factory=dict)
    api: Api | None = None

    def following(self, part: str) -> "_Node | None":
        found = self.literal.get(part)
        return found if found is not None or self.named is None else self.named[1]


class Routes:
    """Paths and methods, and who answers them. A part of a path in {braces} stands for any text.

    >>> routes = Routes()
    >>> routes.add("GET", "/loops/{loop}/model", route := Route(None, "read", None, 0))
    >>> routes.find("GET", "/loops/my%2Floop/model")
    ({'loop': 'my/loop'}, Route(api=None, scope='read', handler=None, largest_body=0, swift=False))
    """

    def __init__(self) -> None:
        self._root = _Node()
        self._remembered = lru_cache(maxsize=REMEMBERED)(self._search)

    def add(self, method: str, pattern: str, route: Route) -> None:
        """One more."""
        node = self._grown(pattern)
        assert method not in node.routes, f"{method} {pattern} is there twice"
        node.routes[method] = route

    def speak_for(self, pattern: str, api: Api) -> None:
        """Let an API tell of errors below this path where there is no route."""
        self._grown(pattern).api = api

    def _grown(self, pattern: str) -> _Node:
        self._remembered.cache_clear()
        node = self._root
        for part in pattern.strip("/").split("/"):
            if part.startswith("{"):
                if node.named is None:
                    node.named = (part[1:-1], _Node())
                assert node.named[0] == part[1:-1], f"{pattern}: the same place has another name in another route"
                node = node.named[1]
            else:
                node = node.literal.setdefault(part, _Node())
        return node

    def all(self) -> Iterator[tuple[str, str, Route]]:
        """Method, pattern and route of all of them."""
        return self._below("", self._root)

    def _below(self, pattern: str, node: _Node) -> Iterator[tuple[str, str, Route]]:
        yield from ((method, pattern, route) for method, route in node.routes.items())
        for part, following in node.literal.items():
            yield from self._below(f"{pattern}/{part}", following)
        if node.named is not None:
            yield from self._below(f"{pattern}/{{{node.named[0]}}}", node.named[1])

    def find(self, method: str, path: str) -> tuple[Mapping[str, str], Route]:
        """The named parts of a path, unquoted, and who answers. A literal part goes before a named one.

        Who answers GET answers HEAD, too.
        """
        return (self._remembered if len(path) <= LONGEST_REMEMBERED else self._search)(method, path)

    def _search(self, method: str, path: str) -> tuple[Mapping[str, str], Route]:
        node, values = self._root, dict[str, str]()
        for part in path.strip("/").split("/"):
            following = node.literal.get(part)
            if following is None:
                if node.named is None:
                    raise HttpError(404, "NotFound", f"there is nothing at {path}")
                values[node.named[0]] = unquote(part, errors="strict") if "%" in part else part
                following = node.named[1]
            node = following
        route = node.routes.get("GET" if method == "HEAD" else method)
        if route is None:
            if not node.routes:
                raise HttpError(404, "NotFound", f"there is nothing at {path}")
            allowed = ", ".join(sorted({*node.routes, *(("HEAD",) if "GET" in node.routes else ())}))
            raise HttpError(
                405, "MethodNotAllowed", f"{path} takes {allowed}; got {method}", ((b"allow", allowed.encode()),)
            )
        return values, route

    def speaker(self, path: str) -> Api | None:
        """Who tells of errors at a path that has no route; None if nobody was named."""
        node: _Node | None = self._root
        api = None
        for part in path.strip("/").split("/"):
            node = node.following(part) if node is not None else None
            api = api if node is None or node.api is None else node.api
        return api
