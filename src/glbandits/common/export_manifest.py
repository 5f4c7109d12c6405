"""The manifest of an export: the list of its files. The service writes it, and the evaluation reads it."""

from pathlib import Path
from typing import Any

import msgspec

from glbandits.common.errors import InvalidInput

MANIFEST = "manifest.json"
METRIC = "metric:"
"""The columns of metrics have this prefix before the name of the metric."""


class ExportedFile(msgspec.Struct, frozen=True):
    """An entry of the manifest: a file with its number of rows and the hash of its content."""

    name: str
    rows: int
    sha256: str


class RunningPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What decides in a loop at the time of the export."""

    text: str
    """The policy with its settings, such as `optimist:half_life=1000.0`. The link is separate."""
    link: str
    exploration: float
    """The share of decisions that are uniformly random."""
    reward_range: tuple[float, float] | None
    """The smallest and the largest reward; None if unbounded."""


class ComparedMetric(msgspec.Struct, frozen=True):
    """A metric by which the loop compares treatment with control."""

    settings: dict[str, Any]
    """Range, direction, combination, window, default, margin and action, as in the settings of the loop."""
    units: int
    """Units that the loop has counted. If the export has fewer, the others were deleted from the log."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The list of exported files. It is written last, so an export with a manifest is complete."""

    loop: str
    rows: int
    left_out: int
    """Decisions without a reward or features, such as deferred ones that were never activated."""
    last_sequence: int = msgspec.field(name="last_number")
    """The sequence number of the last decision that was read; 0 if there was none."""
    open: int = 0
    """Decisions that were not read, from the first one on whose reward window was open."""
    files: list[ExportedFile]
    sparse_width: int | None = None
    """The number of possible features, if the rows are sparse."""
    feature_map: dict[str, Any] | None = None
    """The feature map of the present model, as `FeatureMap.document` returns it; None if fields are hashed."""
    running: RunningPolicy | None = None
    units: ExportedFile | None = None
    """The file with the units of treatment and control; None if the loop has not counted any."""
    metrics: dict[str, ComparedMetric] = {}


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of an export. Raises InvalidInput if there is none, or if it is damaged."""
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{folder} has no complete export of `glb store export` ({type(error).__name__}: {error}). "
            "Export the log again"
        ) from None
