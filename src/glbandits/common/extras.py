"""Optional dependencies: an import that fails names the extra that installs the module."""

from collections.abc import Iterator
from contextlib import contextmanager

from glbandits.common.errors import MissingExtra

PROJECTS = {
    "prometheus_client": "prometheus-client",
    "psycopg_pool": "psycopg-pool",
    "sklearn": "scikit-learn",
    "vl_convert": "vl-convert-python",
}
"""Names of projects that differ from the names of their modules."""


@contextmanager
def needed_for(what: str, extra: str, *, alternative: str = "", outermost: bool = False) -> Iterator[None]:
    """Raise MissingExtra if an import inside the `with` block does not find its module.

    Args:
        what: what needs the module, as the subject of the message.
        extra: the extra of the package that installs the module.
        alternative: what to do instead of installing it.
        outermost: whether this message replaces that of a `needed_for` inside the block.

    >>> with needed_for("plot()", "lab"):
    ...     raise ModuleNotFoundError(name="altair")
    Traceback (most recent call last):
    glbandits.common.errors.MissingExtra: plot() needs altair. In a clone of glbandits, run pip install '.[lab]'.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module == __name__.partition(".")[0] or (isinstance(error, MissingExtra) and not outermost):
            raise
        how = install_command(extra) + (f", or {alternative}" if alternative else "")
        raise MissingExtra(f"{what} needs {PROJECTS.get(module, module)}. {how}.", name=error.name) from None


def install_command(extra: str) -> str:
    """Return the sentence, without its period, that says how to install an extra. The package is on no index."""
    return f"In a clone of glbandits, run pip install '.[{extra}]'"
