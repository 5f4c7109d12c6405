"""A comparison of the user's own, written in a TOML file."""

import tomllib
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from glbandits.environments import Environment, ForestCover, News, Synthetic
from glbandits.errors import InvalidInput, check_int, lookup
from glbandits.experiments.experiment import Experiment, PolicyEntry
from glbandits.policy import settings_of
from glbandits.policy_names import find_policy

PROBLEMS: dict[str, type[Any]] = {"synthetic": Synthetic, "forest-cover": ForestCover, "news": News}
"""What `kind` may be; other keys of [problem] are settings of that class."""
FIRST_FRESH_SEED = 1001
LONGEST = 10**8
"""The largest horizon: all choices of a run are kept in memory."""


def read_experiment(path: Path) -> Experiment:
    """The experiment that a file describes; docs/comparing.md says how."""
    try:
        text = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} is not a TOML file: {error}") from None
    _only(path, "the file", text, {"title", "horizon", "repeats", "fresh", "problem", "policy"})
    for needed in ("horizon", "problem", "policy"):
        if needed not in text:
            raise InvalidInput(
                f"{path} needs {needed}; got {', '.join(text) or 'nothing'}. docs/comparing.md has an example"
            )
    horizon = check_int("horizon", text["horizon"], at_least=1, at_most=LONGEST)
    repeats = check_int("repeats", text.get("repeats", 10), at_least=1, at_most=FIRST_FRESH_SEED - 1)
    fresh = check_int("fresh", text.get("fresh", 60), at_least=1)
    if not isinstance(text["policy"], list) or not text["policy"]:
        raise InvalidInput(f"{path}: policies are written as [[policy]], one for each; got {text['policy']!r}")
    environment = _problem(path, text["problem"])
    entries = tuple(_entry(path, described, horizon, environment) for described in text["policy"])
    labels = [entry.label for entry in entries]
    if len(set(labels)) < len(labels):
        raise InvalidInput(f"{path}: each policy can be named once; got {', '.join(labels)}")
    return Experiment(
        name=path.stem,
        title=str(text.get("title", path.stem)),
        environment=environment,
        horizon=horizon,
        entries=entries,
        repeats=tuple(range(1, repeats + 1)),
        fresh=tuple(range(FIRST_FRESH_SEED, FIRST_FRESH_SEED + fresh)),
        note=repr(environment),
    )


def _problem(path: Path, described: Any) -> Environment:
    if not isinstance(described, dict):
        raise InvalidInput(f"{path}: problem must be a table, [problem]; got {described!r}")
    settings = dict(described)
    kind = lookup("kind of problem", settings.pop("kind", "synthetic"), PROBLEMS)
    _only(path, "[problem]", settings, {field.name for field in fields(kind)})
    for field in fields(kind):
        if field.default is MISSING and field.default_factory is MISSING and field.name not in settings:
            raise InvalidInput(f"{path}: [problem] needs {field.name}; got {', '.join(described)}")
    try:
        problem: Environment = kind(**settings)
    except TypeError as error:
        raise InvalidInput(f"{path}: [problem] has a value of a wrong type, {settings!r}: {error}") from None
    return problem


def _entry(path: Path, described: Any, horizon: int, environment: Environment) -> PolicyEntry:
    _only(path, "[[policy]]", described, {"name", "settings", "grid"})
    kind: Any = find_policy(described.get("name"))
    known = settings_of(kind())
    fixed, grid = described.get("settings", {}), described.get("grid")
    for part in (fixed, {} if grid is None else grid):
        _only(path, f"[policy.settings] and [policy.grid] of {kind.name}", part, set(known))
    twice = [name for name in fixed if name in (grid or {})]
    if twice:
        raise InvalidInput(
            f"{path}: {kind.name} has {', '.join(twice)} both in settings and in grid; remove one of them"
        )
    if grid is None:  # the policy's own, except what the user fixed
        values = {name: tuple(own) for name, own in kind.grid.items() if name not in fixed}
    else:
        values = {name: tuple(v if isinstance(v, list) else [v]) for name, v in grid.items()}
    automatic = {"horizon": horizon, "link": getattr(environment, "link", "logistic")}
    fixed = {name: value for name, value in automatic.items() if name in known and name not in values} | fixed
    entry = PolicyEntry(kind, fixed, values)
    entry.settings()  # refuse wrong values now, not in the middle of the runs
    return entry


def _only(path: Path, where: str, given: Any, known: set[str]) -> None:
    if not isinstance(given, dict):
        raise InvalidInput(f"{path}: {where} must be a table of names and values; got {given!r}")
    for name in given:
        lookup(f"name in {where} of {path.name}", name, dict.fromkeys(known))
