"""The process that compiles entry points in the background: `python -m glbandits.compilation.worker`.

It reads jobs from its standard input: the length in four bytes, then a pickled function that builds a recipe, with its
arguments. It compiles each recipe into Numba's cache, and then writes a line. Further lines show that it is alive. It
ends when its input is closed.
"""

import os
import pickle
import sys
import threading
import time
from contextlib import suppress

from glbandits.compilation.compiler_pool import DONE
from glbandits.compilation.recipe import compile_now

ALIVE, ALIVE_SECONDS = b"alive\n", 5.0
"""The line that shows that this process is alive, and the seconds between two of them."""


def main() -> None:
    """Compile jobs until the input is closed."""
    if hasattr(os, "nice"):
        os.nice(5)  # the parent process has priority
    threading.Thread(target=_show_life, daemon=True).start()
    while length := sys.stdin.buffer.read(4):
        build, arguments = pickle.loads(sys.stdin.buffer.read(int.from_bytes(length, "big")))
        with suppress(Exception):  # the parent compiles the job too, and reports the error
            compile_now(build(*arguments))
        _write(DONE)


def _show_life() -> None:
    with suppress(OSError):  # the parent has ended
        while True:
            time.sleep(ALIVE_SECONDS)
            _write(ALIVE)


def _write(line: bytes) -> None:
    os.write(sys.stdout.fileno(), line)


if __name__ == "__main__":
    main()
