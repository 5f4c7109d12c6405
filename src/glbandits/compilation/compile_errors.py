"""Errors of Numba as errors for the author of the code: what cannot be compiled, in which function and line."""

import linecache
import re
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FunctionType

import numba

from glbandits.common.code_references import is_own
from glbandits.common.errors import InvalidInput
from glbandits.compilation.numba_support import ADVICE, MARKER

COMPILE_ERRORS: tuple[type[Exception], ...] = (
    numba.NumbaError,
    getattr(numba, "UnsupportedBytecodeError", numba.NumbaError),  # older versions lack it
    RecursionError,
)
"""The errors that Numba raises for code that it cannot compile."""
KNOWN = "Use of unsupported NumPy function", "Unknown attribute", "Untyped global name", "is not supported"
"""Parts of the lines in which Numba names the cause."""
NOT_CAUSES = "During", "raised from", "*", ">>>"
"""Beginnings of the lines that say where or with which arguments."""
UNTYPED = re.compile(r"Untyped global name '(.+?)': +[Cc]annot determine Numba type of <class '(.+?)'>")
PLACE = re.compile(r'File "(.+?)", line (\d+):|\. Raised from (?:(.+?) \((\d+)\)|None)')


def explained(error: Exception, name: str, functions: Iterable[FunctionType]) -> InvalidInput:
    """Return the error for users. Its note has Numba's text.

    Args:
        error: what Numba has raised.
        name: the name of the entry point in the message.
        functions: all functions of the entry point.
    """
    text = str(error)
    for line in text.splitlines():
        if MARKER in line:
            return InvalidInput(line[line.index(MARKER) + len(MARKER) :])
    own = [function for function in functions if is_own(function)]
    explanation = InvalidInput(f"{name} cannot be compiled: {_cause(text)}{_place(text, own)}. {ADVICE}")
    explanation.add_note(f"Numba says:\n{text}")
    return explanation


def _cause(text: str) -> str:
    """Return the complaint of Numba: a line with a known part, or the last one before the first place."""
    stripped = [line.strip().removeprefix("- ").rstrip(".") for line in PLACE.split(text)[0].splitlines()]
    lines = [line for line in stripped if line and not line.endswith(":") and not line.startswith(NOT_CAUSES)]
    line = next((line for line in lines if any(part in line for part in KNOWN)), lines[-1] if lines else text)
    untyped = UNTYPED.search(line)
    return f"it uses {untyped[1]!r}, of type {untyped[2]}, which Numba does not know" if untyped else line


def _place(text: str, functions: list[FunctionType]) -> str:
    """Return function, file and line of the innermost place of the text that is in one of these functions."""
    for file, line, raised_file, raised_line in PLACE.findall(text):
        path, number = Path(file or raised_file).resolve(), int(line or raised_line or 0)
        for function in functions:
            source = function.__code__.co_filename
            if Path(source).resolve() == path and number in _lines(function.__code__):
                content = linecache.getline(source, number).strip()
                return f", in {function.__qualname__}, line {number} of {source} ({content})"
    names = sorted({function.__qualname__ for function in functions if function.__code__.co_filename != "<string>"})
    return f", in {' or '.join(names)}" if names else ""


def _lines(code: CodeType) -> set[int]:
    """Return the numbers of the lines of a function with those inside it."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return {line for _, _, line in code.co_lines() if line}.union(*map(_lines, inner))
