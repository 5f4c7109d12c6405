"""Run `glb` in this process: to start another one takes seconds."""

import os
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from glbandits.cli.main import main


class Run(NamedTuple):
    """What a command said and how it ended."""

    returncode: int
    stdout: str
    stderr: str


def glb(*arguments: str, folder: Path) -> Run:
    """Run the command as a user would, in a folder of its own, but in this process: to start one takes seconds."""
    out, error, code = StringIO(), StringIO(), 0
    with (
        chdir(folder),
        patch.dict(os.environ, {"COLUMNS": "200", "NO_COLOR": "1"}),
        patch.object(sys, "argv", ["glb", *arguments]),
        redirect_stdout(out),
        redirect_stderr(error),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")  # as in a program of its own
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Run(code, out.getvalue(), error.getvalue())
