"""Rounds of bandit problems, and `Environment`, the protocol of what generates them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from glbandits.common.arrays import Bools, Floats, Ints, set_validated
from glbandits.common.errors import GlbanditsError, InvalidInput, check_int, value_text
from glbandits.common.user_code import described_error
from glbandits.lab.environments.noise import Noise
from glbandits.maths.sparse_rows import as_sparse_rows

CHUNK_SIZE = 2**19
"""The largest amount of numbers in a chunk of rounds: 4 MB."""
ROUND_OVERHEAD = 20
"""Numbers per round that do not depend on the arms: count, noise, regret, choice and intermediate results."""


def chunk_lengths(horizon: int, numbers: int) -> Iterator[int]:
    """Divide the rounds into chunks of bounded size. `numbers` is the amount of numbers for the arms of a round."""
    longest = max(1, CHUNK_SIZE // (numbers + ROUND_OVERHEAD))
    return (min(longest, horizon - start) for start in range(0, horizon, longest))


def stream(seed: int, part: int) -> np.random.Generator:
    """Return the random numbers of one part of a problem. Different parts are independent."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(part,)))


@dataclass(frozen=True)
class Rounds:
    """Consecutive rounds of a bandit problem, with the expected reward of every arm.

    The noise of a round is the same whichever arm is pulled. Two policies on the same rounds can therefore be compared
    pairwise (common random numbers).
    """

    arms: Floats
    """Features, (rounds, max arms, dim). If a round has fewer arms, its last rows are padding."""
    counts: Ints
    """The number of arms of each round, (rounds,)."""
    expected: Floats
    """Expected reward of each arm, (rounds, max arms)."""
    noise: Floats
    """The noise number of each round, (rounds,). `Noise.reward` computes the reward from it and the expected reward."""
    payoffs: Floats = None  # type: ignore[assignment]  # `__post_init__` computes the default
    """Expected payoff of each arm, from which regret is computed, (rounds, max arms).

    By default the same as `expected`; with values and costs, values * expected - costs.
    """
    values: Floats | None = None
    """What a reward of 1 is worth for each arm, (rounds, max arms), if policies choose by payoffs."""
    costs: Floats | None = None
    """The cost of pulling each arm, (rounds, max arms). None means 0; costs need values."""

    def __post_init__(self) -> None:
        arms = _numbers("arms", self.arms)
        if arms.ndim != 3:
            raise InvalidInput(f"arms must have the shape (rounds, max arms, dim); got shape {arms.shape}")
        set_validated(self, arms=arms, **_checked_numbers(self, *arms.shape[:2]))

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def rows(self) -> Any:
        """The arms of all rounds, one below another, as compiled code takes them: with values and costs if given."""
        rows = self.arms.reshape(-1, self.arms.shape[2])
        return rows if self.values is None else (rows, *_row_payoffs(self, np.ones(self.expected.shape, dtype=bool)))

    @property
    def starts(self) -> Ints:
        """The row of the first arm of each round, (rounds,)."""
        starts: Ints = np.arange(len(self)) * self.arms.shape[1]
        return starts

    def best(self) -> Floats:
        """Return the payoff of the best arm of each round, (rounds,)."""
        best: Floats = np.where(_is_arm(self.payoffs, self.counts), self.payoffs, -np.inf).max(axis=1)
        return best


@dataclass(frozen=True)
class SparseRounds(Rounds):
    """The same as `Rounds`, for arms with many features of which few are nonzero."""

    arms: Any
    """The arms of all rounds, concatenated: SparseRows, or a matrix of scipy.sparse."""
    dim: int = field(kw_only=True)
    """The number of features of an arm."""

    def __post_init__(self) -> None:
        rows = as_sparse_rows(self.arms, self.dim, "arms", may_be_empty=True)
        most = np.shape(self.expected)[-1] if np.ndim(self.expected) == 2 else 0
        set_validated(self, arms=rows, **_checked_numbers(self, len(self.counts), most))
        if self.counts.sum() != rows.row_count:
            raise InvalidInput(f"counts must be {rows.row_count} arms in all; got {self.counts.sum()}")

    @property
    def rows(self) -> tuple[Any, ...]:
        """The arms of all rounds, as compiled code takes them: with values and costs if given."""
        rows = tuple(self.arms)
        return rows if self.values is None else (rows, *_row_payoffs(self, _is_arm(self.expected, self.counts)))

    @property
    def starts(self) -> Ints:
        """The row of the first arm of each round, (rounds,)."""
        return np.cumsum(self.counts) - self.counts


