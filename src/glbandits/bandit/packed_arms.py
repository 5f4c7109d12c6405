"""The arms of a catalogue as float32 panels, kept up to date with it."""

import numpy as np

from glbandits.maths.arm_panels import WIDTH, Singles, pack_panels
from glbandits.records import Floats, Ints

ROOM = 1.125
"""Arms for which there is room, relative to those there are when all are packed."""
LARGEST_VALUE = 1000.0
"""The largest packed value; above it all arms are packed again in other units."""
AT_ONCE = 16
"""Panels that are packed at a time, so that the copies in between stay in the cache."""


class PackedArms:
    """Panels of arms, each feature in units of its largest absolute value when all arms were packed."""

    def __init__(self) -> None:
        self.generation = 0
        """How often all arms were packed, which changes units and panels."""
        self.panels: Singles
        self.norms: Floats
        """The norm of each arm in these units, with a constant of 1."""
        self.units: Floats
        """The units of the features, and 1 for the constant."""

    def update(self, features: Floats, changed: Ints) -> None:
        """Pack the rows that changed; all arms if there is no room, or if new values are large."""
        has_room = self.generation > 0 and len(features) <= len(self.norms)
        if has_room and (np.abs(features[changed]) <= LARGEST_VALUE * self.units[:-1]).all():
            for panel in np.unique(changed // WIDTH):
                self._pack(features, int(panel), int(panel) + 1)
            return
        largest = np.maximum(features.max(axis=0, initial=0.0), -features.min(axis=0, initial=0.0))
        self.units = np.append(np.where(largest > 0.0, largest, 1.0), 1.0)
        self.panels = pack_panels(np.zeros((-int(-ROOM * len(features) // WIDTH) * WIDTH, features.shape[1])))
        self.norms = np.ones(len(self.panels) * WIDTH)
        self.generation += 1
        for start in range(0, -(-len(features) // WIDTH), AT_ONCE):
            self._pack(features, start, start + AT_ONCE)

    def _pack(self, features: Floats, start: int, end: int) -> None:
        rows = padded_rows(features[start * WIDTH : end * WIDTH] / self.units[:-1])
        end = start + len(rows) // WIDTH
        self.panels[start:end] = pack_panels(rows)
        self.norms[start * WIDTH : end * WIDTH] = np.sqrt(1.0 + np.einsum("ij,ij->i", rows, rows))


def padded_rows(rows: Floats) -> Floats:
    """Rows with zeros behind them, up to a multiple of WIDTH."""
    missing = -len(rows) % WIDTH
    return rows if missing == 0 else np.concatenate([rows, np.zeros((missing, rows.shape[1]))])
