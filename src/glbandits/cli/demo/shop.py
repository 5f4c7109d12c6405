"""The simulated shop of `glb demo`: for each customer it asks the service which offer to show."""

import http.client
import json
import random
from typing import NamedTuple
from urllib.parse import urlsplit

from glbandits.common.errors import GlbanditsError

FAVOURITES = {"student": "laptop", "parent": "toys", "gardener": "seeds", "cook": "knives", "runner": "shoes"}
"""Kinds of customers, and the offer that each kind clicks most often."""
OFFERS = tuple(FAVOURITES.values())
FAVOURITE_CLICKS, OTHER_CLICKS = 0.6, 0.1
"""Probabilities of a click on the favourite and on any other offer."""
RANDOM_BEST = 1 / len(OFFERS)
RANDOM_REWARD = RANDOM_BEST * FAVOURITE_CLICKS + (1 - RANDOM_BEST) * OTHER_CLICKS
"""The share of best offers and the mean reward of a shop that shows random offers."""


class Visit(NamedTuple):
    """One decision: whether the best offer was shown, and its reward."""

    is_best: bool
    reward: float


class DemoFailed(GlbanditsError):
    """The demo cannot continue."""


class Shop:
    """Sends rank and reward requests to a server, one customer at a time. The customers depend only on the seed."""

    def __init__(self, address: str, key: str, seed: int) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
        self._headers = {"Ocp-Apim-Subscription-Key": key, "Content-Type": "application/json"}
        self._random = random.Random(seed)

    def serve_customer(self) -> Visit:
        """Show a customer the offer that the service ranks first, and send a reward of 1 for a click, else of 0."""
        kind = self._random.choice(list(FAVOURITES))
        device = self._random.choice(["phone", "desktop"])
        request = {
            "contextFeatures": [{"customer": kind}, {"device": device}],
            "actions": [{"id": offer, "features": [{"offer": offer}]} for offer in OFFERS],
        }
        reply = json.loads(self._post("/personalizer/v1.0/rank", request))
        is_best = reply["rewardActionId"] == FAVOURITES[kind]
        reward = float(self._random.random() < (FAVOURITE_CLICKS if is_best else OTHER_CLICKS))
        self._post(f"/personalizer/v1.0/events/{reply['eventId']}/reward", {"value": reward})
        return Visit(is_best, reward)

    def _post(self, path: str, body: object) -> bytes:
        try:
            self._connection.request("POST", path, json.dumps(body), self._headers)
            response = self._connection.getresponse()
            content = response.read()
        except (http.client.HTTPException, OSError) as error:
            raise DemoFailed(f"the server of the demo does not answer: {error!r}") from error
        if response.status >= 400:
            raise DemoFailed(f"the server of the demo replied {response.status}: {content[:200]!r}")
        return content

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def best_share(visits: list[Visit]) -> float:
    """Return the share of visits in which the best offer was shown."""
    return sum(visit.is_best for visit in visits) / max(1, len(visits))


def mean_reward(visits: list[Visit]) -> float:
    """Return the number of clicks per visit."""
    return sum(visit.reward for visit in visits) / max(1, len(visits))
