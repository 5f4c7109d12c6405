"""The entry point of `glb`."""

import sys
from typing import NoReturn

from glbandits.common.errors import GlbanditsError
from glbandits.common.extras import needed_for

ERROR_PREFIX = "glb: "


def main() -> None:
    """Run `glb`. An error that the user can fix is printed as one line without a traceback; the exit code is 2."""
    try:
        with needed_for("the command line", "lab", alternative="pip install 'glbandits[serve]' for the service only"):
            from glbandits.cli.app import app
        app(prog_name="glb")
    except (GlbanditsError, OSError) as error:
        _stop(f"{ERROR_PREFIX}{error}")


def _stop(message: str) -> NoReturn:
    sys.stderr.write(message + "\n")
    sys.exit(2)


if __name__ == "__main__":
    main()
