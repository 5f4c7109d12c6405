"""Policies by name: those of the package, and a user's own."""

import sys
from importlib import import_module
from pathlib import Path

from glbandits.errors import InvalidInput, UnknownName, lookup
from glbandits.policies import POLICIES
from glbandits.policy import Policy


def find_policy(name: str) -> type[Policy]:
    """The policy class of this name in the table, or a user's own that is written `module:Class`.

    The module is looked for as by `import`, and in the current folder.
    """
    module_name, colon, class_name = str(name).partition(":")
    if not colon:
        return lookup("policy", name, POLICIES)
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        kind = getattr(import_module(module_name), class_name, None)
    except ModuleNotFoundError as error:
        raise UnknownName(
            f"there is no module {error.name!r}, which {name!r} names; run glb in the folder it is in."
        ) from None
    except SyntaxError as error:
        raise InvalidInput(
            f"{error.filename}, line {error.lineno}: {error.msg}; correct the module that {name!r} names"
        ) from None
    except Exception as error:
        raise InvalidInput(
            f"the module {module_name!r}, which {name!r} names, fails when it is imported: "
            f"{type(error).__name__}: {error}. Run `python -c 'import {module_name}'` for the traceback"
        ) from error
    if not (isinstance(kind, type) and issubclass(kind, Policy)):
        raise UnknownName(f"{name!r} must name a subclass of glbandits.Policy; {module_name}.{class_name} is {kind!r}.")
    return kind
