import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from glbandits import InvalidInput, TheoryConstants
from glbandits.cli.app import app
from glbandits.common.arrays import Floats
from glbandits.lab import SampledContexts, Synthetic
from glbandits.lab.experiments.context_files import read_contexts
from glbandits.lab.experiments.diagnosis import (
    Diagnosis,
    Diversity,
    diagnose,
    greedy_eigenvalues,
    scale_to_norm_1,
    theory_constants,
    worst_theta,
)
from glbandits.maths.links import find_link

RNG = np.random.default_rng(0)
DIVERSE: Floats = RNG.uniform(-1, 1, (400, 10, 3))
FIXED: Floats = np.repeat(RNG.uniform(-1, 1, (1, 10, 3)), 400, axis=0)


def test_changing_contexts_are_diverse_and_fixed_ones_are_not() -> None:
    moving, fixed = diagnose(DIVERSE, horizon=300, seeds=4), diagnose(FIXED, horizon=300, seeds=4)
    assert moving.guarantee == "warm-up exceeds horizon"
    assert moving.practical_block_length == 57  # floor(10 log 300)
    assert fixed.guarantee == "assumption fails"
    assert fixed.lambda_f < 1e-12  # one vector in every round
    assert fixed.constants is None
    assert fixed.bound is None
    assert moving.constants is not None
    assert moving.bound == 300.0  # tau is longer than the horizon, and the bound is T
    assert moving.measured < moving.uniform
    assert moving.sigma_0_squared == pytest.approx(1 / 3 / (moving.largest_norm**2), rel=0.1)


SOUND = Diagnosis(
    shape=(400, 10, 3),
    largest_norm=1.0,
    sigma_0_squared=0.25,
    lambda_f=0.1,
    lambda_f_error=0.001,
    largest_greedy=0.4,
    constants=TheoryConstants(noise=0.5, c1=0.2, c3=0.1, sigma_0=0.5, lambda_f=0.1, horizon=10**6),
    block_length=25_287,
    practical_block_length=138,
    alpha=138.0,
    bound=2.43e12,
    measured=900.0,
    measured_error=10.0,
    uniform=123_456.7,
    horizon=10**6,
)


@pytest.mark.parametrize(
    ("change", "guarantee", "sentence"),
    [
        (
            {"lambda_f": 0.002},
            "assumption fails",
            "The diversity assumption is NOT plausible: for some theta the highest-scoring arms hardly vary in one "
            "direction (its eigenvalue is 0.005 of the largest), so SGD-TS may never learn that direction; choose a "
            "policy that explores.",
        ),
        (
            {"lambda_f": 0.002, "shape": (29, 10, 3)},
            "sample too small",
            "The sample is too small to judge the diversity assumption: 29 rounds for 3 features; use at least 30 "
            "rounds.",
        ),
        (
            {"constants": None, "block_length": None, "alpha": None, "bound": None},
            "no constants",
            "The diversity assumption is plausible, but the theory's constants are not defined, because the slope of "
            "the link is 0 within distance 3 of theta*: there is no guarantee for this run.",
        ),
        (
            {"block_length": 911_035, "horizon": 1000, "bound": 1000.0},
            "warm-up exceeds horizon",
            "The diversity assumption is plausible, but the theory's warm-up of 911,035 rounds exceeds your horizon of "
            "1,000: its guarantee does not cover this run.",
        ),
        (
            {"bound": None},
            "no bound",
            "The diversity assumption is plausible and the theory's warm-up of 25,287 rounds fits your horizon of "
            "1,000,000, but Theorem 1 gives no bound, because the slope of the link has no upper bound.",
        ),
        (
            {},
            "vacuous bound",
            "The diversity assumption is plausible and the theory's warm-up of 25,287 rounds fits your horizon of "
            "1,000,000, but Theorem 1's bound of 2.43e+12 is not below the regret of uniform play, 123,457: the bound "
            "says nothing about this run.",
        ),
        (
            {"bound": 54_321.0},
            "informative bound",
            "The diversity assumption is plausible, the theory's warm-up of 25,287 rounds fits your horizon of "
            "1,000,000, and Theorem 1's bound of 54,321 is below the regret of uniform play, 123,457: the guarantee "
            "covers a run with the theory's settings.",
        ),
    ],
)
def test_verdict_of_each_guarantee(change: dict[str, Any], guarantee: str, sentence: str) -> None:
    diagnosis = replace(SOUND, **change)
    assert diagnosis.guarantee == guarantee
    assert diagnosis.verdict == sentence
    assert diagnosis.practical_note == (
        "The practical default settings of SGD-TS use blocks of 138 rounds, for which the paper proves nothing."
    )


