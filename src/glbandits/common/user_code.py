"""Objects of a user's module, which the command line and experiment files name as `module:Name`."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from glbandits.common.errors import InvalidInput, UnknownName


def load_object(name: str) -> Any:
    """Return the object given as `module:Name`; None if the module has no such name.

    The module may be in the current folder or anywhere on Python's import path.
    Raises UnknownName if there is no such module, and InvalidInput if it cannot be imported.
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
    return getattr(module, object_name, None)
