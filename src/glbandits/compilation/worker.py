"""The process that compiles entry points in the background: `python -m glbandits.compilation.worker`.

It reads jobs from its standard input: the length in four bytes, then a pickled function that builds a recipe, with its
arguments. It compiles each recipe into Numba's cache, and then writes a line. It ends when its input is closed.
"""

import os
import pickle
import sys
from contextlib import suppress

from glbandits.compilation.recipe import compile_now


def main() -> None:
    """Compile jobs until the input is closed."""
    if hasattr(os, "nice"):
        os.nice(5)  # the parent process has priority
    while length := sys.stdin.buffer.read(4):
        build, arguments = pickle.loads(sys.stdin.buffer.read(int.from_bytes(length, "big")))
        with suppress(Exception):  # the parent compiles the job too, and reports the error
            compile_now(build(*arguments))
        sys.stdout.buffer.write(b"done\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
