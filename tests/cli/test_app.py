"""Options that come before a command, the list of commands, and completion."""

import subprocess
import sys
from pathlib import Path

from glbandits import __version__
from glbandits.cli.app import COMMANDS, GROUPS
from tests.cli.in_process import glb


def test_version_is_printed(tmp_path: Path) -> None:
    assert glb("--version", folder=tmp_path).stdout == f"glbandits {__version__}\n"


def test_help_lists_all_commands_on_whole_lines(tmp_path: Path) -> None:
    for group in ("", *GROUPS):
        run = glb(*group.split(), "--help", folder=tmp_path, environment={"COLUMNS": "80"})
        assert run.returncode == 0
        for words, summary in [*GROUPS.items(), *((words, entry.summary) for words, entry in COMMANDS.items())]:
            parent, _, name = words.rpartition(" ")
            shown = any(line.split() == [name, *summary.split()] for line in run.stdout.splitlines())
            assert shown == (parent == group), (group, words)


def test_commands_are_imported_only_when_used() -> None:
    """A process of its own, because this one has imported everything."""
    modules = "glbandits.cli.app, glbandits.cli.commands.serve, sys"
    script = f"import {modules}; print({{'numpy', 'numba', 'scipy', 'polars'}} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "set()\n"
