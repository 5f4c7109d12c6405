"""Route prompts to language models by quality and cost, within a budget.

    python examples/prompt_routing.py                  # simulated prompts
    python examples/prompt_routing.py --data FOLDER    # val_k4.jsonl.xz and test_k4.jsonl.xz of ParetoBandit

docs/tutorials/routing-prompts.md explains the method. The program plays the prompts in many orders and prints quality
and cost of the router, of single models and of random choices. With `--data`, the router starts from the validation
file and all results are from the test file. Costs are in dollars per 1,000 prompts.
"""

# ruff: noqa: T201
import argparse
import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glbandits import Bandit, Budget, OnlineLaplace, Optimist
from glbandits.evaluation import CrossedArms, LoggedData, evaluate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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

PRIOR_COUNT = 20
"""The expected cost that `add_model` gets counts as the mean of this many prompts."""
COST_PRECISION = 1e-3
"""The precision of the prior of the costs' coefficients, on a logarithmic scale."""
AFFORDABLE = 10.0
"""A model is offered while its predicted cost for a typical prompt is at most this many times the limit."""


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

    def __len__(self) -> int:
        return len(self.embeddings)

    def rows(self, rows: slice | Ints) -> "Prompts":
        """Return some of the prompts."""
        return Prompts(self.models, self.embeddings[rows], self.quality[rows], self.cost[rows])


def simulated_prompts(n: int, seed: int, *, leaked: float = 0.0) -> Prompts:
    """Simulate prompts whose qualities and costs are distributed roughly as in the real data.

    Args:
        n: the number of prompts.
        seed: of all random numbers.
        leaked: how much the quality of the small model is exaggerated, for a benchmark that it has seen in training.
    """
    rng = np.random.default_rng(seed)
    shares = np.array([share for share, _, _ in KINDS.values()])
    kind = rng.choice(len(KINDS), size=n, p=shares)
    mean_quality = np.array([quality for _, quality, _ in KINDS.values()])[kind]
    mean_quality[:, 0] = np.minimum(mean_quality[:, 0] + leaked, 0.99)
    mean_cost = np.array([cost for _, _, cost in KINDS.values()])[kind]
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
    def table(field: str) -> Floats:
        return np.array([[line["arms"][model][field] for model in REAL_NAMES] for line in lines])

    embeddings = embed.transform([line["prompt"] for line in lines])
    return Prompts(tuple(REAL_NAMES.values()), embeddings, table("reward"), 1000 * table("cost"))


class Decision(NamedTuple):
    """A decision, with everything that is needed to learn from it later."""

    model: int
    probabilities: Floats
    """Of all models, and 0 for a model that was not offered, (models,)."""
    features: Floats
    """Of the chosen model, (dim,)."""


