"""A program as it was written for Azure Personalizer, and what it earns against a server of your own.

    pip install "glbandits[serve]" azure-cognitiveservices-personalizer
    glb serve                                                        # prints an address and a key
    python examples/personalizer_quickstart.py ADDRESS KEY

Everything but the endpoint and the key is as it was there. A shop shows one of five dishes. Which of them is liked
depends on the time of day, and nobody has told the program: a liked dish is bought 8 times in 10, another one 2 times.
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
"""Events of a line that is printed."""


def learn_quickly(endpoint: str, key: str) -> None:
    """Wait for rewards for half a second only: they come at once here, and minutes are for people."""
    sent = {"rewardWaitTime": "PT0.5S", "modelExportFrequency": "PT0.1S", "explorationPercentage": 0.2}
    request = Request(
        f"{endpoint}/personalizer/v1.0/configurations/service",
        json.dumps(sent).encode(),
        {"Ocp-Apim-Subscription-Key": key, "Content-Type": "application/json"},
        method="PUT",
    )
    with urlopen(request) as answered:
        print("configuration:", json.load(answered)["rewardWaitTime"])


def one_visit(client: PersonalizerClient, luck: random.Random) -> tuple[float, bool]:
    """A customer comes, is shown a dish, and buys it or not: the reward, and whether the dish was the liked one."""
    time_of_day = luck.choice(list(LIKED))
    actions = [RankableAction(id=dish, features=[{"dish": dish}, features]) for dish, features in DISHES.items()]
    answer = client.rank(RankRequest(actions=actions, context_features=[{"timeOfDay": time_of_day}]))
    liked = answer.reward_action_id == LIKED[time_of_day]
    reward = float(luck.random() < (0.8 if liked else 0.2))
    client.events.reward(event_id=answer.event_id, value=reward)
    return reward, liked


def main() -> None:
    """Play, and print how it goes."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("endpoint")
    arguments.add_argument("key")
    arguments.add_argument("--events", type=int, default=3000)
    arguments.add_argument("--seed", type=int, default=0)
    told = arguments.parse_args()
    learn_quickly(told.endpoint, told.key)
    client = PersonalizerClient(told.endpoint, CognitiveServicesCredentials(told.key))
    luck = random.Random(told.seed)
    print("by chance: reward 0.32, liked 0.20; at best, with 20 % exploration: reward 0.70, liked 0.84")
    for first in range(0, told.events, WINDOW):
        visits = [one_visit(client, luck) for _ in range(min(WINDOW, told.events - first))]
        reward, liked = (sum(column) / len(visits) for column in zip(*visits, strict=True))
        print(f"after {first + len(visits):5d} events: reward {reward:.2f}, liked {liked:.2f}", flush=True)


if __name__ == "__main__":
    main()
