"""The result of a tuning as JSON, for programs."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from glbandits.common.version import __version__
from glbandits.evaluation.replay.tune import CandidateResult, TuningResult
from glbandits.evaluation.report.record import write_json


def write_tuning_record(
    path: Path,
    tuned: TuningResult,
    settings: Sequence[str],
    *,
    level: float,
    log: str,
    policy: str,
    command: str,
    notes: Sequence[str],
) -> Path:
    """Write the result of `tune` as JSON, and return the path. Creates the folder if needed.

    Args:
        path: of the file.
        tuned: the result.
        settings: the names of the settings that were tuned.
        level: confidence level of the interval of the gain.
        log: the address of the log.
        policy: the policy as the user wrote it.
        command: the command line.
        notes: notes and warnings.
    """
    record = {
        "made_by": f"glbandits {__version__}",
        "command": command,
        "log": log,
        "policy": policy,
        "rows": tuned.rows,
        "unit": tuned.unit,
        "candidates": [_played_record(played, settings) for played in tuned.candidates],
        "chosen": _played_record(tuned.winner, settings),
        "untuned": _played_record(tuned.default, settings),
        "gain": tuned.gain,
        "gain_standard_error": tuned.gain_standard_error,
        "gain_interval": tuned.gain_interval(level),
        "level": level,
        "notes": [*notes],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_json(path, record)


def tuned_settings(played: CandidateResult, names: Iterable[str]) -> dict[str, Any]:
    """Return the values that a candidate has for the tuned settings."""
    return {name: getattr(played.policy, name) for name in names}


def _played_record(played: CandidateResult, names: Iterable[str]) -> dict[str, Any]:
    return {
        "settings": tuned_settings(played, names),
        "value": played.value,
        "standard_error": played.standard_error,
        "effective_sample_size": min(curve.effective_sample_size for curve in played.curves),
    }
