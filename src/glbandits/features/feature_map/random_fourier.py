"""RandomFourier: random Fourier features, with which a linear model can learn curves."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import pi, sqrt
from typing import Any

import numpy as np
from scipy.special import ndtri

from glbandits.common.arrays import Floats, set_validated
from glbandits.common.errors import InvalidInput, check_float, check_int


@dataclass(frozen=True)
class RandomFourier:
    """Random Fourier features of some columns (Rahimi and Recht, 2007).

    They are cosines in random directions. A linear model on these features approximates a model with a Gaussian kernel
    of the columns. All columns must describe the context, or all must describe the arm. The features depend only on the
    settings, and are the same on every machine.

    >>> RandomFourier(("age", "income"), features=3).name
    'fourier(age, income)'
    """

    columns: tuple[str, ...]
    features: int = 100
    scale: float = 1.0
    """The length scale of the kernel: the distance over which the reward changes, in standard deviations."""
    seed: int = 0
    _weights: dict[int, tuple[Floats, Floats]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        columns: Any = self.columns
        if isinstance(columns, str):
            columns = (columns,)
        if not isinstance(columns, Iterable) or not all(isinstance(name, str) for name in columns) or not columns:
            raise InvalidInput(f"columns must be a list of column names; got {columns!r}")
        set_validated(self, columns=tuple(columns), scale=check_float("scale", self.scale, above=0))
        set_validated(self, features=check_int("features", self.features, at_least=1, at_most=100_000))
        set_validated(self, seed=check_int("seed", self.seed, at_least=0))

    @property
    def name(self) -> str:
        """The name of the expansion, which `crosses` may contain."""
        return f"fourier({', '.join(self.columns)})"

    def feature_names(self) -> list[str]:
        """The names of the features."""
        return [f"{self.name}[{index}]" for index in range(self.features)]

    def expand(self, encoded: Floats) -> Floats:
        """The features, (n, features), of encoded columns, (n, width)."""
        width = encoded.shape[1]
        if width not in self._weights:
            # Raw bits and the quantile function: the normal numbers of NumPy may differ between its versions.
            bits = np.random.Philox(self.seed).random_raw((width + 1) * self.features)
            uniforms = ((np.asarray(bits) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
            draws = uniforms.reshape(width + 1, self.features)
            self._weights[width] = ndtri(draws[:width]) / self.scale, 2.0 * pi * draws[width]
        directions, phases = self._weights[width]
        expanded: Floats = sqrt(2.0 / self.features) * np.cos(encoded @ directions + phases)
        return expanded
