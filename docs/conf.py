"""Sphinx configuration of the documentation site: `make docs` builds it."""

import re
from importlib import metadata
from typing import Any

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
suppress_warnings = ["myst.header"]  # decision records begin with a heading of the second level
html_theme = "furo"
html_title = "glbandits"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["openapi.json"]
html_theme_options = {"sidebar_hide_name": False}
html_show_sphinx = False
templates_path = []
exclude_patterns = ["results.json"]

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
    for index, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(`[^`]*`)", line)
            parts[::2] = [re.sub(r"([|*])", r"\\\1", part) for part in parts[::2]]
            lines[index] = "".join(parts)


def setup(app: Any) -> None:
    """Register the hook."""
    app.connect("autodoc-process-docstring", escape_markdown, priority=400)
