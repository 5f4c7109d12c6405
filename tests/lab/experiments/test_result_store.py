from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from glbandits import InvalidInput, SgdTs, Uniform
from glbandits.lab import Synthetic
from glbandits.lab.experiments.result_store import FinishedRun, ResultStore
from glbandits.lab.experiments.run_spec import IdentifiedProblem, RunSpec, _source_and_imports, source_digest
from glbandits.policies import UcbGlm

PROBLEM = IdentifiedProblem.of(Synthetic(dim=3, arms=5), 50, 1)
SPEC = RunSpec(SgdTs(block_length=10), PROBLEM, 50, 1)


def finished(value: float = 1.0) -> FinishedRun:
    return FinishedRun(0.5, np.array([1, 50]), np.array([0.0, value]), np.array([30, 20]))


def test_stored_run_round_trips(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    assert store.missing([SPEC, SPEC]) == [SPEC]
    store.add([(SPEC, finished(1 / 3))])
    again = ResultStore(tmp_path)
    assert again.missing([SPEC]) == []
    run = again[SPEC]
    assert (run.seconds, run.rounds.tolist(), run.regret.tolist(), run.pulls.tolist()) == (
        0.5,
        [1, 50],
        [0, 1 / 3],
        [30, 20],
    )
    table = pl.read_parquet(tmp_path / "*.parquet")
    assert table["policy"].to_list() == ["sgd-ts"]
    assert '"block_length": 10' in table["settings"][0]


@pytest.mark.parametrize(
    "change",
    [
        {"policy": SgdTs(block_length=11)},
        {"policy": SgdTs(block_length=10, link="probit")},
        {"policy": Uniform()},
        {"problem": IdentifiedProblem.of(Synthetic(dim=3, arms=6), 50, 1)},
        {"horizon": 51},
        {"seed": 2},
    ],
)
def test_key_depends_on_everything_that_defines_a_run(change: dict[str, Any]) -> None:
    assert replace(SPEC, **change).key != SPEC.key


def test_relative_imports_are_part_of_the_source_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "relative_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "policy.py").write_text("from .helpers import x\nfrom . import others\n")
    for name in ("helpers", "others"):
        (package / f"{name}.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = import_module("relative_package.policy").__name__
    digests = {source_digest(module)}
    for name in ("helpers", "others"):
        (package / f"{name}.py").write_text("x = 2\n")
        source_digest.cache_clear()
        _source_and_imports.cache_clear()
        digests.add(source_digest(module))
    assert len(digests) == 3


def test_equivalent_settings_have_the_same_key() -> None:
    one, other = (
        RunSpec(SgdTs(exploration_a1=a, exploration_a2=b), PROBLEM, 50, 1) for a, b in ((0.1, 5.0), (5.0, 0.1))
    )
    assert one.key == other.key
    short, long = (RunSpec(UcbGlm(warm_up_factor=c), PROBLEM, 50, 1) for c in (1.0, 1.2))  # tau is 3 for both
    assert short.key == long.key


def test_damaged_and_temporary_files_are_no_results(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.add([(SPEC, finished())])
    (written,) = tmp_path.glob("*.parquet")
    (tmp_path / ".glbandits-killed.tmp").write_bytes(written.read_bytes()[:100])
    assert len(ResultStore(tmp_path)) == 1
    written.write_bytes(written.read_bytes()[:100])
    with pytest.raises(InvalidInput, match="is not a readable result file: .* Remove it to repeat its runs"):
        len(ResultStore(tmp_path))
    pl.DataFrame({"a": [1]}).write_parquet(written)
    with pytest.raises(InvalidInput, match="does not have the columns of a result file"):
        len(ResultStore(tmp_path))


def test_two_writers_see_each_others_runs(tmp_path: Path) -> None:
    one, other = ResultStore(tmp_path), ResultStore(tmp_path)
    one.add([(SPEC, finished())])
    second = replace(SPEC, seed=2)
    other.add([(second, finished())])
    assert one.missing([SPEC, second]) == other.missing([SPEC, second]) == []
