from dataclasses import dataclass, field
from typing import Annotated

import typer
from typer.testing import CliRunner

from glbandits.cli.option_groups import with_option_groups


@dataclass(frozen=True)
class Group:
    name: Annotated[str, typer.Argument(help="A name.")]
    size: Annotated[int, typer.Option(help="A size.")] = 3
    tag: Annotated[list[str], typer.Option(help="A tag.")] = field(default_factory=list)


def test_fields_of_a_group_are_options_of_the_command() -> None:
    received = []
    app = typer.Typer()

    @app.command()
    @with_option_groups
    def command(*, group: Group, other: Annotated[float, typer.Option(help="Another.")] = 0.5) -> None:
        received.append((group, other))

    for arguments in (["x"], ["x", "--size", "4", "--tag", "a", "--tag", "b", "--other", "2"]):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
    assert received == [(Group("x"), 0.5), (Group("x", 4, ["a", "b"]), 2.0)]
    assert CliRunner().invoke(app, []).exit_code == 2
