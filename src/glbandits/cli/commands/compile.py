"""`glb compile`: fill the cache of machine code ahead of time, for containers and CI."""

from contextlib import suppress
from importlib import import_module
from typing import Annotated

import typer
from rich.console import Console

from glbandits.bandit import policy_jobs
from glbandits.cli.progress import work_bar
from glbandits.common.errors import InvalidInput
from glbandits.compilation.entry_point import compile_all, compile_mode
from glbandits.compilation.recipe import Job
from glbandits.features.hashing.hashed_products import cross_recipe, cross_rows_recipe
from glbandits.maths.online_statistics.confidence_sequence import add_recipe
from glbandits.policies import POLICIES
from glbandits.policies.parsing import parse_policy

DIM = 10
"""The compiled code of the package's policies does not depend on the number of features."""


def compile_command(
    policy: Annotated[
        list[str], typer.Argument(help="Policies: names, or module:Class for your own; `all` for all names.")
    ] = ["optimist"],  # noqa: B006
) -> None:
    """Compile policies into the cache on disk, for all built-in links, so that no later process compiles them.

    Set NUMBA_CACHE_DIR to put the cache into a folder that you ship. Machine code fits one kind of processor.
    """
    if compile_mode() == "never":
        raise InvalidInput("GLBANDITS_COMPILE is never, so nothing can be compiled. Unset it.")
    names = list(POLICIES) if policy == ["all"] else policy
    policies = [parse_policy(name) for name in names]
    jobs: list[Job] = [(cross_recipe,), (cross_rows_recipe,), (add_recipe,)]
    with suppress(ModuleNotFoundError):  # without the extra [serve]
        jobs.append((import_module("glbandits.service.domain.action_selection").draw_recipe,))
    console = Console()
    with work_bar(console):
        compile_all([*(job for each in policies for job in policy_jobs(each, DIM)), *jobs])
    console.print(f"Compiled {', '.join(names)}.", soft_wrap=True, markup=False)