@pytest.mark.statistics
def test_paper_simulation_is_diverse_but_not_covered() -> None:
    sample = np.concatenate([chunk.arms for chunk in Synthetic(dim=6, arms=100).rounds(600, 0)])
    simulation = diagnose(sample, horizon=1000, seeds=2)
    assert simulation.lambda_f < 0.01 * simulation.largest_greedy
    assert simulation.guarantee == "warm-up exceeds horizon"


def test_zero_eigenvalues_are_reported_as_a_failed_assumption() -> None:
    zero = replace(SOUND, lambda_f=0.0, lambda_f_error=0.0, largest_greedy=0.0, constants=None, block_length=None)
    assert zero.guarantee == "assumption fails"
    assert "(its eigenvalue is 0 of the largest)" in zero.verdict


def test_constants_are_undefined_for_a_flat_link() -> None:
    diversity = Diversity(sigma_0_squared=0.25, lambda_f=0.1, lambda_f_error=0.0, largest_greedy=0.4)
    assert theory_constants(find_link("logistic"), 1000.0, diversity, 1000) is None
    assert theory_constants(find_link("logistic"), 1.0, diversity._replace(lambda_f=0.0), 1000) is None
    constants = theory_constants(find_link("logistic"), 1.0, diversity, 1000)
    assert constants is not None
    assert constants.sigma_0 == 0.5


def test_worst_theta_has_the_smallest_eigenvalue_of_all_tried() -> None:
    # The third feature moves only in rounds where the first is small: theta along the first axis never sees it.
    sample = DIVERSE.copy()
    sample[:, :, 2] *= np.abs(sample[:, :, 0]) < 0.05
    theta = worst_theta(sample, np.random.default_rng(1))
    least = greedy_eigenvalues(sample, theta)[0]
    for other in np.random.default_rng(2).normal(size=(200, 3)):
        assert least <= greedy_eigenvalues(sample, other)[0] * 1.5


def test_contexts_come_from_the_sample_and_depend_on_the_seed() -> None:
    problem = SampledContexts(sample=DIVERSE, theta_norm=2.0)
    (one,), (other,) = (list(problem.rounds(30, 5)) for _ in range(2))
    np.testing.assert_array_equal(one.arms, other.arms)
    np.testing.assert_array_equal(next(iter(problem.rounds(10, 5))).arms, one.arms[:10])
    assert all((arms == DIVERSE).all(axis=(1, 2)).any() for arms in one.arms)
    assert np.linalg.norm(problem.theta_star(5)) == pytest.approx(2.0)
    means = 1 / (1 + np.exp(-one.arms @ problem.theta_star(5)))
    np.testing.assert_allclose(one.expected, means)
    assert problem.fingerprint() != SampledContexts(sample=FIXED, theta_norm=2.0).fingerprint()


def test_csv_columns_may_become_fractions_after_100_rows(tmp_path: Path) -> None:
    values = [1] * 200 + [0.5]
    (tmp_path / "contexts.csv").write_text(
        "\n".join(["round,a", *(f"{row},{value}" for row, value in enumerate(values))])
    )
    assert read_contexts(tmp_path / "contexts.csv").ravel().tolist() == values


def test_all_file_formats_give_the_same_contexts(tmp_path: Path) -> None:
    rows = DIVERSE[:5].reshape(-1, 3)
    table = pl.DataFrame({"round": np.repeat(np.arange(5), 10), "a": rows[:, 0], "b": rows[:, 1], "c": rows[:, 2]})
    np.save(tmp_path / "contexts.npy", DIVERSE[:5])
    table.write_parquet(tmp_path / "contexts.parquet")
    table.write_csv(tmp_path / "contexts.csv")
    for kind in ("npy", "parquet", "csv"):
        np.testing.assert_allclose(read_contexts(tmp_path / f"contexts.{kind}"), DIVERSE[:5])
    printed = CliRunner().invoke(app, ["diagnose", str(tmp_path / "contexts.npy"), "--horizon", "60", "--seeds", "2"])
    assert printed.exit_code == 0
    assert "lambda_f" in printed.output


