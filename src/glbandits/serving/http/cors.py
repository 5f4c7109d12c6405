"""Which pages of other origins may call the service from a browser: none, but those that the settings name."""

from collections.abc import Sequence

from glbandits.serving.http.http_types import Request, Response

HEADERS = b"authorization, content-type, ocp-apim-subscription-key, x-request-id"
MAX_AGE = b"600"
"""Seconds that a browser remembers what it was told."""


class Cors:
    """Tells browsers what they may do.

    Args:
        origins: those whose pages may call the service, each like https://shop.example.
    """

    def __init__(self, origins: Sequence[str]) -> None:
        self._origins = frozenset(origin.encode() for origin in origins)

    def answer(self, request: Request, response: Response) -> Response:
        """The response to a request that has an origin: with leave, if the origin is allowed.

        No route takes OPTIONS, so that what a browser asks beforehand was refused (405), with the methods that the
        path does take. With leave this becomes the answer.
        """
        origin = request.headers[b"origin"]
        if origin not in self._origins:
            return response
        leave = (
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", b"x-request-id, retry-after"),
            (b"vary", b"origin"),
        )
        methods = dict(response.headers).get(b"allow")
        if request.method != "OPTIONS" or methods is None:
            return response._replace(headers=(*response.headers, *leave))
        asked = (
            (b"access-control-allow-methods", methods),
            (b"access-control-allow-headers", HEADERS),
            (b"access-control-max-age", MAX_AGE),
        )
        return Response(204, headers=(*leave, *asked))
