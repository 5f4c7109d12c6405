"""Code of users: objects of a module that the command line names as `module:Name`, and errors that it raises."""

import sys
import sysconfig
import traceback
from importlib import import_module
from inspect import ismodule
from pathlib import Path
from textwrap import shorten
from typing import Any

from glbandits.common.errors import InvalidInput, UnknownName, lookup

LIBRARY_FOLDERS = "site-packages", "dist-packages", str(Path(sysconfig.get_path("stdlib")))
LONGEST_MESSAGE = 300
"""Most characters of the message of an exception."""


def described_error(error: BaseException) -> str:
    """Return type and message of an error in one line, and the last line of own code that led to it.

    The first frame of its traceback is that of the caller.
    """
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in frames if not _is_library(frame.filename)] or frames
    try:
        message = shorten(str(error).rstrip(".\n "), LONGEST_MESSAGE, placeholder=" ...")
    except Exception:  # the exception is of a class of the user
        message = ""
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return f"{text}, in line {own[-1].lineno} of {own[-1].filename}" if own else text


def _is_library(file: str) -> bool:
    """Whether the file of a frame is one of a library, or of Cython, whose files are not installed."""
    return file.endswith((".pyx", ".pxd", ".pxi")) or any(folder in file for folder in LIBRARY_FOLDERS)


def load_object(name: str) -> Any:
    """Return the object given as `module:Name`.

    The module may be in the current folder or anywhere on Python's import path.
    Raises UnknownName if there is no such module or name, and InvalidInput if the module cannot be imported.
    """
    module_name, _, object_name = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise UnknownName(
            f"there is no module {error.name!r}, needed for {name!r}; run glb in the folder of the module."
        ) from None
    except Exception as error:
        raise InvalidInput(
            f"importing the module {module_name!r} of {name!r} failed: {type(error).__name__}: {error}. "
            f"Run `python -c 'import {module_name}'` for the traceback"
        ) from error
    known = {key: value for key, value in vars(module).items() if not key.startswith("_") and not ismodule(value)}
    return lookup(f"name in {module_name}.py", object_name, known)
