"""Write the small model that is kept for each version of the format, before the format changes.

Run it as `python -m tests.bandit.kept.write_model`.
"""

from pathlib import Path

from glbandits import Bandit, Budget, Optimist
from glbandits.bandit.model_file import format_version
from glbandits.features import FeatureMap

FOLDER = Path(__file__).parent
ROWS = [{"hour": number % 24, "drink": ("tea", "cola")[number % 2]} for number in range(60)]


def main() -> None:
    """Write the model of the present version."""
    bandit = Bandit(Optimist(), features=FeatureMap.learn(ROWS, arm=("drink",), context=("hour",)), seed=7)
    bandit.budget = Budget(0.5)
    for _ in range(5):
        for number, row in enumerate(ROWS):
            bandit.learn(row, float(number % 2))
    bandit.save(FOLDER / f"version_{format_version()}.safetensors")


if __name__ == "__main__":
    main()
