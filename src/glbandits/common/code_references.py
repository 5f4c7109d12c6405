"""What functions, classes and modules refer to: the content from which `identity.py` identifies code.

Own code counts by its bytecode with the defaults, closures, globals and imports that it uses, so an edit changes its
identity. Code of a library counts by its name and the version of its distribution.
"""

import ast
import dis
import re
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import metadata, util
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from glbandits.common.version import __version__

WITHOUT_CONTENT = {
    "__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__", "__annotate__",
    "__annotate_func__", "__annotations_cache__", "__firstlineno__", "__static_attributes__", "__abstractmethods__",
    "_abc_impl", "__orig_bases__", "__parameters__", "__dataclass_params__", "__dataclass_fields__", "__match_args__",
    "__slots__",
}  # fmt: skip
"""Attributes of a class that do not determine what it does, or that repeat other attributes."""
DESCRIPTORS = ("member_descriptor", "getset_descriptor", "_abc_data")
"""Types of such attributes."""
HEAP_TYPE = 1 << 9
"""The flag of classes that were created at run time: all classes but some of those that are written in C."""
STANDARD_FOLDERS = tuple({str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "platstdlib")})
LIBRARY_FOLDERS = {"site-packages", "dist-packages"}


def name_of(code: Any) -> str:
    """Return module and name of a class or a function."""
    return f"{module_of(code)}.{getattr(code, '__qualname__', '')}"


def module_of(code: Any) -> str:
    """Return the name of the module that defines a class or a function; "" if it does not say."""
    name = getattr(code, "__module__", None)
    return name if isinstance(name, str) else ""  # classes of Cython have a descriptor


def is_own(code: Any) -> bool:
    """Return whether a class or function belongs to the user: neither to a library nor to this package."""
    return library_of(module_of(code)) is None


def is_library_name(code: Any) -> bool:
    """Return whether the name of a class or function identifies it, together with the version of its library."""
    if isinstance(code, type) and not (code.__flags__ & HEAP_TYPE and isinstance(code.__module__, str)):
        return True
    if library_of(module_of(code)) is None:
        return False
    found: Any = sys.modules.get(module_of(code))
    for name in code.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is code


def function_content(function: FunctionType) -> list[tuple[str, Any]]:
    """Return what determines a function: its code and all that it uses; of a library function, name and version."""
    library = library_of(module_of(function))
    content: list[tuple[str, Any]] = [("name", function.__qualname__), ("library", library)]
    if library is not None:
        content.append(("module", module_of(function)))
        if is_library_name(function):
            return content
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    content += [
        ("", function.__code__),
        ("defaults", function.__defaults__),
        ("keywords", function.__kwdefaults__),
        *(("attribute " + name, item) for name, item in function.__dict__.items()),
        *((name, _cell_content(cell)) for name, cell in cells),
    ]
    return content if library is not None else [*content, *_values_read_by(function)]


def _cell_content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def class_content(kind: type) -> list[tuple[str, Any]]:
    """Return what determines a class: its bases and attributes; of a library class, name and version."""
    library = library_of(module_of(kind))
    if is_library_name(kind):
        return [("name", name_of(kind)), ("library", library)]
    attributes = [pair for pair in vars(kind).items() if pair[0] not in WITHOUT_CONTENT]
    own = [(name, item) for name, item in attributes if type(item).__name__ not in DESCRIPTORS]
    return [("name", kind.__qualname__), ("library", library), ("bases", kind.__bases__), ("type", type(kind)), *own]


def module_content(module: ModuleType) -> list[tuple[str, Any]]:
    """Return what determines a module: the version of its library, or its source and the own modules it imports."""
    return [("name", module.__name__), ("library", library_or_sources(module.__name__))]


def library_or_sources(module_name: str) -> Any:
    """Return distribution and version of the library that has this module; of own code, the content of its files."""
    return library_of(module_name) or _own_sources(module_name)


def library_of(module_name: str) -> str | None:
    """Return distribution and version of the library that has this module; None for own code."""
    return _library(module_name.partition(".")[0])


