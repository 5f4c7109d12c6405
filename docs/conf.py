"""Sphinx configuration of the documentation site: `make docs` builds it."""

import importlib
import inspect
import re
from importlib import metadata
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike
from sphinx.util import logging
from sphinx.util.typing import stringify_annotation

LOGGER = logging.getLogger(__name__)
ARRAY_LIKE = stringify_annotation(ArrayLike, "smart")
ARRAY = r"~numpy\.ndarray\[tuple\[~typing\.Any, \.\.\.\], ~numpy\.dtype\[[\w~.]+\]\]"
PUBLIC = ["glbandits"] + [
    f"glbandits.{name}"
    for name in (
        "policies", "features", "evaluation", "lab", "routing", "service", "service.client",
    )
]  # fmt: skip

project, author, copyright = "glbandits", "The glbandits authors", "The glbandits authors"  # noqa: A001
release = metadata.version("glbandits")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "sphinx_design",
]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["ref.python"]  # `dim` in a docstring is no reference
html_theme = "furo"
html_title = "glbandits"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["openapi.json"]
html_search_scorer = str(Path(__file__).parent / "search_scorer.js")
html_theme_options = {"sidebar_hide_name": False}
html_show_sphinx = False
templates_path = []
exclude_patterns = ["results.json", "decisions"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
autodoc_default_options = {"imported-members": True}
default_role = "code"
napoleon_google_docstring, napoleon_numpy_docstring = True, False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True


def escape_markdown(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Escape what reStructuredText would read as markup in docstrings, outside code and examples."""
    in_block = in_example = False
    for index, line in enumerate(lines):
        in_block = in_block and (not line or line.startswith("    "))
        in_example = bool(line.strip()) and (in_example or line.lstrip().startswith(">>>"))
        if not in_block and not in_example:
            parts = re.split(r"(`[^`]*`)", line)
            parts[::2] = [re.sub(r"([|*])", r"\\\1", part) for part in parts[::2]]
            lines[index] = re.sub(r"^(\s+\w+: [A-Za-z])\. ", r"\1\\. ", "".join(parts))  # "c. None" is no list item
        in_block = in_block or line.endswith("::")


def shorten_signature(
    _app: Any, what: str, _name: str, obj: Any, _options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Shorten the types of arrays, and leave out types with bounds: the attributes of the class show them."""
    if what == "class" and "Annotated[" in (signature or ""):
        parameters = inspect.signature(obj).parameters.values()
        texts = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters]
        return f"({', '.join(texts)})", None
    return shorten_types(signature), shorten_types(returns)


def shorten_types(text: str | None) -> str | None:
    """Write ArrayLike for what NumPy accepts as an array, and ndarray for an array of numbers of any type."""
    return text and re.sub(ARRAY, "~numpy.ndarray", text.replace(ARRAY_LIKE, "ArrayLike"))


def remove_generated_text(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Remove the docstring that Python gives to fields of named tuples."""
    if lines and lines[0].startswith("Alias for field number"):
        lines.clear()


def check_public_names(_app: Any, env: Any) -> None:
    """Warn about every public name that no page of the reference documents; `make docs` then fails."""
    documented = set(env.get_domain("py").objects)
    for package in PUBLIC:
        for name in importlib.import_module(package).__all__:
            if f"{package}.{name}" not in documented and not any(name == full.split(".")[-1] for full in documented):
                LOGGER.warning("%s.%s is public but not in the API reference", package, name)


def setup(app: Any) -> None:
    """Register the hooks."""
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("autodoc-process-docstring", remove_generated_text, priority=300)
    app.connect("autodoc-process-docstring", escape_markdown, priority=400)
    app.connect("env-check-consistency", check_public_names)
