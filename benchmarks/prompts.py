"""Prompts with the quality and the cost of every model, for the benchmark of routers: simulated, or from files.

The files are `val_k4.jsonl.xz` and `test_k4.jsonl.xz` of ParetoBandit. Costs are in dollars per 1,000 prompts.
"""

import json
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from glbandits.common.arrays import Floats, Ints

KINDS = {
    "maths": (0.20, (0.95, 0.99, 0.98, 0.98), (0.030, 0.55, 0.55, 10.5)),
    "facts": (0.22, (0.77, 0.93, 0.94, 0.95), (0.040, 0.52, 1.35, 20.0)),
    "science": (0.19, (0.80, 0.92, 0.92, 0.93), (0.024, 0.30, 0.70, 13.0)),
    "common sense": (0.15, (0.69, 0.90, 0.89, 0.88), (0.020, 0.32, 0.55, 11.7)),
    "reasoning": (0.16, (0.74, 0.91, 0.92, 0.93), (0.022, 0.60, 0.65, 11.5)),
    "code": (0.08, (0.71, 0.86, 0.88, 0.89), (0.040, 1.00, 2.00, 26.0)),
}
"""Kinds of simulated prompts: their share, and the mean quality and cost of each model, as in the real data."""
SIMULATED_MODELS = ("small", "medium", "fast", "large")
EMBEDDING_SIZE = 8
"""Numbers in the embedding of a prompt."""
CENTRES = np.random.default_rng(20).normal(size=(len(KINDS), EMBEDDING_SIZE))
EMBEDDING_NOISE = 0.6
QUALITY_PRECISION = np.array([2.6, 6.0, 6.0, 6.0])
"""Sum of the two parameters of the beta distribution of quality, for each model."""
COST_SPREAD = 0.5
"""Standard deviation of the logarithm of a cost."""
REAL_NAMES = {
    "meta-llama/llama-3.1-8b-instruct": "llama-3.1-8b",
    "mistralai/mistral-large-2512": "mistral-large",
    "google/gemini-2.5-flash": "gemini-flash",
    "google/gemini-2.5-pro": "gemini-pro",
}


@dataclass(frozen=True)
class Prompts:
    """Prompts with the quality and the cost of every model."""

    models: tuple[str, ...]
    embeddings: Floats
    """(n, embedding size)."""
    quality: Floats
    """Between 0 and 1, (n, models)."""
    cost: Floats
    """Dollars per 1,000 prompts, (n, models)."""
    texts: Sequence[str] = field(default=(), repr=False)
    """Empty for simulated prompts."""

    def __len__(self) -> int:
        return len(self.embeddings)

    def rows(self, rows: Ints) -> "Prompts":
        """Return some of the prompts."""
        texts = [self.texts[row] for row in rows] if self.texts else ()
        return Prompts(self.models, self.embeddings[rows], self.quality[rows], self.cost[rows], texts)


def simulated_prompts(n: int, seed: int) -> Prompts:
    """Simulate prompts whose qualities and costs are distributed roughly as in the real data."""
    rng = np.random.default_rng(seed)
    shares, mean_quality, mean_cost = (np.array(column) for column in zip(*KINDS.values(), strict=True))
    kind = rng.choice(len(KINDS), size=n, p=shares)
    mean_quality, mean_cost = mean_quality[kind], mean_cost[kind]
    quality = rng.beta(mean_quality * QUALITY_PRECISION, (1 - mean_quality) * QUALITY_PRECISION)
    cost = mean_cost * rng.lognormal(-(COST_SPREAD**2) / 2, COST_SPREAD, size=mean_cost.shape)
    embeddings = CENTRES[kind] + EMBEDDING_NOISE * rng.normal(size=(n, EMBEDDING_SIZE))
    return Prompts(SIMULATED_MODELS, embeddings, quality, cost)