class Router:
    """Chooses a model for each prompt, and keeps the mean cost at a limit.

    One bandit learns the quality of each model, and chooses the largest quality - price * predicted cost. The price is
    that of a `Budget`. The costs are predicted by a second bandit, which takes no decisions.

    Args:
        embedding_size: numbers in the embedding of a prompt.
        limit: the mean cost to keep to.
        room: the largest number of models.
        price: the quality that a dollar per 1,000 prompts must bring, at the start.
        step: how fast the price changes; 0 keeps it.
        floor: the probability of a random model.
        seed: of the choices.
    """

    def __init__(
        self,
        embedding_size: int,
        limit: float,
        *,
        room: int = 5,
        price: float = 0.0,
        step: float = 0.005,
        floor: float = 0.03,
        seed: int = 0,
    ) -> None:
        self.budget, self.room, self.embedding_size = Budget(limit, step, price), room, embedding_size
        dim = room * (1 + embedding_size)
        self.bandit = Bandit(Optimist(link="identity", floor=floor), dim, seed)
        self.bandit.budget = self.budget
        self.costs = Bandit(OnlineLaplace(link="log", prior_precision=COST_PRECISION), dim, seed)
        self.models: list[str] = []

    def add_model(self, name: str, expected_cost: float) -> None:
        """Add a model, which may happen at any time. `expected_cost` is a first guess; observed costs correct it."""
        if len(self.models) == self.room:
            raise ValueError(f"there is room for {self.room} models, got one more: {name}. Pass a larger room.")
        self.models.append(name)
        typical = self.features(np.zeros(self.embedding_size))[[-1]]
        self.costs.learn_batch(typical.repeat(PRIOR_COUNT, axis=0), np.full(PRIOR_COUNT, expected_cost))

    def features(self, embedding: Floats) -> Floats:
        """Return a row for each model: a constant and the embedding in the block of this model, and zeros."""
        count = np.arange(len(self.models))
        rows = np.zeros((len(count), self.room, 1 + self.embedding_size))
        rows[count, count] = np.append(1.0, embedding)
        return rows.reshape(len(count), -1)

    def offered(self) -> Ints:
        """Return the models that are cheap enough to be tried, at least one."""
        costs = self.costs.predict(self.features(np.zeros(self.embedding_size)))
        return np.flatnonzero(costs <= max(AFFORDABLE * self.budget.per_decision, costs.min()))

    def decide(self, embedding: Floats) -> Decision:
        """Choose a model for a prompt."""
        models, probabilities = self.offered(), np.zeros(len(self.models))
        rows = self.features(embedding)[models]
        payoffs: Any = {"values": np.ones(len(models)), "costs": self.budget.price * self.costs.predict(rows)}
        probabilities[models] = self.bandit.probabilities(rows, **payoffs)
        row = self.bandit.choose(rows, **payoffs)
        return Decision(int(models[row]), probabilities, rows[row])

    def learn(self, decision: Decision, quality: float, cost: float) -> None:
        """Learn the quality and the cost of the chosen model, now or later."""
        self.bandit.learn(decision.features, quality)
        self.costs.learn(decision.features, cost)
        self.budget.spend(cost)

    def warm_start(self, benchmark: Prompts, weight: int) -> None:
        """Learn the first `weight` prompts of a benchmark, with the qualities and costs of all models in each."""
        columns = [benchmark.models.index(name) for name in self.models]
        for prompt in range(min(weight, len(benchmark))):
            embedding, costs = benchmark.embeddings[prompt], benchmark.cost[prompt, columns]
            self.budget.spend(costs[self.decide(embedding).model])
            self.bandit.learn_batch(self.features(embedding), benchmark.quality[prompt, columns])
            self.costs.learn_batch(self.features(embedding), costs)


@dataclass(frozen=True)
class Played:
    """Prompts in the order in which a router decided on them, with its decisions."""

    prompts: Prompts
    chosen: Ints
    probabilities: Floats
    """(n, models)."""
    prices: Floats
    """The price of the budget at each decision, (n,)."""

    @property
    def quality(self) -> Floats:
        """Of the chosen models, (n,)."""
        return np.asarray(self.prompts.quality[np.arange(len(self.chosen)), self.chosen])

    @property
    def cost(self) -> Floats:
        """Of the chosen models, (n,)."""
        return np.asarray(self.prompts.cost[np.arange(len(self.chosen)), self.chosen])

    def log(self, rewards: Floats, rows: slice = slice(None)) -> LoggedData:
        """Return the log of some rows with `rewards`, which may be the quality or the cost."""
        embeddings = self.prompts.embeddings[rows]
        return LoggedData(
            chosen=self.chosen[rows],
            rewards=rewards[rows],
            probabilities=self.probabilities[rows],
            arms=CrossedArms(embeddings, np.eye(len(self.prompts.models))),
            arm_names=self.prompts.models,
        )


