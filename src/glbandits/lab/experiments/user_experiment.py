"""Experiments that users describe in TOML files."""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from glbandits.common.errors import InvalidInput, check_int, lookup
from glbandits.lab.environments import Environment
from glbandits.lab.environments.rounds import has_payoffs
from glbandits.lab.experiments.experiment import Experiment, PolicyEntry
from glbandits.lab.experiments.problems import default_link, described, make_problem
from glbandits.policies.agents import AgentFactory
from glbandits.policies.contract import settings_of
from glbandits.policies.parsing import find_policy

FIRST_FRESH_SEED = 1001
KEYS = {"title", "horizon", "repeats", "fresh", "reference", "problem", "policy"}
"""Keys of a file."""
MAX_HORIZON = 10**8
"""All choices of a run are kept in memory."""


def read_experiments(paths: Sequence[Path]) -> list[Experiment]:
    """Read an experiment for each problem of each TOML file. docs/comparing.md describes the format."""
    return [experiment for path in paths for experiment in _read_file(path)]


def _read_file(path: Path) -> Iterator[Experiment]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not a TOML file: {error}") from None
    except OSError as error:
        raise InvalidInput(f"{path} could not be read ({error.strerror}). Name a TOML file with problems") from None
    _check_keys(path, "the file", document, KEYS)
    for key in ("horizon", "problem", "policy"):
        if key not in document:
            raise InvalidInput(
                f"{path} needs {key}; got {', '.join(document) or 'nothing'}. docs/comparing.md has an example"
            )
    horizon = check_int("horizon", document["horizon"], at_least=1, at_most=MAX_HORIZON)
    repeats = check_int("repeats", document.get("repeats", 10), at_least=1, at_most=min(Experiment.finals) - 1)
    fresh = check_int("fresh", document.get("fresh", 60), at_least=1)
    if not isinstance(document["policy"], list) or not document["policy"]:
        raise InvalidInput(f"{path}: each policy must be a table [[policy]]; got {document['policy']!r}")
    title, tables = str(document.get("title", path.stem)), document["problem"]
    problems = {path.stem: (title, tables)}
    if isinstance(tables, list) and tables:
        problems = {}
        for number, table in enumerate(tables, 1):
            name = table.get("name", f"{path.stem} {number}") if isinstance(table, dict) else None
            if not isinstance(name, str) or not name or name in problems:
                raise InvalidInput(f"{path}: each [[problem]] needs a name of its own, a text; got {name!r}")
            problems[name] = (f"{title}, {name}", {key: value for key, value in table.items() if key != "name"})
    for name, (full_title, table) in problems.items():
        environment, note = _problem(path, table)
        entries = tuple(_entry(path, each, horizon, environment) for each in document["policy"])
        named = zip(document["policy"], entries, strict=True)
        labels: dict[Any, str] = {each["name"]: entry.label for each, entry in named}
        reference = document.get("reference")
        yield Experiment(
            name=name,
            title=f"{full_title} (payoff units)" if has_payoffs(environment) else full_title,
            environment=environment,
            horizon=horizon,
            entries=entries,
            repeats=tuple(range(1, repeats + 1)),
            reference=labels.get(reference, reference),
            fresh=tuple(range(FIRST_FRESH_SEED, FIRST_FRESH_SEED + fresh)),
            note=f"The problem is {note}.",
        )


def _problem(path: Path, table: Any) -> tuple[Environment, str]:
    """Return a problem, and what the report says about it."""
    if not isinstance(table, dict):
        raise InvalidInput(f"{path}: problem must be a table, [problem], or several, [[problem]]; got {table!r}")
    settings = dict(table)
    kind = settings.pop("kind", "synthetic")
    environment = make_problem(kind, settings, f"[problem] of {path.name}")
    note = described(kind, settings) if ":" in kind else repr(environment)
    return environment, note


def _entry(path: Path, table: Any, horizon: int, environment: Environment) -> PolicyEntry:
    _check_keys(path, "[[policy]]", table, {"name", "settings", "grid"})
    kind: Any = find_policy(table.get("name"))
    known = kind.setting_names if isinstance(kind, AgentFactory) else list(settings_of(kind()))
    fixed, grid = table.get("settings", {}), table.get("grid")
    for part in (fixed, {} if grid is None else grid):
        _check_keys(path, f"[policy.settings] and [policy.grid] of {kind.name}", part, set(known))
    duplicates = [name for name in fixed if name in (grid or {})]
    if duplicates:
        raise InvalidInput(
            f"{path}: {kind.name} has {', '.join(duplicates)} both in settings and in grid; remove one of them"
        )
    if grid is None:  # the default grid without the settings that the user fixed
        values = {name: tuple(default) for name, default in kind.grid.items() if name not in fixed}
    else:
        values = {name: tuple(v if isinstance(v, list) else [v]) for name, v in grid.items()}
    automatic = {"horizon": horizon, "link": default_link(environment)}
    fixed = {name: value for name, value in automatic.items() if name in known and name not in values} | fixed
    entry = PolicyEntry(kind, fixed, values)
    entry.settings()  # raise on invalid values now, not in the middle of the runs
    return entry


def _check_keys(path: Path, where: str, values: Any, known: set[str]) -> None:
    if not isinstance(values, dict):
        raise InvalidInput(f"{path}: {where} must be a table of names and values; got {values!r}")
    for name in values:
        lookup(f"name in {where} of {path.name}", name, dict.fromkeys(known))
