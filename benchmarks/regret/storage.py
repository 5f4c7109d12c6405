"""Results on disk: a JSON file per problem with an entry for each policy and variant."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.regret.problems import PROBLEMS
from benchmarks.regret.results import PolicyResult, ProblemResult
from glbandits.common.atomic_files import write_atomically

Entry = dict[str, Any]
"""The fields of a PolicyResult, or "policy" and "reason" of a policy without runs; and the key of its code."""


def entry_of(result: PolicyResult, key: str) -> Entry:
    """The JSON entry of a result."""
    regrets = [float(f"{regret:.8g}") for regret in result.regrets]
    return {**vars(result), "seeds": list(result.seeds), "regrets": regrets, "key": key}


def read_keys(folder: Path, problem: str) -> dict[str, str]:
    """The key of each policy that has an entry."""
    return {entry["policy"]: entry["key"] for entry in _read(folder, problem).get("entries", [])}


def replace_entries(
    folder: Path, problem: str, horizon: int, dim: int, policies: Iterable[str], entries: Sequence[Entry]
) -> None:
    """Replace the entries of these policies. Entries of other policies stay as they are."""
    replaced = set(policies)
    others = [entry for entry in _read(folder, problem).get("entries", []) if entry["policy"] not in replaced]
    path = _path(folder, problem)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(entry) for entry in [*others, *entries])
    write_atomically(path, f'{{"horizon": {horizon}, "dim": {dim}, "entries": [\n{lines}\n]}}\n'.encode())


def read_results(folder: Path) -> list[ProblemResult]:
    """The results of every problem that has a file, in the order of PROBLEMS."""
    results = []
    for name, problem in PROBLEMS.items():
        stored = _read(folder, name)
        if stored:
            entries = stored["entries"]
            runs = tuple(_result_of(entry) for entry in entries if "regrets" in entry)
            absent = tuple((entry["policy"], entry["reason"]) for entry in entries if "reason" in entry)
            results.append(ProblemResult(problem, stored["horizon"], stored["dim"], runs, absent))
    return results


def _result_of(entry: Entry) -> PolicyResult:
    fields = {name: value for name, value in entry.items() if name != "key"}
    return PolicyResult(**{**fields, "seeds": tuple(entry["seeds"]), "regrets": np.array(entry["regrets"])})


def _path(folder: Path, problem: str) -> Path:
    return folder / "results" / f"{problem}.json"


def _read(folder: Path, problem: str) -> dict[str, Any]:
    path = _path(folder, problem)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