def play(router: Router, prompts: Prompts, *, arrivals: Mapping[int, tuple[str, float]] | None = None) -> Played:
    """Route the prompts in their order.

    Args:
        router: learns from every prompt.
        prompts: the traffic.
        arrivals: models that are added on the way: the prompt before which each arrives, its name and expected cost.
    """
    n, column = len(prompts), {name: index for index, name in enumerate(prompts.models)}
    chosen, prices = np.empty(n, dtype=np.int64), np.empty(n)
    probabilities = np.zeros((n, len(prompts.models)))
    for prompt in range(n):
        if arrivals and prompt in arrivals:
            router.add_model(*arrivals[prompt])
        prices[prompt], decision = router.budget.price, router.decide(prompts.embeddings[prompt])
        model = column[router.models[decision.model]]
        router.learn(decision, float(prompts.quality[prompt, model]), float(prompts.cost[prompt, model]))
        chosen[prompt] = model
        probabilities[prompt, [column[name] for name in router.models]] = decision.probabilities
    return Played(prompts, chosen, probabilities, prices)


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
    costs = prompts.cost.mean(axis=0)
    mixes = [Mix(model, model, 0.0) for model in range(len(costs)) if costs[model] <= cost]
    for pair in combinations(range(len(costs)), 2):
        cheap, dear = sorted(pair, key=lambda model: float(costs[model]))
        if costs[cheap] <= cost < costs[dear]:
            mixes.append(Mix(cheap, dear, float((cost - costs[cheap]) / (costs[dear] - costs[cheap]))))
    return max(mixes, key=lambda mix: float(mix.of(prompts.quality).mean()))


class Outcome(NamedTuple):
    """Mean results of a router over several orders of the same prompts, with half-widths of 95 % intervals."""

    quality: float
    cost: float
    cost_error: float
    """Over orders."""
    gain: float
    """Quality above that of the best mix at the same cost."""
    gain_error: float
    """Over prompts."""
    overspent: float
    """The largest mean cost of an order, relative to the limit."""
    least: float
    """The lowest gain of a single order."""


def outcome(prompts: Prompts, orders: Sequence[Ints], runs: Sequence[Played], limit: float) -> Outcome:
    """Summarise runs over the same prompts in several orders."""
    quality, cost = (np.zeros((len(runs), len(prompts))) for _ in range(2))
    for row, (order, run) in enumerate(zip(orders, runs, strict=True)):
        quality[row, order], cost[row, order] = run.quality, run.cost
    mix = best_mix(prompts, float(cost.mean()))
    differences = quality.mean(axis=0) - mix.of(prompts.quality)
    mixed = mix.of(prompts.cost)
    if mix.share:  # a prompt on which the router saves money is worth the quality that this money buys elsewhere
        of_models = prompts.quality.mean(axis=0), prompts.cost.mean(axis=0)
        more_quality, more_cost = (float(values[mix.second] - values[mix.first]) for values in of_models)
        differences -= more_quality / more_cost * (cost.mean(axis=0) - mixed)
    each = [
        float(q.mean() - best_mix(prompts, float(c.mean())).of(prompts.quality).mean())
        for q, c in zip(quality, cost, strict=True)
    ]
    return Outcome(
        float(quality.mean()),
        float(cost.mean()),
        half_width(cost.mean(axis=1)),
        float(differences.mean()),
        half_width(differences),
        float(cost.mean(axis=1).max()) / limit,
        min(each),
    )


def half_width(values: Floats) -> float:
    """Return the half-width of the 95 % interval of a mean."""
    return 1.96 * float(np.std(values, ddof=1)) / float(np.sqrt(len(values)))


def new_router(benchmark: Prompts, limit: float, seed: int, models: Sequence[str], **settings: Any) -> Router:
    """Return a router that knows some models, with their mean cost in the benchmark as expected cost."""
    router = Router(benchmark.embeddings.shape[1], limit, seed=seed, **settings)
    for name in models:
        router.add_model(name, float(benchmark.cost[:, benchmark.models.index(name)].mean()))
    return router


