"""The page as one file with its style and scripts.

Its content security policy allows nothing else.
"""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from string import Template

from starlette.responses import Response

STYLE, SCRIPTS = "page.css", ("drawing.js", "charts.js", "why.js", "events.js", "answer.js", "page.js")


@cache
def page_response() -> Response:
    """Return the page.

    Its content security policy allows its own style and scripts, and requests to its server.
    """
    style, script = _read(STYLE), "\n".join(map(_read, SCRIPTS))
    policy = (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    page = Template(_read("page.html")).substitute(style=style, script=script)
    headers = {
        "content-security-policy": policy,
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
    }
    return Response(page, headers=headers, media_type="text/html")


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"
