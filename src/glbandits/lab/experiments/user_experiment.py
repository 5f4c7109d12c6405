"""Experiments that users describe in TOML files."""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from glbandits.common.errors import InvalidInput, check_int, lookup
from glbandits.lab.environments import Environment
from glbandits.lab.environments.rounds import has_payoffs
from glbandits.lab.experiments.experiment import MAX_HORIZON, Experiment, PolicyEntry
from glbandits.lab.experiments.named_environments import default_link, described, make_environment
from glbandits.policies.agents import AgentFactory
from glbandits.policies.contract import settings_of
from glbandits.policies.parsing import find_policy

KEYS = {"title", "horizon", "repeats", "finals", "fresh", "reference", "environment", "policy"}
"""Keys of a file."""


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
    for key in ("horizon", "environment", "policy"):
        if key not in document:
            raise InvalidInput(
                f"{path} needs {key}; got {', '.join(document) or 'nothing'}. docs/comparing.md has an example"
            )
    horizon = check_int("horizon", document["horizon"], at_least=1, at_most=MAX_HORIZON)
    seeds = {name: document[name] for name in ("repeats", "finals", "fresh") if name in document}
    if not isinstance(document["policy"], list) or not document["policy"]:
        raise InvalidInput(f"{path}: each policy must be a table [[policy]]; got {document['policy']!r}")
    title = str(document.get("title", path.stem))
    for name, full_title, table in _environment_tables(path, title, document["environment"]):
        environment, note = _environment(path, table)
        policies = tuple(_entry(path, each, horizon, environment) for each in document["policy"])
        yield Experiment(
            name=name,
            title=f"{full_title} (payoff units)" if has_payoffs(environment) else full_title,
            environment=environment,
            horizon=horizon,
            policies=policies,
            reference=_reference(document, policies),
            note=f"The problem is {note}.",
            **seeds,
        )


def _reference(document: dict[str, Any], policies: Sequence[PolicyEntry]) -> Any:
    """Return the name of the policy that the file names by its name or, if no other has it as name, by its kind."""
    reference = document.get("reference")
    if reference in [entry.label for entry in policies]:
        return reference
    kinds = {table["kind"]: entry.label for table, entry in zip(document["policy"], policies, strict=True)}
    return kinds.get(reference, reference)


def _environment_tables(path: Path, title: str, tables: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield name, title and table of each environment of a file."""
    if not (isinstance(tables, list) and tables):
        yield path.stem, title, tables
        return
    names = set[str]()
    for number, table in enumerate(tables, 1):
        name = table.get("name", f"{path.stem} {number}") if isinstance(table, dict) else None
        if not isinstance(name, str) or not name or name in names:
            raise InvalidInput(f"{path}: each [[environment]] needs a name of its own, a text; got {name!r}")
        names.add(name)
        yield name, f"{title}, {name}", {key: value for key, value in table.items() if key != "name"}


def _environment(path: Path, table: Any) -> tuple[Environment, str]:
    """Return an environment, and what the report says about it."""
    if not isinstance(table, dict):
        raise InvalidInput(
            f"{path}: environment must be a table, [environment], or several, [[environment]]; got {table!r}"
        )
    settings = dict(table)
    kind = settings.pop("kind", "synthetic")
    environment = make_environment(kind, settings, f"[environment] of {path.name}")
    return environment, described(kind, settings) if ":" in kind else repr(environment)


def _entry(path: Path, table: Any, horizon: int, environment: Environment) -> PolicyEntry:
    _check_keys(path, "[[policy]]", table, {"kind", "name", "settings", "grid"})
    if "kind" not in table:
        raise InvalidInput(
            f'{path}: each [[policy]] needs kind, such as "optimist"; got {", ".join(table) or "nothing"}'
        )
    kind: Any = find_policy(table["kind"])
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
    entry = PolicyEntry(kind, fixed, values, table.get("name"))
    entry.policies()  # raise on invalid values now, not in the middle of the runs
    return entry


def _check_keys(path: Path, where: str, values: Any, known: set[str]) -> None:
    if not isinstance(values, dict):
        raise InvalidInput(f"{path}: {where} must be a table of names and values; got {values!r}")
    for name in values:
        lookup(f"name in {where} of {path.name}", name, dict.fromkeys(known))