@cache
def _library(package: str) -> str | None:
    if package == "glbandits":
        return f"glbandits {__version__}"
    origin = _origin(package)
    if origin is not None and (found := _distribution(package, Path(origin))) is not None:
        return found
    is_standard = package in sys.stdlib_module_names and package != "__main__"
    if is_standard and (origin is None or origin.startswith(STANDARD_FOLDERS)):
        return f"python {sys.version_info.major}.{sys.version_info.minor}"
    return None


def _distribution(package: str, origin: Path) -> str | None:
    """Return name and version of the distribution that has installed a package; None if none has.

    A folder with distributions has any name: `pip install --target` takes one. An editable package is own code: the
    list of installed files (RECORD) is not in the folder of its source.
    """
    folder = origin.parents[1] if origin.stem == "__init__" else origin.parent
    installed = re.compile(rf"^{re.escape(package)}[/.]", re.MULTILINE)
    for name in (package, None):  # None: all distributions of the folder, whose lists take long to read
        for each in metadata.distributions(name=name, path=[str(folder)]):
            if installed.search(each.read_text("RECORD") or ""):
                return f"{each.name} {each.version}"
    if LIBRARY_FOLDERS & set(origin.parts):
        with suppress(metadata.PackageNotFoundError):  # some systems have no lists of files
            return f"{package} {metadata.version(package)}"
    return None  # a file that nothing installed


def _origin(module_name: str) -> str | None:
    """Return the file of a module, or the folder of a package without one; None if neither is known."""
    try:
        spec = util.find_spec(module_name)
    except (ImportError, ValueError, AttributeError):
        module = sys.modules.get(module_name)
        origin = getattr(module, "__file__", None)
    else:
        locations = list(spec.submodule_search_locations or ()) if spec else []
        origin = spec.origin if spec and spec.has_location else next(iter(locations), None)
    return None if origin is None else str(Path(origin).resolve())


def _own_sources(module_name: str) -> tuple[tuple[str, bytes], ...]:
    """Return the sources of an own module and of the own modules that it imports, by name."""
    sources: dict[str, bytes] = {}
    pending = [module_name]
    while pending:
        name = pending.pop()
        origin = None if name in sources or library_of(name) else _origin(name)
        if origin is None or not Path(origin).is_file():
            continue
        sources[name] = Path(origin).read_bytes()
        if origin.endswith(".py"):
            package = name if origin.endswith("__init__.py") else name.rpartition(".")[0]
            pending += _imports(sources[name], package)
    return tuple(sorted(sources.items()))


def _imports(source: bytes, package: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node.module or "", node.level, package)
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


def _absolute(name: str, level: int, package: str) -> str:
    """Return the absolute name of an import of this level, made in a package."""
    above = package.split(".")[: len(package.split(".")) + 1 - level] if level else []
    return ".".join(part for part in (*above, name) if part)


def _values_read_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield name and value of the globals, attributes of own modules and imports that a function uses."""
    names = function.__globals__
    for code in _nested(function.__code__):
        reached: Any = None
        path = ""
        constants: list[Any] = []
        for instruction in dis.get_instructions(code):
            operation, name = instruction.opname, instruction.argval
            if operation in ("PRECALL", "CACHE", "PUSH_NULL", "EXTENDED_ARG"):
                continue
            if isinstance(reached, ModuleType) and operation in ("LOAD_ATTR", "LOAD_METHOD"):
                reached, path = getattr(reached, name, None), f"{path}.{name}"
            else:
                if path:
                    yield path, reached
                reached, path = None, ""
                if operation in ("LOAD_GLOBAL", "LOAD_NAME") and name in names:
                    reached, path = names[name], name
                elif operation == "IMPORT_NAME":
                    level = next((c for c in constants[-2:] if isinstance(c, int)), 0)
                    absolute = _absolute(name, level, str(names.get("__package__") or ""))
                    yield f"import {name}", library_or_sources(absolute)
            if isinstance(reached, ModuleType) and library_of(reached.__name__) is not None:
                yield path, reached
                reached, path = None, ""
            if operation in ("LOAD_CONST", "LOAD_SMALL_INT"):
                constants.append(name)
        if path:
            yield path, reached


def _nested(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those of the functions that it defines."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
