"""Ask a running server for a decision, send its reward, and read the dashboard.

    python tools/try_service.py http://127.0.0.1:8711 KEY

Waits up to three minutes for the server to be ready. Fails if a reply is not the expected one.
"""

import sys
import time
from urllib.error import URLError
from urllib.request import urlopen

from glbandits.service.client import Client

START_SECONDS = 180.0
ROWS = [{"drink": "tea"}, {"drink": "cola"}]


def main(address: str, key: str) -> None:
    """Wait, then try."""
    wait_until_ready(address)
    with Client(address, key) as client:
        decided = client.decide(ROWS)
        assert decided.arm in (0, 1), decided
        assert 0 < decided.probability <= 1, decided
        assert client.reward(decided.event_id, 1.0).status == "accepted"
    with urlopen(f"{address}/dashboard", timeout=30) as page:
        assert b"<html" in page.read()


def wait_until_ready(address: str) -> None:
    """Return when the server accepts decisions."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urlopen(f"{address}/readyz", timeout=5):
                return
        except (URLError, ConnectionError, TimeoutError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
