"""Run `glb` in this process: starting another process takes seconds."""

import os
import sys
import warnings
from collections.abc import Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from glbandits.cli.main import main


class Run(NamedTuple):
    """The output and the exit code of a command."""

    returncode: int
    stdout: str
    stderr: str


def glb(*arguments: str, folder: Path, environment: Mapping[str, str] | None = None) -> Run:
    """Run the command in a folder, with variables of the environment added."""
    out, error, code = StringIO(), StringIO(), 0
    with (
        chdir(folder),
        patch.dict(os.environ, {"COLUMNS": "200", "NO_COLOR": "1", **(environment or {})}),
        patch.object(sys, "argv", ["glb", *arguments]),
        redirect_stdout(out),
        redirect_stderr(error),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")  # not errors, as they are in tests
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Run(code, out.getvalue(), error.getvalue())
