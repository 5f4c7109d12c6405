"""The arms of a catalogue as float32 panels."""

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.maths.arm_panels import WIDTH, Singles, pack_panels

CAPACITY = 1.125
"""The capacity of new panels, relative to the number of arms."""
LARGEST_VALUE = 1000.0
"""The largest value in units of a feature. A larger one makes `update` pack all arms in new units."""
CHUNK = 16
"""Panels that are packed at a time, so that temporary arrays stay in the CPU cache."""


class PackedArms:
    """Panels of arms, as `maths.arm_panels` takes them.

    The unit of a feature is its largest absolute value at the time when all arms were last packed.
    """

    def __init__(self) -> None:
        self.generation = 0
        """The number of times that all arms were packed. Each time replaces the units and the panels."""
        self.panels: Singles
        self.norms: Floats
        """The norm of (x, 1) for each arm x in these units."""
        self.units: Floats
        """The units of the features, and 1 for the constant."""
        self.largest: Floats
        """An upper bound of the absolute value of each feature."""

    def update(self, features: Floats, changed: Ints) -> None:
        """Pack the changed rows, or all arms if the capacity is too small or a value is above LARGEST_VALUE."""
        has_capacity = self.generation > 0 and len(features) <= len(self.norms)
        if has_capacity and (np.abs(features[changed]) <= LARGEST_VALUE * self.units[:-1]).all():
            for panel in np.unique(changed // WIDTH):
                self._pack(features, int(panel), int(panel) + 1)
            self.largest = np.maximum(self.largest, np.abs(features[changed]).max(axis=0, initial=0.0))
            return
        self.largest = np.maximum(features.max(axis=0, initial=0.0), -features.min(axis=0, initial=0.0))
        self.units = np.append(np.where(self.largest > 0.0, self.largest, 1.0), 1.0)
        self.panels = pack_panels(np.zeros((-int(-CAPACITY * len(features) // WIDTH) * WIDTH, features.shape[1])))
        self.norms = np.ones(len(self.panels) * WIDTH)
        self.generation += 1
        for start in range(0, -(-len(features) // WIDTH), CHUNK):
            self._pack(features, start, start + CHUNK)

    def _pack(self, features: Floats, start: int, end: int) -> None:
        rows = padded_rows(features[start * WIDTH : end * WIDTH] / self.units[:-1])
        end = start + len(rows) // WIDTH
        self.panels[start:end] = pack_panels(rows)
        self.norms[start * WIDTH : end * WIDTH] = np.sqrt(1.0 + np.einsum("ij,ij->i", rows, rows))


def padded_rows(rows: Floats) -> Floats:
    """Return the rows with rows of zeros appended, up to a multiple of WIDTH."""
    padding = -len(rows) % WIDTH
    return rows if padding == 0 else np.concatenate([rows, np.zeros((padding, rows.shape[1]))])
