"""The Open Bandit sample: each log evaluates the policy of the other, compared with sums over the raw rows."""

import csv
import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from glbandits.common.arrays import Floats
from glbandits.evaluation import evaluate
from glbandits.evaluation.readers.open_bandit import read_open_bandit
from tests.evaluation.readers.open_bandit_data import sample

CAMPAIGNS = {"all": 80, "men": 34, "women": 46}


def plain_rows(folder: Path) -> list[tuple[int, int, float, float]]:
    """Item, position, click and propensity, as the file has them."""
    with (folder / f"{folder.name}.csv").open() as file:
        return [
            (int(row["item_id"]), int(row["position"]), float(row["click"]), float(row["propensity_score"]))
            for row in csv.DictReader(file)
        ]


@pytest.mark.parametrize(("campaign", "items"), CAMPAIGNS.items())
def test_random_target_on_the_log_of_bernoulli_ts(campaign: str, items: int) -> None:
    """The true value is the mean of the random log: within 4 standard errors of both; clicks are rare."""
    folder = sample("bts", campaign)
    found = evaluate(read_open_bandit(folder), "uniform", ["ips", "snips"])
    weights = [1 / items / probability for _, _, _, probability in plain_rows(folder)]
    clicks = [click for _, _, click, _ in plain_rows(folder)]
    top = math.fsum(w * c for w, c in zip(weights, clicks, strict=True))
    assert found["ips"].value == pytest.approx(top / len(clicks), abs=1e-10)
    assert found["snips"].value == pytest.approx(top / math.fsum(weights), abs=1e-10)
    assert found.support.effective_sample_size == pytest.approx(
        math.fsum(weights) ** 2 / math.fsum(w * w for w in weights), rel=1e-10
    )
    random_clicks = [click for _, _, click, _ in plain_rows(sample("random", campaign))]
    truth, error = np.mean(random_clicks), np.std(random_clicks) / math.sqrt(len(random_clicks))
    assert abs(found["snips"].value - truth) <= 4 * math.hypot(error, found["snips"].standard_error)


@pytest.mark.parametrize(("campaign", "items"), CAMPAIGNS.items())
def test_bernoulli_ts_target_on_the_random_log(campaign: str, items: int) -> None:
    """The average Bernoulli-TS policy: the share of each item in each position of its log."""
    folder, shares = sample("random", campaign), _shares(sample("bts", campaign), items)
    rows = plain_rows(folder)
    target = np.array([shares[position] for _, position, _, _ in rows])
    found = evaluate(read_open_bandit(folder), target, ["matched", "ips", "snips", "dr"])
    weights = [shares[position][item] * items for item, position, _, _ in rows]
    top = math.fsum(w * click for w, (_, _, click, _) in zip(weights, rows, strict=True))
    assert found["ips"].value == pytest.approx(top / len(rows), abs=1e-10)
    assert found["snips"].value == pytest.approx(top / math.fsum(weights), abs=1e-10)
    clicks = [click for _, _, click, _ in plain_rows(sample("bts", campaign))]
    truth, error = np.mean(clicks), np.std(clicks) / math.sqrt(len(clicks))
    for name in ("ips", "snips", "dr"):
        assert abs(found[name].value - truth) <= 4 * math.hypot(error, found[name].standard_error), name


def _shares(folder: Path, items: int) -> dict[int, Floats]:
    counts: dict[int, Floats] = defaultdict(lambda: np.zeros(items))
    for item, position, _, _ in plain_rows(folder):
        counts[position][item] += 1
    return {position: count / count.sum() for position, count in counts.items()}
