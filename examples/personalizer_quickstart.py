"""A program for Azure Personalizer that runs against your own server.

    pip install ".[serve]" azure-cognitiveservices-personalizer      # in a clone
    glb serve                                                        # prints an address and a key
    python examples/personalizer_quickstart.py ADDRESS KEY

Only the endpoint and the key differ from a program for Azure. A shop shows one of five dishes. The dish that customers
like depends on the time of day, and the program must learn it. A liked dish is bought with probability 0.8, another one
with probability 0.2.
"""

# ruff: noqa: T201
import argparse
import json
import random
from urllib.request import Request, urlopen

from azure.cognitiveservices.personalizer import PersonalizerClient
from azure.cognitiveservices.personalizer.models import RankableAction, RankRequest
from msrest.authentication import CognitiveServicesCredentials

DISHES = {
    "pasta": {"taste": "salty", "calories": 0.7},
    "ice cream": {"taste": "sweet", "calories": 0.5},
    "juice": {"taste": "sweet", "calories": 0.2},
    "salad": {"taste": "sour", "calories": 0.1},
    "soup": {"taste": "salty", "calories": 0.3},
}
LIKED = {"morning": "juice", "noon": "salad", "evening": "pasta", "night": "ice cream"}
WINDOW = 250
"""Events per printed line."""


def learn_quickly(endpoint: str, key: str) -> None:
    """Set a reward window of half a second, because this program sends rewards at once."""
    configuration = {"rewardWaitTime": "PT0.5S", "modelExportFrequency": "PT0.1S", "explorationPercentage": 0.2}
    request = Request(
        f"{endpoint}/personalizer/v1.0/configurations/service",
        json.dumps(configuration).encode(),
        {"Ocp-Apim-Subscription-Key": key, "Content-Type": "application/json"},
        method="PUT",
    )
    with urlopen(request) as response:
        print("configuration:", json.load(response)["rewardWaitTime"])


def one_visit(client: PersonalizerClient, rng: random.Random) -> tuple[float, bool]:
    """Simulate one customer; return the reward, and whether the shown dish was the liked one."""
    time_of_day = rng.choice(list(LIKED))
    actions = [RankableAction(id=dish, features=[{"dish": dish}, features]) for dish, features in DISHES.items()]
    response = client.rank(RankRequest(actions=actions, context_features=[{"timeOfDay": time_of_day}]))
    liked = response.reward_action_id == LIKED[time_of_day]
    reward = float(rng.random() < (0.8 if liked else 0.2))
    client.events.reward(event_id=response.event_id, value=reward)
    return reward, liked


def main() -> None:
    """Simulate customers and print mean rewards."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("endpoint")
    parser.add_argument("key")
    parser.add_argument("--events", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    learn_quickly(arguments.endpoint, arguments.key)
    client = PersonalizerClient(arguments.endpoint, CognitiveServicesCredentials(arguments.key))
    rng = random.Random(arguments.seed)
    print("at random: reward 0.32, liked 0.20; at best, with 20 % exploration: reward 0.70, liked 0.84")
    for first in range(0, arguments.events, WINDOW):
        visits = [one_visit(client, rng) for _ in range(min(WINDOW, arguments.events - first))]
        reward, liked = (sum(column) / len(visits) for column in zip(*visits, strict=True))
        print(f"after {first + len(visits):5d} events: reward {reward:.2f}, liked {liked:.2f}", flush=True)


if __name__ == "__main__":
    main()
