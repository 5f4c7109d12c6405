"""`glb compile`: fill the cache of machine code ahead of time, for containers and CI."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.console import Console

from glbandits.bandit import compile_policy
from glbandits.cli.policy_text import parse_policy
from glbandits.cli.progress import work_bar
from glbandits.compilation import compile_now
from glbandits.errors import InvalidInput, lookup
from glbandits.features.hashing.hashed_products import cross_recipe, cross_rows_recipe
from glbandits.maths.links import LINKS, find_link
from glbandits.maths.online_statistics.confidence_sequence import add_recipe
from glbandits.policies import POLICIES
from glbandits.policy import Policy


def compile_command(
    policy: Annotated[list[str], typer.Argument(help="Policies, or module:Class; `all` for every policy.")] = [  # noqa: B006
        "optimist"
    ],
    link: Annotated[list[str], typer.Option(help="Links to compile for; those that a policy refuses are left out.")] = [  # noqa: B006
        "logistic",
        "identity",
    ],
    dim: Annotated[int, typer.Option(help="Features of an arm: some policies have other code for many.")] = 10,
) -> None:
    """Compile policies into the cache on disk, so that no later process has to.

    Set NUMBA_CACHE_DIR to put the cache into a folder that you ship. Machine code fits one kind of processor.
    """
    names = list(POLICIES) if policy == ["all"] else policy
    wanted = [made for name in names for made in _for_links(name, link)]
    console = Console()
    with work_bar(console) as bar:
        for done, made in enumerate(wanted):
            bar(f"{made.name}, {find_link(made.link).name}", done, len(wanted) + 1)
            compile_policy(made, dim)
        bar("hashed features, draws and confidence sequences", len(wanted), len(wanted) + 1)
        compile_now(cross_recipe())
        compile_now(cross_rows_recipe())
        compile_now(add_recipe())
        with suppress(ModuleNotFoundError):  # without the extra [serve]
            compile_now(import_module("glbandits.serving.domain.action_selection").draw_recipe())
        bar("done", 1, 1)
    console.print(f"Compiled {', '.join(names)}, for the links {', '.join(link)}.", soft_wrap=True, markup=False)


def _for_links(name: str, links: list[str]) -> Iterator[Policy]:
    """The policy with each of these links that it takes."""
    policy: Any = parse_policy(name)
    if "link" not in {field.name for field in fields(policy)}:
        yield policy
        return
    for link in links:
        lookup("link", link, LINKS)
        with suppress(InvalidInput):
            yield replace(policy, link=link)