def route_orders(
    benchmark: Prompts, traffic: Prompts, limit: float, *, weight: int, orders: int, **settings: Any
) -> tuple[list[Ints], list[Played]]:
    """Route the traffic in several random orders, each with a new router and other prompts of the benchmark."""
    shuffles, runs = [], []
    for seed in range(orders):
        rng = np.random.default_rng(seed)
        router = new_router(benchmark, limit, seed, benchmark.models, **settings)
        router.warm_start(benchmark.rows(rng.permutation(len(benchmark))), weight)
        shuffles.append(rng.permutation(len(traffic)))
        runs.append(play(router, traffic.rows(shuffles[-1])))
    return shuffles, runs


class Settings(NamedTuple):
    """Settings of `report`, the same for all routers."""

    weight: int
    """Prompts of the benchmark that a router learns first."""
    orders: int
    """Random orders of the prompts."""
    step: float
    floor: float


def report(benchmark: Prompts, traffic: Prompts, limits: Sequence[float], settings: Settings) -> None:
    """Print quality and cost of single models, of random choices and of the router at several limits."""
    print(f"{len(benchmark)} benchmark prompts, {len(traffic)} prompts to route; {settings}\n")
    for line in _table_of_models(traffic):
        print(line)
    print("\nrouter   limit  quality    cost             gain over the best mix  (worst order)  largest cost / limit")
    for limit in limits:
        found = outcome(traffic, *route_orders(benchmark, traffic, limit, **settings._asdict()), limit)
        print(
            f"       {limit:7.2f}   {found.quality:.4f}  {found.cost:6.3f} ± {found.cost_error:.3f}   "
            f"{found.gain:+.4f} ± {found.gain_error:.4f}        ({found.least:+.4f})      {found.overspent:.3f}",
            flush=True,
        )


def _table_of_models(prompts: Prompts) -> Iterator[str]:
    yield "                quality            cost"
    for index, name in enumerate(prompts.models):
        quality, cost = prompts.quality[:, index], prompts.cost[:, index]
        yield f"{name:14s}  {quality.mean():.4f} ± {half_width(quality):.4f}  {cost.mean():6.3f}"
    yield f"{'uniform':14s}  {prompts.quality.mean():.4f}           {prompts.cost.mean():6.3f}"


def report_trade_offs(benchmark: Prompts, traffic: Prompts, trade_offs: Sequence[float], settings: Settings) -> None:
    """Print the mean reward with fixed trade-offs: the quality that one dollar per 1,000 prompts must bring.

    A model is offered if its mean price, trade-off times cost, is at most 1, which is the whole range of quality.
    """
    print(
        "\nfixed trade-off   router            best single model       cheapest  uniform   regret against best single"
    )
    for trade_off in trade_offs:
        limit = 1 / (AFFORDABLE * trade_off)
        fixed = {**settings._asdict(), "step": 0.0, "price": trade_off}
        orders, runs = route_orders(benchmark, traffic, limit, **fixed)
        rewards = traffic.quality - trade_off * traffic.cost
        singles, cheapest = rewards.mean(axis=0), int(traffic.cost.mean(axis=0).argmin())
        best = int(singles.argmax())
        routed = np.zeros((len(runs), len(traffic)))
        for row, (order, run) in enumerate(zip(orders, runs, strict=True)):
            routed[row, order] = run.quality - trade_off * run.cost
        regret = rewards[:, best] - routed.mean(axis=0)
        print(
            f"{trade_off:15.3f}   {routed.mean():.4f} ± {half_width(routed.mean(axis=1)):.4f}   {singles[best]:.4f} "
            f"{traffic.models[best]:14s}   {singles[cheapest]:.4f}   {singles.mean():+.4f}   "
            f"{regret.mean():+.4f} ± {half_width(regret):.4f}",
            flush=True,
        )