def _checked_numbers(record: Rounds, rounds: int, most: int) -> dict[str, Any]:
    """Return the numbers of all rounds as arrays. Raises InvalidInput if their shapes or values are wrong."""
    arrays: dict[str, Any] = {}
    for name in ("counts", "expected", "noise", "payoffs", "values", "costs"):
        given = getattr(record, name)
        if given is not None or name in ("counts", "expected", "noise"):
            shape = (rounds,) if name in ("counts", "noise") else (rounds, most)
            arrays[name] = _checked_array(name, given, shape)
    counts = arrays["counts"]
    if rounds and not (counts.min() >= 1 and counts.max() <= most):
        raise InvalidInput(f"each round needs 1 to {most} arms; got counts {counts.min()} to {counts.max()}")
    if "costs" in arrays and "values" not in arrays:
        raise InvalidInput("rounds with costs need values. Give each arm the value 1 to subtract costs from rewards")
    if "values" in arrays and (arrays["values"] < 0.0).any():
        raise InvalidInput(f"values must be at least 0; got {arrays['values'].min():g}")
    if "payoffs" not in arrays:
        expected = arrays["expected"]
        arrays["payoffs"] = expected * arrays["values"] - arrays.get("costs", 0.0) if "values" in arrays else expected
    return arrays


def _checked_array(name: str, given: Any, shape: tuple[int, ...]) -> Any:
    """Return finite numbers of this shape as an array, whole ones for counts. Raises InvalidInput for anything else."""
    array = _numbers(name, given)
    if array.shape != shape:
        raise InvalidInput(f"{name} must be finite numbers of shape {shape} for these arms; got shape {array.shape}")
    if name != "counts":
        return array
    if (array != np.floor(array)).any():
        raise InvalidInput(f"counts must be whole numbers; got {array[array != np.floor(array)][0]:g}")
    return array.astype(np.int64)


def _numbers(name: str, given: Any) -> Floats:
    """Return finite numbers as an array. Raises InvalidInput for anything else."""
    try:
        array: Floats = np.ascontiguousarray(given, np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} must be an array of numbers; got {value_text(given)}") from None
    if not np.isfinite(array).all():
        index = tuple(np.argwhere(~np.isfinite(array))[0].tolist())
        raise InvalidInput(f"{name} must be finite numbers, also in padding; got {array[index]} at index {index}")
    return array


def _row_payoffs(record: Rounds, is_row: Bools) -> Floats:
    """Return the values and the costs of rows, (2, rows)."""
    payoffs = np.zeros((2, np.count_nonzero(is_row)))
    for row, numbers in zip(payoffs, (record.values, record.costs), strict=True):
        if numbers is not None:
            row[:] = numbers[is_row]
    return payoffs


def _is_arm(numbers: Floats, counts: Ints) -> Bools:
    """Whether a number, (rounds, max arms), is that of an arm, and not padding."""
    is_arm: Bools = np.arange(numbers.shape[1]) < counts[:, np.newaxis]
    return is_arm


@runtime_checkable
class Environment(Protocol):
    """A reproducible bandit problem: the same seed gives the same rounds for every policy.

    If its rounds have values, it also has an attribute `has_payoffs`, which is True: policies then choose by payoffs.
    If its rounds are `SparseRounds`, it has an attribute `sparse`, which is True: policies then run in sparse form.
    """

    @property
    def dim(self) -> int:
        """The number of features of an arm."""

    @property
    def noise(self) -> Noise:
        """The distribution of a reward, given its expectation."""

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """Yield the rounds of one run, in chunks of bounded size.

        The size of the chunks must not change the rounds. The first T rounds must not depend on the horizon.
        """


def check_environment(environment: Environment) -> None:
    """Raise InvalidInput if this is not an environment, or if its number of features or its noise is not usable."""
    if not isinstance(environment, Environment) or isinstance(environment, type):
        raise InvalidInput(
            "environment must be an instance of an environment, such as Synthetic(), with dim, noise and rounds; "
            f"got {value_text(environment)}"
        )
    name = type(environment).__name__
    check_int(f"dim of {name}", environment.dim, at_least=1)
    if not isinstance(environment.noise, Noise):
        raise InvalidInput(
            f"noise of {name} must be a Noise, such as NOISES['bernoulli']; got {value_text(environment.noise)}"
        )


