"""Recipes: functions with all that is needed to compile them, and the cache of their machine code.

A marker file beside Numba's cache files records that a recipe is compiled (`is_cached`).
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numba

from glbandits.compilation.machine_code import cache_files, cache_folder, compile_cached, entry_name
from glbandits.compilation.private_numba import processor
from glbandits.compilation.shared_functions import Link, shared_form

Job: TypeAlias = tuple[Any, ...]
"""A function that builds a recipe, and its arguments."""


class Recipe(NamedTuple):
    """A function, and everything that is needed to compile it."""

    function: Callable[..., Any]
    """Plain Python code that Numba can compile."""
    signature: Any
    """The Numba types of the arguments and the result."""
    name: str
    """The name in messages and in the cache, such as "optimist, logistic"."""
    nogil: bool = True
    """Whether the machine code releases the GIL."""
    check_bounds: bool = False
    """Whether the code contains user code. It is then compiled with bounds checks, and at once, so that errors show."""
    work: Callable[..., float] | None = None
    """Returns about how many elementary steps a call with these arguments takes."""


def compile_now(recipe: Recipe) -> Callable[..., Any]:
    """Return the machine code: loaded from the cache on disk, or compiled here."""
    compiled = compile_cached(
        recipe.function,
        signature=recipe.signature,
        name=recipe.name,
        nogil=recipe.nogil,
        check_bounds=recipe.check_bounds,
    )
    for each in _with_needs(recipe):
        marker = marker_file(each)
        if marker is not None and not marker.exists() and cache_files(each.function):  # Numba cannot cache all code
            with suppress(OSError):  # the disk is full
                marker.touch()
    return compiled


def needs(recipe: Recipe) -> list[Job]:
    """Return jobs that compile the shared functions which a recipe needs, each after those that it needs itself.

    `compile_now` does these jobs too.
    """
    forms = entry_name(recipe.function, recipe.name, recipe.check_bounds).needs
    return [(shared_recipe, form.function, form.link, form.check_bounds) for form in forms]


def shared_recipe(function: Callable[..., Any], link: Link, check_bounds: bool) -> Recipe:
    """The recipe of a shared function for a user's link, or for all built-in links."""
    form = shared_form(function, link, check_bounds)
    return Recipe(form.code, form.code_signature, form.name, check_bounds=check_bounds)


def is_cached(recipe: Recipe) -> bool:
    """Return whether the cache on disk has machine code of this version of the code, for this processor."""
    markers = map(marker_file, _with_needs(recipe))
    return all(marker is not None and marker.exists() for marker in markers)


def _with_needs(recipe: Recipe) -> Iterator[Recipe]:
    """Yield the recipes that a recipe needs, and itself."""
    yield from (build(*arguments) for build, *arguments in needs(recipe))
    yield recipe


def marker_file(recipe: Recipe) -> Path | None:
    """Return the path of the marker file; None if the machine code cannot be cached.

    Its name is a hash of everything that the machine code depends on.
    """
    name = entry_name(recipe.function, recipe.name, recipe.check_bounds)
    folder = cache_folder(recipe.function) if name.is_complete else None
    if folder is None:
        return None
    source = Path(recipe.function.__code__.co_filename).stat()
    parts = (
        name.text,
        numba.__version__,
        processor(),
        " ".join(str(getattr(numba.config, option)) for option in ("CPU_NAME", "CPU_FEATURES", "BOUNDSCHECK")),
        sys.implementation.cache_tag,
        f"{source.st_mtime_ns} {source.st_size}",
    )
    return folder / f"glbandits-{sha256(repr(parts).encode()).hexdigest()[:24]}.compiled"
