"""The version of the code that measures."""

import subprocess
from pathlib import Path

from glbandits.common.version import __version__

ROOT = Path(__file__).resolve().parent.parent


def code_version() -> str:
    """Return the version of the package and the commit of the clone, such as "0.1.0, commit 708077a8"."""
    command = ["git", "describe", "--always", "--abbrev=8", "--dirty", "--exclude=*"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    return f"{__version__}, commit {commit}" if commit else __version__