def report_arrival(benchmark: Prompts, traffic: Prompts, limit: float, settings: Settings) -> None:
    """Print what happens if the second model arrives when half of the prompts are routed, without a benchmark."""
    newcomer, half = traffic.models[1], len(traffic) // 2
    known = [name for name in traffic.models if name != newcomer]
    guess = float(benchmark.cost[:, 1].mean())
    cases: dict[str, tuple[Sequence[str], dict[int, tuple[str, float]]]] = {
        "arrives at half": (known, {half: (newcomer, guess)}),
        "never there": (known, {}),
        "there from the start": (traffic.models, {}),
    }
    print(f"\n{newcomer}, limit {limit}   quality, first half   quality, second half   cost              its share")
    for case, (models, arrivals) in cases.items():
        found = []
        for seed in range(settings.orders):
            rng = np.random.default_rng(seed)
            router = new_router(benchmark, limit, seed, models, step=settings.step, floor=settings.floor)
            router.warm_start(benchmark.rows(rng.permutation(len(benchmark))), settings.weight)
            run = play(router, traffic.rows(rng.permutation(len(traffic))), arrivals=arrivals)
            quality = run.quality[:half].mean(), run.quality[half:].mean()
            found.append((*quality, run.cost.mean(), (run.chosen[half:] == 1).mean()))
        cells = [f"{values.mean():.4f} ± {half_width(values):.4f}" for values in np.array(found).T]
        print(f"{case:22s}      " + "       ".join(cells), flush=True)


def report_log(benchmark: Prompts, traffic: Prompts, limit: float, settings: Settings) -> None:
    """Print estimates of the quality and cost of single models from the router's logs, and the true values."""
    _, runs = route_orders(benchmark, traffic, limit, **settings._asdict())
    print(f"\nlogs, limit {limit}, floor {settings.floor}       true     mean estimate   intervals that hold   rows")
    for model in (1, 0):
        for name, table in (("quality", traffic.quality), ("cost", traffic.cost)):
            truth, found = float(table[:, model].mean()), []
            for run in runs:
                rewards = run.quality if name == "quality" else run.cost
                estimate = evaluate(run.log(rewards), traffic.models[model], "snips")["snips"]
                holds = estimate.normal.low <= truth <= estimate.normal.high
                found.append((estimate.value, holds, estimate.support.effective_sample_size))
            value, share, size = np.array(found, dtype=float).mean(axis=0)
            label = f"always {traffic.models[model]}, {name}"
            print(
                f"{label:30s}  {truth:.4f}   {value:.4f}          {share:.0%}                   {size:.0f}", flush=True
            )


def main() -> None:
    """Read the options, play and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with val_k4.jsonl.xz and test_k4.jsonl.xz")
    parser.add_argument(
        "--validate", action="store_true", help="route one half of the benchmark, learn the other first"
    )
    parser.add_argument("--limits", type=float, nargs="+", default=[0.1, 0.2, 0.3, 0.4, 0.5, 1.0, 4.0], metavar="LIMIT")
    parser.add_argument("--limits-only", action="store_true", help="leave out all other tables")
    parser.add_argument(
        "--weight", type=int, default=2000, help="benchmark prompts to learn first, if there are so many"
    )
    parser.add_argument("--step", type=float, default=0.005)
    parser.add_argument("--floor", type=float, default=0.03)
    parser.add_argument("--orders", type=int, default=20)
    parser.add_argument(
        "--leaked", type=float, default=0.0, help="exaggerate the small model in the simulated benchmark"
    )
    given = parser.parse_args()
    benchmark, traffic = (
        read_prompts(given.data)
        if given.data
        else (simulated_prompts(1766, seed=1, leaked=given.leaked), simulated_prompts(1793, seed=2))
    )
    if given.validate:
        half = len(benchmark) // 2
        benchmark, traffic = benchmark.rows(slice(half)), benchmark.rows(slice(half, None))
    settings = Settings(given.weight, given.orders, given.step, given.floor)
    report(benchmark, traffic, given.limits, settings)
    if not given.limits_only:
        report_trade_offs(benchmark, traffic, (0.001, 0.01, 0.1, 0.3), settings)
        report_arrival(benchmark, traffic, 0.3, settings)
        report_log(benchmark, traffic, 0.3, settings._replace(floor=0.1))


if __name__ == "__main__":
    main()
