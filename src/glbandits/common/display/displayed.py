"""How objects show themselves: `repr` as one line, and a small HTML table in notebooks.

Neither computes anything expensive or reads a file.
"""

from collections.abc import Mapping

from glbandits.common.display.data_table import DataTable

MAX_LENGTH = 200
"""Characters of a value. Longer texts are cut."""


class Displayed:
    """Base class of objects that show their class and a few named values.

    A dataclass that inherits from it needs `repr=False`.
    """

    def _values(self) -> Mapping[str, object]:
        """Return the values to show, by name."""
        raise NotImplementedError

    def __repr__(self) -> str:
        values = ", ".join(f"{name} {one_line(value)}" for name, value in self._values().items())
        return f"<{type(self).__name__}: {values}>"

    def _repr_html_(self) -> str:
        rows = [(name, one_line(value)) for name, value in self._values().items()]
        return DataTable((type(self).__name__, "value"), rows, ("value",)).to_html()


def percent(share: float) -> str:
    """Return a share as a percentage with all its digits.

    >>> percent(0.95), percent(0.999), percent(0.001), percent(0.29)
    ('95%', '99.9%', '0.1%', '29%')
    """
    return f"{100.0 * share:.10g}%"


def one_line(value: object) -> str:
    r"""Return a value as one short line of printable characters.

    >>> one_line(12000), one_line(0.123456789), one_line("a\nb")
    ('12,000', '0.12346', 'a?b')
    """
    text = f"{value:,}" if type(value) is int else f"{value:.5g}" if isinstance(value, float) else str(value)
    text = "".join(character if character.isprintable() else "?" for character in text[: MAX_LENGTH + 1])
    return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 1] + "…"