def test_diagnose_command_prints_the_verdict(tmp_path: Path) -> None:
    np.save(tmp_path / "contexts.npy", DIVERSE)
    command = ["diagnose", str(tmp_path / "contexts.npy"), "--horizon", "60", "--seeds", "2"]
    printed = CliRunner().invoke(app, command)
    assert "exceeds your horizon of 60: its guarantee does not cover this run." in printed.output
    printed = CliRunner().invoke(app, [*command, "--theta-norm", "1000"])
    assert "the theory's constants are not defined" in printed.output
    assert "use blocks of 40 rounds, for which the paper proves nothing." in printed.output


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"a": [1.0]}, "needs a column round and a column for each feature; got a"),
        ({"round": [1], "a": ["x"]}, "these columns are not: a"),
        ({"round": [1, None, None], "a": [1.0, 2.0, 3.0]}, "must have a number in every row; 2 rows have none"),
        ({"round": [1.0, math.nan], "a": [1.0, 2.0]}, "must have a number in every row; 1 rows have none"),
        ({"round": [1, 1, 2], "a": [1.0, 2.0, 3.0]}, "the same number of arms; got from 1 to 2"),
    ],
)
def test_invalid_tables_are_rejected(table: dict[str, list[object]], message: str, tmp_path: Path) -> None:
    pl.DataFrame(table).write_csv(tmp_path / "wrong.csv")
    with pytest.raises(InvalidInput, match=message):
        read_contexts(tmp_path / "wrong.csv")


def test_unknown_file_formats_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "wrong.npy").write_bytes(b"no array")
    with pytest.raises(InvalidInput, match="is not an array of numbers"):
        read_contexts(tmp_path / "wrong.npy")
    np.save(tmp_path / "flat.npy", np.zeros((3, 2)))
    with pytest.raises(InvalidInput, match=r"of shape \(rounds, arms, dim\); got \(3, 2\)"):
        read_contexts(tmp_path / "flat.npy")
    with pytest.raises(InvalidInput, match="are read from .npy, .parquet or .csv"):
        read_contexts(tmp_path / "contexts.txt")
    with pytest.raises(InvalidInput, match="must not all be zero"):
        diagnose(np.zeros((3, 2, 2)))


def test_empty_files_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "empty.npy").touch()
    with pytest.raises(InvalidInput, match="is not an array of numbers"):
        read_contexts(tmp_path / "empty.npy")
    np.save(tmp_path / "none.npy", np.zeros((0, 2, 2)))
    with pytest.raises(InvalidInput, match=r"got shape \(0, 2, 2\)"):
        diagnose(read_contexts(tmp_path / "none.npy"))
    pl.DataFrame(schema={"round": pl.Int64, "a": pl.Float64}).write_parquet(tmp_path / "none.parquet")
    with pytest.raises(InvalidInput, match="must have a row for each arm of each round; it has none"):
        read_contexts(tmp_path / "none.parquet")


def test_npz_archives_are_rejected(tmp_path: Path) -> None:
    np.savez(tmp_path / "archive.npz", a=DIVERSE)
    (tmp_path / "archive.npz").rename(tmp_path / "archive.npy")
    with pytest.raises(InvalidInput, match="not an archive of arrays"):
        read_contexts(tmp_path / "archive.npy")
    (tmp_path / "cut.npy").write_bytes((tmp_path / "archive.npy").read_bytes()[:100])
    with pytest.raises(InvalidInput, match="is not an array of numbers"):
        read_contexts(tmp_path / "cut.npy")


@pytest.mark.parametrize("kind", [np.complex128, np.object_, np.str_])
def test_arrays_without_real_numbers_are_rejected(kind: type, tmp_path: Path) -> None:
    np.save(tmp_path / "other.npy", DIVERSE.astype(kind), allow_pickle=True)
    with pytest.raises(InvalidInput, match=r"must contain real numbers|is not an array of numbers"):
        read_contexts(tmp_path / "other.npy")
    with pytest.raises(InvalidInput, match="must contain real numbers"):
        diagnose(DIVERSE.astype(kind))


@pytest.mark.parametrize("factor", [1e-200, 1e200, 1.7e308])
def test_scaling_is_independent_of_the_feature_magnitude(factor: float) -> None:
    expected, norm = scale_to_norm_1(DIVERSE)
    scaled, large_norm = scale_to_norm_1(DIVERSE * factor)
    np.testing.assert_allclose(scaled, expected, rtol=1e-12)
    assert large_norm == pytest.approx(norm * factor)


def test_small_sample_is_reported_as_too_small() -> None:
    assert diagnose(FIXED[:29], horizon=60, seeds=2).guarantee == "sample too small"
    assert diagnose(FIXED[:30], horizon=60, seeds=2).guarantee == "assumption fails"
