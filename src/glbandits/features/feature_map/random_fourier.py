"""RandomFourier: a fixed random expansion, so that a linear model can learn curves."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import pi, sqrt
from typing import Any

import numpy as np
from scipy.special import ndtri

from glbandits.errors import InvalidInput, check_float, check_int
from glbandits.records import Floats, set_validated


@dataclass(frozen=True)
class RandomFourier:
    """Cosines in random directions of some columns (Rahimi and Recht, 2007).

    A linear model on them approximates one with a Gaussian kernel of these columns. All columns must be of the context,
    or all of the arm. The expansion is a function of the settings alone, the same on every machine.

    >>> RandomFourier(("age", "income"), features=3).name
    'fourier(age, income)'
    """

    columns: tuple[str, ...]
    features: int = 100
    scale: float = 1.0
    """The distance over which the reward changes, in standard deviations of the columns: smaller is more wiggly."""
    seed: int = 0
    _drawn: dict[int, tuple[Floats, Floats]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        given: Any = self.columns
        columns = (given,) if isinstance(given, str) else given
        if not isinstance(columns, Iterable) or not all(isinstance(name, str) for name in columns) or not columns:
            raise InvalidInput(f"columns must be names of columns, got {columns!r}")
        set_validated(self, columns=tuple(columns), scale=check_float("scale", self.scale, above=0))
        set_validated(self, features=check_int("features", self.features, at_least=1, at_most=100_000))
        set_validated(self, seed=check_int("seed", self.seed, at_least=0))

    @property
    def name(self) -> str:
        """The name by which crosses may use it."""
        return f"fourier({', '.join(self.columns)})"

    def feature_names(self) -> list[str]:
        """The names of the features."""
        return [f"{self.name}[{index}]" for index in range(self.features)]

    def expand(self, encoded: Floats) -> Floats:
        """The features of encoded columns, (n, width) to (n, features)."""
        width = encoded.shape[1]
        if width not in self._drawn:
            # Raw bits and the quantile function, because NumPy may change how it draws normal numbers.
            bits = np.random.Philox(self.seed).random_raw((width + 1) * self.features)
            shares = ((np.asarray(bits) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
            draws = shares.reshape(width + 1, self.features)
            self._drawn[width] = ndtri(draws[:width]) / self.scale, 2.0 * pi * draws[width]
        directions, phases = self._drawn[width]
        expanded: Floats = sqrt(2.0 / self.features) * np.cos(encoded @ directions + phases)
        return expanded
