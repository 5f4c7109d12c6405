"""The entry point of `glb`."""

import sys

from glbandits.common.errors import GlbanditsError
from glbandits.common.extras import needed_for

ERROR_PREFIX = "glb: "


def main() -> None:
    """Run `glb`. An error that the user can fix is printed without a traceback; the exit code is 2."""
    try:
        with needed_for("the command line", "lab", alternative="pip install '.[serve]' for the service only"):
            from glbandits.cli.app import app
        app(prog_name="glb")
    except (GlbanditsError, OSError) as error:
        lines = [f"{ERROR_PREFIX}{error}", *getattr(error, "__notes__", [])]
        sys.stderr.write("\n".join(lines) + "\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