def read_prompts(folder: Path) -> tuple[Prompts, Prompts]:
    """Read the validation and the test file.

    The embedding of a prompt has the 8 leading components of its TF-IDF vector. They are fitted to the prompts of the
    validation file. Needs scikit-learn.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    embed = make_pipeline(
        TfidfVectorizer(sublinear_tf=True, min_df=3),
        TruncatedSVD(EMBEDDING_SIZE, random_state=0),
        StandardScaler(),
    )
    validation, test = (_read_lines(folder / f"{name}_k4.jsonl.xz") for name in ("val", "test"))
    embed.fit([line["prompt"] for line in validation])
    return _prompts_of(validation, embed), _prompts_of(test, embed)


def _read_lines(path: Path) -> list[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _prompts_of(lines: Sequence[Mapping[str, Any]], embed: Any) -> Prompts:
    def table(name: str) -> Floats:
        return np.array([[line["arms"][model][name] for model in REAL_NAMES] for line in lines])

    texts = [line["prompt"] for line in lines]
    return Prompts(tuple(REAL_NAMES.values()), embed.transform(texts), table("reward"), 1000 * table("cost"), texts)


class Mix(NamedTuple):
    """Each prompt goes to one of two models at random, whatever the prompt is."""

    first: int
    second: int
    share: float
    """Of the second model."""

    def of(self, values: Floats) -> Floats:
        """Return the expected quality or cost of each prompt, (n,)."""
        return np.asarray((1 - self.share) * values[:, self.first] + self.share * values[:, self.second])


def best_mix(prompts: Prompts, cost: float) -> Mix:
    """Return the mix of the highest quality that costs at most `cost` on these prompts, known in hindsight."""
    costs, cost = prompts.cost.mean(axis=0), cost * (1 + 1e-9)  # the same sum in another order
    mixes = [Mix(model, model, 0.0) for model in range(len(costs)) if costs[model] <= cost]
    for pair in combinations(range(len(costs)), 2):
        cheap, dear = sorted(pair, key=lambda model: float(costs[model]))
        if costs[cheap] <= cost < costs[dear]:
            mixes.append(Mix(cheap, dear, float((cost - costs[cheap]) / (costs[dear] - costs[cheap]))))
    return max(mixes, key=lambda mix: float(mix.of(prompts.quality).mean()))


class Run(NamedTuple):
    """The decisions of a router on prompts in some order."""

    order: Ints
    """The prompt at each step."""
    chosen: Ints
    """The model at each step."""


class Outcome(NamedTuple):
    """Mean results over several orders of the same prompts, with half-widths of 95 % intervals."""

    quality: float
    cost: float
    gain: float
    """Quality above that of the best mix at the same cost."""
    gain_error: float
    """Over prompts."""
    least: float
    """The lowest gain of a single order."""
    first: float
    """The mean cost of the first 1,000 prompts of an order, relative to the limit."""
    overspent: float
    """The largest mean cost of the first n prompts of an order, over all n >= 1,000, relative to the limit."""


FIRST = 1000
"""The least n."""


def outcome(prompts: Prompts, runs: Sequence[Run], limit: float) -> Outcome:
    """Summarise runs over the same prompts in several orders."""
    quality, cost = (np.zeros((len(runs), len(prompts))) for _ in range(2))
    overspent = 0.0
    for row, (order, chosen) in enumerate(runs):
        quality[row, order], cost[row, order] = prompts.quality[order, chosen], prompts.cost[order, chosen]
        overspent = max(overspent, largest_mean(prompts.cost[order, chosen]) / limit)
    mix = best_mix(prompts, float(cost.mean()))
    differences = quality.mean(axis=0) - mix.of(prompts.quality)
    if mix.share:  # a prompt on which the router saves money is worth the quality that this money buys elsewhere
        of_models = prompts.quality.mean(axis=0), prompts.cost.mean(axis=0)
        more_quality, more_cost = (float(values[mix.second] - values[mix.first]) for values in of_models)
        differences -= more_quality / more_cost * (cost.mean(axis=0) - mix.of(prompts.cost))
    each = [
        float(q.mean() - best_mix(prompts, float(c.mean())).of(prompts.quality).mean())
        for q, c in zip(quality, cost, strict=True)
    ]
    return Outcome(
        float(quality.mean()),
        float(cost.mean()),
        float(differences.mean()),
        half_width(differences),
        min(each),
        float(np.mean([prompts.cost[order, chosen][:FIRST].mean() for order, chosen in runs])) / limit,
        overspent,
    )


def largest_mean(costs: Floats) -> float:
    """Return the largest mean of the first n costs, over all n >= 1,000."""
    return float((costs.cumsum() / np.arange(1, len(costs) + 1))[min(FIRST, len(costs)) - 1 :].max())


def half_width(values: Floats) -> float:
    """Return the half-width of the 95 % interval of a mean."""
    return 1.96 * float(np.std(values, ddof=1)) / float(np.sqrt(len(values)))
