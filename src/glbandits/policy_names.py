"""Find policy classes by name: those of the package, and user-defined ones."""

import sys
from importlib import import_module
from pathlib import Path

from glbandits.errors import InvalidInput, UnknownName, lookup
from glbandits.policies import POLICIES
from glbandits.policy import Policy
from glbandits.policy.policy_checks import check_is_policy


def as_policy(policy: Policy | str) -> Policy:
    """Return a policy unchanged, and create the policy that a text names, with its default settings.

    Raises UnknownName for a name that is not in `POLICIES`, and InvalidInput if it is neither a policy nor a text.
    """
    return lookup("policy", policy, POLICIES)() if isinstance(policy, str) else check_is_policy(policy)


def find_policy(name: str) -> type[Policy]:
    """Return the policy class of this name, or the user-defined class given as `module:Class`.

    The module may be in the current folder or anywhere on Python's import path.
    Raises UnknownName if there is no such policy, and InvalidInput if the module cannot be imported.
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
            f"there is no module {error.name!r}, needed for {name!r}; run glb in the folder of the module."
        ) from None
    except SyntaxError as error:
        raise InvalidInput(
            f"{error.filename}, line {error.lineno}: {error.msg}; correct the module of {name!r}"
        ) from None
    except Exception as error:
        raise InvalidInput(
            f"importing the module {module_name!r} of {name!r} failed: {type(error).__name__}: {error}. "
            f"Run `python -c 'import {module_name}'` for the traceback"
        ) from error
    if not (isinstance(kind, type) and issubclass(kind, Policy)):
        raise UnknownName(f"{name!r} must name a subclass of glbandits.Policy; {module_name}.{class_name} is {kind!r}.")
    return kind
