"""The requests and errors of docs/personalizer.md. tests/service/sdk runs its SDKs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.http.served_site import ServedSite

PAGE = (Path(__file__).parents[4] / "docs" / "personalizer.md").read_text(encoding="utf-8")
CURL = re.compile(r"curl -X (\w+) http://127\.0\.0\.1:8711(\S+) \\\n\s*-H .*: \$KEY\" \\\n\s*-d '(.*?)'")
ERROR = re.compile(r"```\nHTTP/1.1 (\d+) .*?\nx-ms-error-code: (\w+)\n\n(.*?)```", re.DOTALL)


@pytest.fixture(name="site")
def site_fixture(tmp_path: Path) -> Iterator[ServedSite]:
    with ServedSite(tmp_path) as site:
        yield site


def test_requests_of_the_page_are_accepted(site: ServedSite) -> None:
    requests = CURL.findall(PAGE)
    assert len(requests) == PAGE.count("curl ") == 1
    for method, path, body in requests:
        reply = site.ask(method, path, json.loads(body), headers={"Ocp-Apim-Subscription-Key": site.key})
        assert reply.status_code == 200, reply.text
        assert json.loads(body).items() <= reply.json().items()


def test_error_of_the_page_is_the_response(site: ServedSite) -> None:
    ((status, code, body),) = ERROR.findall(PAGE)
    reply = site.ask("POST", "/personalizer/v1.0/rank", {"eventId": "e", "actions": []})
    assert (reply.status_code, reply.headers["x-ms-error-code"], reply.json()) == (int(status), code, json.loads(body))