def check_is_repeatable(environment: Environment, horizon: int, seed: int) -> None:
    """Raise InvalidInput if the environment generates different rounds for the same seed.

    Only the first chunk is compared. Policies on different rounds cannot be compared by common random numbers.
    """
    one, other = (next(checked_rounds(environment, horizon, seed)) for _ in range(2))
    for name in ("arms", "counts", "expected", "noise", "payoffs"):
        if not all(map(np.array_equal, _arrays(getattr(one, name)), _arrays(getattr(other, name)))):
            raise InvalidInput(
                f"{type(environment).__name__}.rounds must yield the same rounds for the same seed; {name} differed in "
                f"two calls with seed {seed}. Draw all random numbers from np.random.default_rng(seed), made in rounds"
            )


def _arrays(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple) else (value,)


def checked_rounds(environment: Environment, horizon: int, seed: int) -> Iterator[Rounds]:
    """Yield the rounds of one run. Raises InvalidInput before it yields rounds that no policy could play.

    Each chunk has `environment.dim` features, values if and only if the environment has payoffs, and expected rewards
    that the noise of the environment can have. There are `horizon` rounds in all.
    """
    name, played = type(environment).__name__, 0
    for chunk in _generated(environment, horizon, seed):
        if not isinstance(chunk, Rounds):
            raise InvalidInput(f"{name}.rounds must yield objects of the class Rounds; got {value_text(chunk)}")
        dim = chunk.dim if isinstance(chunk, SparseRounds) else chunk.arms.shape[2]
        if dim != environment.dim or not 0 < len(chunk) <= horizon - played:
            raise InvalidInput(
                f"{name}.rounds must yield {horizon} rounds of {environment.dim} features, in chunks that are not "
                f"empty; got {len(chunk)} rounds of {dim} features after {played} rounds"
            )
        if isinstance(chunk, SparseRounds) != is_sparse(environment):
            raise InvalidInput(
                f"the attribute sparse of {name} must be True if it yields SparseRounds, and only then; "
                f"got {is_sparse(environment)}"
            )
        if has_payoffs(environment) != (chunk.values is not None):
            raise InvalidInput(
                f"the attribute has_payoffs of {name} must be True if its rounds have values, and only then; "
                f"got {has_payoffs(environment)}"
            )
        _check_means(chunk, environment, played)
        yield chunk
        played += len(chunk)
    if played != horizon:
        raise InvalidInput(f"{name}.rounds must yield {horizon} rounds; got {played}")


def _generated(environment: Environment, horizon: int, seed: int) -> Iterator[Any]:
    """Yield what `rounds` yields. Its errors become InvalidInput that names the environment, the seed and the line."""
    name = type(environment).__name__
    try:
        chunks: Any = environment.rounds(horizon, seed)
        if not isinstance(chunks, Iterable):
            raise InvalidInput(
                f"{name}.rounds must yield objects of the class Rounds; it returned {value_text(chunks)}"
            )
        yield from chunks
    except (GlbanditsError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # also sys.exit
        raise InvalidInput(f"{name}.rounds failed with seed {seed}: {described_error(error)}") from error


def _check_means(chunk: Rounds, environment: Environment, played: int) -> None:
    """Raise InvalidInput if rewards cannot have an expectation of these rounds."""
    noise, expected = environment.noise, chunk.expected
    outside = (expected < noise.lowest_mean) | (expected > noise.highest_mean)
    if outside.any() and (outside := outside & _is_arm(expected, chunk.counts)).any():
        t, arm = np.argwhere(outside)[0].tolist()
        raise InvalidInput(
            f"{noise.name} rewards need expected rewards from {noise.lowest_mean:g} to {noise.highest_mean:g}; "
            f"{type(environment).__name__} expects {expected[t, arm]:g} of arm {arm} in round {played + t + 1}. Change "
            "its expected rewards or its noise"
        )


def has_payoffs(environment: object) -> bool:
    """Whether the rounds of an environment have values, so that policies choose by payoffs."""
    return bool(getattr(environment, "has_payoffs", False))


def is_sparse(environment: object) -> bool:
    """Whether the arms of an environment are sparse rows, so that policies run in their sparse form."""
    return bool(getattr(environment, "sparse", False))


def regret_name(environment: object) -> str:
    """Return what tables and charts call the regret in an environment, with its unit."""
    return "regret in payoff units" if has_payoffs(environment) else "regret"
