"""`glb`: the entry point, and what all commands share."""

import sys
from typing import NoReturn

from glbandits.errors import GlbanditsError


def main() -> None:
    """Run `glb`; an error that the user can mend ends in one line, not in a traceback."""
    try:
        from glbandits.cli.app import app
    except ModuleNotFoundError as missing:
        _stop(f"glb needs {missing.name}, which is in the extras [lab] and [serve]: pip install 'glbandits[serve]'")
    try:
        app()
    except (GlbanditsError, OSError) as error:
        _stop(f"glb: {error}")


def _stop(message: str) -> NoReturn:
    sys.stderr.write(message + "\n")
    sys.exit(2)


if __name__ == "__main__":
    main()
