"""The process that compiles entry points for another one: `python -m glbandits.compile_worker`.

It reads pickled jobs from its standard input, each behind its length in four bytes, fills Numba's cache, and writes a
line when a job is done. It ends when its input ends.
"""

import os
import pickle
import sys
from contextlib import suppress

from glbandits.compilation import compile_now


def main() -> None:
    """Serve until the input ends."""
    if hasattr(os, "nice"):
        os.nice(5)  # the parent goes on deciding meanwhile
    while length := sys.stdin.buffer.read(4):
        build, arguments = pickle.loads(sys.stdin.buffer.read(int.from_bytes(length, "big")))
        with suppress(Exception):  # the parent then compiles it itself, and reports the error
            compile_now(build(*arguments))
        sys.stdout.buffer.write(b"done\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
