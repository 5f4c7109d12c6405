"""Environments of users: what a small one needs, and what is refused before it is played."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from glbandits import InvalidInput, Uniform
from glbandits.compilation import entry_point
from glbandits.lab import NOISES, Noise, Rounds, SparseHashed, Synthetic, gaussian, simulate
from glbandits.policies import LinTs

ARMS, MEANS = np.eye(3), np.array([0.1, 0.5, 0.9])


@dataclass
class Own:
    """Three fixed arms; `changed` replaces arrays of each chunk."""

    changed: dict[str, Any] = field(default_factory=dict)
    noise: Any = NOISES["bernoulli"]
    dim: Any = 3

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        rng = np.random.default_rng(seed)
        arrays = {
            "arms": np.tile(ARMS, (horizon, 1, 1)),
            "counts": np.full(horizon, 3),
            "expected": np.tile(MEANS, (horizon, 1)),
            "noise": NOISES["bernoulli"].draw(rng, horizon),
        }
        yield Rounds(**(arrays | self.changed))


def test_payoffs_are_the_expected_rewards_by_default() -> None:
    (chunk,) = Own().rounds(5, 1)
    np.testing.assert_array_equal(chunk.payoffs, chunk.expected)
    values, costs = np.tile([1.0, 2.0, 3.0], (5, 1)), np.full((5, 3), 0.25)
    (chunk,) = Own({"values": values, "costs": costs}).rounds(5, 1)
    np.testing.assert_array_equal(chunk.payoffs, values * MEANS - costs)


def test_small_environment_is_simulated() -> None:
    result = simulate(Uniform(), Own(), horizon=3000, seeds=2)
    assert result.final_regret.mean() == pytest.approx(3000 * (0.8 + 0.4) / 3, rel=0.05)


class Fails(Own):
    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        yield from super().rounds(horizon - 5, seed)
        raise RuntimeError("no more\nrows")


class Exits(Own):
    def rounds(self, horizon: int, seed: int) -> Any:  # noqa: ARG002
        sys.exit(3)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (Fails(), r"Fails.rounds failed with seed 0: RuntimeError: no more rows, in line \d+ of .*py$"),
        (Exits(), "Exits.rounds failed with seed 0: SystemExit: 3, in line"),
    ],
)
def test_error_of_an_environment_names_seed_and_line(environment: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        simulate(Uniform(), environment, horizon=10, seeds=1)


class OwnGaussian(Own):
    @property
    def noise(self) -> Noise:
        return gaussian(0.5)

    @noise.setter
    def noise(self, _value: Noise) -> None: ...


def test_new_noise_at_each_access_needs_no_new_machine_code() -> None:
    simulate(LinTs(), OwnGaussian(), horizon=10, seeds=1)
    before = len(entry_point._entries)
    simulate(LinTs(), OwnGaussian(), horizon=10, seeds=3)
    assert len(entry_point._entries) == before


@pytest.mark.parametrize(
    ("noise", "expected", "message"),
    [
        ("bernoulli", 1.5, "bernoulli rewards need expected rewards from 0 to 1; Own expects 1.5 of arm 2 in round 7"),
        ("poisson", -1.0, "poisson rewards need expected rewards from 0 to 700; Own expects -1 of arm 2 in round 7"),
        ("gaussian", -np.inf, r"got -inf at index \(6, 2\)"),
    ],
)
def test_means_that_the_noise_cannot_have_are_refused(noise: str, expected: float, message: str) -> None:
    means = np.tile(MEANS, (10, 1))
    means[6, 2] = expected
    with pytest.raises(InvalidInput, match=message):
        simulate(Uniform(link="identity"), Own({"expected": means}, NOISES[noise]), horizon=10, seeds=1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"arms": np.zeros((10, 3))}, r"arms must have the shape \(rounds, max arms, dim\); got shape \(10, 3\)"),
        ({"arms": [["a"]]}, "arms must be an array of numbers; got"),
        ({"expected": None}, "expected must be"),
        ({"counts": np.full(10, 4)}, "each round needs 1 to 3 arms; got counts 4 to 4"),
        ({"values": np.full((10, 3), 2.0)}, "the attribute has_payoffs of Own must be True if its rounds have values"),
    ],
)
def test_wrong_arrays_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        simulate(Uniform(), Own(changed), horizon=10, seeds=1)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"noise": "bernoulli"}, r"noise of Own must be a Noise, such as NOISES\['bernoulli'\]; got 'bernoulli'"),
        ({"dim": 2.5}, "dim of Own must be a whole number of at least 1; got 2.5"),
        ({"dim": 4}, "Own.rounds must yield 10 rounds of 4 features.*got 10 rounds of 3 features"),
    ],
)
def test_wrong_attributes_are_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        simulate(Uniform(), Own(**attributes), horizon=10, seeds=1)


def test_chunks_must_be_rounds() -> None:
    class Tuples(Own):
        def rounds(self, horizon: int, seed: int) -> Any:  # noqa: ARG002
            yield ARMS, MEANS

    with pytest.raises(InvalidInput, match="Tuples.rounds must yield objects of the class Rounds; got"):
        simulate(Uniform(), Tuples(), horizon=10, seeds=1)


def test_sparse_rounds_need_the_attribute_sparse() -> None:
    class Sparse(Own):
        dim = 2**10

        def rounds(self, horizon: int, seed: int) -> Any:
            return SparseHashed(dim=2**10, nonzeros=4, names=80).rounds(horizon, seed)

    with pytest.raises(InvalidInput, match="attribute sparse of Sparse must be True if it yields SparseRounds"):
        simulate(Uniform(), Sparse(dim=2**10), horizon=10, seeds=1)


class Shared:
    """An environment whose random numbers continue from call to call."""

    dim = 3
    noise: Noise = NOISES["bernoulli"]

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        yield Rounds(
            self.rng.random((horizon, 2, 3)),
            np.full(horizon, 2),
            np.full((horizon, 2), 0.5),
            np.random.default_rng(seed).random(horizon),
        )


def test_environment_that_is_not_repeatable_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Shared.rounds must yield the same rounds for the same seed; arms differed"):
        simulate(Uniform(), Shared(), horizon=10, seeds=1)


@pytest.mark.parametrize("mode", ["now", "background"])
def test_simulation_without_compilation_compiles_nothing(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core.compiler import CompilerBase

    def refuse(*_arguments: Any) -> None:
        raise AssertionError("Numba compiles")

    reference = simulate("sgd-ts", Synthetic(dim=3, arms=4, link="probit"), horizon=60, seeds=2)
    monkeypatch.setenv("GLBANDITS_COMPILE", mode)
    monkeypatch.setattr(CompilerBase, "compile_extra", refuse)
    monkeypatch.setattr(CompilerBase, "compile_ir", refuse)
    monkeypatch.setattr("glbandits.compilation.entry_point.is_cached", lambda _recipe: False)  # other tests compile
    monkeypatch.setattr("glbandits.compilation.entry_point.compile_now", refuse)
    monkeypatch.setattr("glbandits.compilation.entry_point.compiler_pool", refuse)
    monkeypatch.setattr("glbandits.compilation.entry_point._entries", {})
    result = simulate("sgd-ts", Synthetic(dim=3, arms=4, link="probit"), horizon=60, seeds=2, compiled=False)
    np.testing.assert_array_equal(result.regret, reference.regret)
