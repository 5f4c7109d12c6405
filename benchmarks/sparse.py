"""Sparse rows against Vowpal Wabbit: CPU per round, memory and regret.

`python -m benchmarks sparse`. The world is logistic: an arm has 50 of 5,000 named features, whose frequencies follow a
power law. 15 of them belong to the context, which all arms of a round share. Names are hashed to d indices. All
learners are untuned and play the same rounds, in one Python loop. The measured time of glbandits is that of
`Bandit.choose` and `Bandit.learn`; that of Vowpal Wabbit is `predict`, the draw of an action, and `learn`, on examples
whose features were set by index before. That is the cheapest use of its Python package: no text is parsed. Building the
examples takes longer than all of this and is reported separately. Generating the rounds is not measured.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from benchmarks.growth import print_growth
from benchmarks.regret.vowpal import vowpal_module
from glbandits import Bandit, EpsilonGreedy, Optimist, Policy, SparseRows
from glbandits.common.arrays import Floats
from glbandits.lab.environments.sparse_hashed import CONTEXT_SHARE, Vocabulary
from glbandits.policies import LaplaceTs

ARMS, NONZEROS, NAMES = 20, 50, 5000
HORIZON = 100_000
BLOCK = 500
"""Rounds that are generated at a time. All learners play a block, one after another, before the next block."""
BITS = (18, 22)
EXPLORERS = {
    "vw epsilon (default)": "",
    "vw squarecb": "--squarecb",
    "vw cover 3": "--cover 3",
    "vw regcbopt": "--regcbopt --cb_min_cost -1 --cb_max_cost 0",
}
POLICIES: dict[str, Policy] = {
    "optimist": Optimist(),
    "epsilon-greedy": EpsilonGreedy(fit="online"),
    "laplace-ts": LaplaceTs(),
}


class Round(NamedTuple):
    """Arms and their rewards."""

    arms: SparseRows
    expected: Floats
    noise: float


class World:
    """Hashed rounds. For one seed only the indices of the names depend on d."""

    def __init__(self, dim: int, seed: int, nonzeros: int = NONZEROS) -> None:
        self._rng, self._nonzeros = np.random.default_rng(seed), nonzeros
        self._context_names, context = int(CONTEXT_SHARE * NAMES), int(CONTEXT_SHARE * nonzeros)
        offset = 10.0 * max(nonzeros / NONZEROS, 1.0) ** 2  # so that no name is more frequent than a group
        self._context = Vocabulary(self._context_names, context, offset)
        self._own = Vocabulary(NAMES - self._context_names, nonzeros - context, offset)
        self._indices = np.random.default_rng([seed, dim]).choice(dim, NAMES, replace=False)
        self._theta = self._rng.normal(size=NAMES) * np.sqrt(2.0 / nonzeros)

    def blocks(self, horizon: int) -> Iterator[list[Round]]:
        """Yield rounds in blocks."""
        for start in range(0, horizon, BLOCK):
            yield self._block(min(BLOCK, horizon - start))

    def _block(self, count: int) -> list[Round]:
        context = np.repeat(self._context.draw(self._rng, count, 1), ARMS, axis=1)
        own = self._own.draw(self._rng, count, ARMS) + self._context_names
        names = np.concatenate([context, own], axis=2)
        expected = 1.0 / (1.0 + np.exp(1.0 - self._theta[names].sum(axis=2)))
        indices = np.sort(self._indices[names], axis=2).reshape(count, -1)
        pointers, values = np.arange(0, indices.shape[1] + 1, self._nonzeros), np.ones(indices.shape[1])
        noise = self._rng.random(count)
        return [Round(SparseRows(pointers, indices[t], values), expected[t], noise[t]) for t in range(count)]


class Learner(Protocol):
    """A learner that plays rounds."""

    def prepare(self, rounds: list[Round]) -> list[Any]:
        """Return the inputs of `play` for each round. This is not measured."""

    def play(self, given: Round, prepared: Any) -> int:
        """Choose an arm and learn from its reward."""

    def megabytes(self) -> float:
        """The size of the model in memory."""


class Ours:
    """A sparse Bandit."""

    def __init__(self, policy: Policy, dim: int) -> None:
        self._bandit = Bandit(policy, dim, seed=1, sparse=True)

    def prepare(self, rounds: list[Round]) -> list[Any]:
        """Return no inputs: a Bandit takes the rows."""
        return [None] * len(rounds)

    def play(self, given: Round, prepared: Any) -> int:  # noqa: ARG002
        """Choose an arm and learn from its reward."""
        arm = self._bandit.choose(given.arms)
        self._bandit.learn(given.arms, float(given.noise < given.expected[arm]), arm=arm)
        return arm

    def megabytes(self) -> float:
        """The size of the state."""
        return self._bandit.state.nbytes / 1e6


class Vowpal:
    """An explorer of Vowpal Wabbit."""

    def __init__(self, options: str, bits: int) -> None:
        self._module, self._rng = vowpal_module(), np.random.default_rng(1)
        self._workspace = self._module.Workspace(f"--cb_explore_adf {options} -b {bits} --random_seed 1 --quiet")

    def prepare(self, rounds: list[Round]) -> list[Any]:
        """Examples, one for each arm."""
        return [self._examples(given.arms) for given in rounds]

    def _examples(self, arms: SparseRows) -> list[Any]:
        examples = []
        for row in arms.indices.reshape(arms.row_count, -1).tolist():
            example = self._module.Example(self._workspace, labelType=self._module.LabelType.CONTEXTUAL_BANDIT)
            example.push_features("a", [(index, 1.0) for index in row])
            example.setup_example()
            examples.append(example)
        return examples

    def play(self, given: Round, prepared: Any) -> int:
        """Choose an arm and learn from its reward."""
        probabilities = np.asarray(self._workspace.predict(prepared))
        cumulated = probabilities.cumsum()
        arm = min(int(np.searchsorted(cumulated, self._rng.random() * cumulated[-1])), ARMS - 1)
        cost = -float(given.noise < given.expected[arm])
        prepared[arm].set_label_string(f"0:{cost:g}:{probabilities[arm]:.8g}")
        self._workspace.learn(prepared)
        return arm

    def megabytes(self) -> float:
        """The size of the weights of four bytes and of their adaptive steps."""
        return float(self._workspace.num_weights() * self._workspace.get_stride() * 4 / 1e6)


class Run:
    """A learner with its regret and times so far."""

    def __init__(self, name: str, bits: int) -> None:
        self._learner: Learner = Ours(POLICIES[name], 2**bits) if name in POLICIES else Vowpal(EXPLORERS[name], bits)
        self.regret, self.costs, self.preparations = 0.0, list[float](), list[float]()

    def play(self, rounds: list[Round]) -> None:
        """Play consecutive rounds, and record the CPU seconds of a round."""
        began = time.thread_time()
        prepared = self._learner.prepare(rounds)
        self.preparations.append((time.thread_time() - began) / len(rounds))
        began = time.thread_time()
        arms = [self._learner.play(played, inputs) for played, inputs in zip(rounds, prepared, strict=True)]
        self.costs.append((time.thread_time() - began) / len(rounds))
        self.regret += sum(float(g.expected.max() - g.expected[arm]) for g, arm in zip(rounds, arms, strict=True))

    def megabytes(self) -> float:
        """The size of the model in memory."""
        return self._learner.megabytes()


def report(horizon: int = HORIZON) -> None:
    """Print the comparison and the growth."""
    for bits in BITS:
        compare(bits, horizon, (*POLICIES, *EXPLORERS))
    grow()


def compare(bits: int, horizon: int, names: Sequence[str]) -> None:
    """CPU per round, memory and regret of learners on the same rounds."""
    print(f"d = 2^{bits}, K = {ARMS}, {NONZEROS} nonzeros, T = {horizon:,}", flush=True)
    runs, uniform, played = {name: Run(name, bits) for name in names}, 0.0, 0
    for rounds in World(2**bits, seed=1).blocks(horizon):
        uniform += sum(float(given.expected.max() - given.expected.mean()) for given in rounds)
        for run in runs.values():
            run.play(rounds)
        played += len(rounds)
    print(f"  {'uniform':22} regret {uniform:9.0f}")
    for name, run in runs.items():
        mean, least = np.mean(run.costs) * 1e6, np.quantile(run.costs, 0.1) * 1e6
        cost = (
            f"{mean:6.1f} us a round (tenth percentile {least:6.1f}; {np.mean(run.preparations) * 1e6:5.0f} to prepare)"
        )
        print(f"  {name:22} regret {run.regret:9.0f}   {cost}   {run.megabytes():6.1f} MB", flush=True)


def grow() -> None:
    """How the cost of a round of optimist grows with the nonzeros and with d."""
    print("Growth of the cost of a round of optimist (wanted: slope at most 1.05 in nonzeros, 0.05 in d)")
    nonzeros, bits = (12, 25, 50, 100, 200), (16, 18, 20, 22)
    print_growth("nonzeros", nonzeros, least_costs([(18, n) for n in nonzeros]))
    print_growth("d", tuple(2**b for b in bits), least_costs([(b, NONZEROS) for b in bits]))


def least_costs(problems: list[tuple[int, int]], rounds: int = 300, repeats: int = 30) -> list[float]:
    """The least CPU seconds per round for each (bits, nonzeros), after a warm-up pass."""
    runs = [
        (Run("optimist", bits), next(iter(World(2**bits, 1, nonzeros).blocks(rounds)))) for bits, nonzeros in problems
    ]
    for _ in range(repeats):
        for run, given in runs:
            run.play(given)
    return [min(run.costs[1:]) for run, _ in runs]
