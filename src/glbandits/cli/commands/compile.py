"""`glb compile`: fill the cache of machine code ahead of time, for containers and CI."""

from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.console import Console

from glbandits.bandit import policy_jobs
from glbandits.cli.common_options import LINK_NAMES
from glbandits.cli.progress import work_bar
from glbandits.common.errors import InvalidInput, lookup
from glbandits.compilation.entry_point import compile_all, compile_mode
from glbandits.compilation.recipe import Job
from glbandits.features.hashing.hashed_products import cross_recipe, cross_rows_recipe
from glbandits.maths.links import LINKS
from glbandits.maths.online_statistics.confidence_sequence import add_recipe
from glbandits.policies import POLICIES
from glbandits.policies.contract import Policy, settings_of
from glbandits.policies.contract.policy_checks import accepted_links
from glbandits.policies.parsing import parse_policy


def compile_command(
    policy: Annotated[
        list[str], typer.Argument(help="Policies: names, or module:Class for your own; `all` for all names.")
    ] = ["optimist"],  # noqa: B006
    link: Annotated[
        list[str],
        typer.Option(help=f"Link of the rewards: {LINK_NAMES}. Repeat for more. A policy skips links that it rejects."),
    ] = ["logistic", "identity"],  # noqa: B006
    dim: Annotated[
        int, typer.Option(help="Number of features. Some policies have different code for many features.")
    ] = 10,
) -> None:
    """Compile policies into the cache on disk, so that no later process compiles them.

    Set NUMBA_CACHE_DIR to put the cache into a folder that you ship. Machine code fits one kind of processor.
    """
    if compile_mode() == "never":
        raise InvalidInput("GLBANDITS_COMPILE is never, so nothing can be compiled. Unset it.")
    for name in link:
        lookup("link", name, LINKS)
    names = list(POLICIES) if policy == ["all"] else policy
    policies = [variant for name in names for variant in _with_links(parse_policy(name), link)]
    jobs: list[Job] = [(cross_recipe,), (cross_rows_recipe,), (add_recipe,)]
    with suppress(ModuleNotFoundError):  # without the extra [serve]
        jobs.append((import_module("glbandits.service.domain.action_selection").draw_recipe,))
    console = Console()
    with work_bar(console):
        compile_all([*(job for variant in policies for job in policy_jobs(variant, dim)), *jobs])
    console.print(f"Compiled {', '.join(names)}, for the links {', '.join(link)}.", soft_wrap=True, markup=False)


def _with_links(policy: Policy, links: list[str]) -> list[Policy]:
    """Return the policy with each of these links that it accepts; the policy itself if its link is fixed."""
    if "link" not in settings_of(policy):
        return [policy]
    record: Any = policy
    accepted = accepted_links(policy)
    return [replace(record, link=link) for link in links if link in accepted]
