"""The entry point of `glb`."""

import sys
from typing import NoReturn

from glbandits.errors import GlbanditsError

ERROR_PREFIX = "glb: "


def main() -> None:
    """Run `glb`. An error that the user can fix is printed as one line without a traceback; the exit code is 2."""
    try:
        from glbandits.cli.app import app
    except ModuleNotFoundError as error:
        _stop(f"glb needs {error.name}, which is in the extras [lab] and [serve]: pip install 'glbandits[serve]'")
    try:
        app(prog_name="glb")
    except (GlbanditsError, OSError) as error:
        _stop(f"{ERROR_PREFIX}{error}")


def _stop(message: str) -> NoReturn:
    sys.stderr.write(message + "\n")
    sys.exit(2)


if __name__ == "__main__":
    main()
