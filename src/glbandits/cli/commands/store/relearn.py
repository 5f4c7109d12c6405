"""`glb store relearn`: learn the log of a loop again."""

from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.commands.store.models import opened_loop, print_epoch
from glbandits.cli.common_options import LoopOption, StoreOption
from glbandits.cli.progress import work_bar
from glbandits.service.runtime.service import DEFAULT_LOOP
from glbandits.service.server_settings import DEFAULTS


def relearn_command(
    store: StoreOption = DEFAULTS["store"],
    loop: LoopOption = DEFAULT_LOOP,
    reset_model: Annotated[
        bool,
        typer.Option(
            "--reset-model",
            help="Learn only what is left of the log, if old decisions were deleted or the model came from a file.",
        ),
    ] = False,
) -> None:
    """Let a new model learn the whole log of a loop under its present settings, and replace the present model.

    A server may run meanwhile. It decides with the present model until the new one is ready, and then learns the
    decisions that have come in between.
    """
    with opened_loop(store, loop) as (_, found), work_bar(Console()) as bar:
        last = found.published.learned_through
        found.relearn_whole_log(
            reset_model=reset_model, progress=lambda done: bar("learning the log", done, max(done, last))
        )
        model = found.published
    typer.echo(f"Learned the log up to decision {model.learned_through} again; {model.set_aside} decisions set aside.")
    print_epoch(found)
