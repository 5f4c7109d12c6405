"""The same as the page tells, for programs: plain values that JSON can hold."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from glbandits.evaluation import ArmSupport, Estimate, Evaluation
from glbandits.evaluation.learning_curve import LearningCurve
from glbandits.evaluation.support import WEIGHT_EDGES, Support
from glbandits.experiments.log_study import Judged, LogStudy
from glbandits.version import __version__

Plain: TypeAlias = dict[str, Any]


def write_record(path: Path, study: LogStudy, command: str) -> Path:
    """Write all that was found as JSON."""
    return write_json(path, as_record(study, command))


def write_json(path: Path, values: Plain) -> Path:
    """Write plain values as JSON. A number that is not known is null."""
    text = json.dumps(_known(values), indent=1, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def as_record(study: LogStudy, command: str) -> Plain:
    """A study as plain values."""
    return {
        "made_by": f"glbandits {__version__}",
        "command": command,
        "log": study.source,
        "rows": study.rows,
        "features": study.dim,
        "arm_names": study.arm_names,
        "questions": asdict(study.questions),
        "split_by_cluster": study.by_cluster,
        "notes": study.notes,
        "promotion": None if study.promotion is None else asdict(study.promotion),
        "weight_edges": WEIGHT_EDGES.tolist(),
        "policies": [_judged(one) for one in study.judged],
    }


def _judged(one: Judged) -> Plain:
    evaluation = one.evaluation
    return {
        "policy": one.label,
        "learned_rows": one.learned,
        "first_row": one.first_row,
        "log_mean": evaluation.logged,
        "log_standard_error": evaluation.logged_error,
        "headline": None if evaluation.headline is None else asdict(evaluation.headline),
        "estimates": [_estimate(estimate, evaluation) for estimate in evaluation.estimates],
        "running_at_rows": evaluation.at_rows.tolist(),
        "support": _support(evaluation.support),
        "notes": [*evaluation.notes, *filter(None, [one.curve_note()])],
        "while_learning": None if one.curve is None else _curve(one.curve),
    }


def _estimate(estimate: Estimate, evaluation: Evaluation) -> Plain:
    return {
        "estimator": estimate.name,
        "value": estimate.value,
        "standard_error": estimate.standard_error,
        "more_than_log": estimate.value - evaluation.logged,
        "normal": estimate.normal,
        "running": estimate.running.tolist(),
    }


def _support(support: Support) -> Plain:
    arms: ArmSupport | None = support.arms
    return {
        "rows": support.rows,
        "effective_sample_size": support.effective_sample_size,
        "effective_sample_size_kind": "expected" if support.expected else "realised",
        "large_weights": None if support.large_weights is None else asdict(support.large_weights),
        "largest_weight": support.largest_weight,
        "mean_weight": support.mean_weight,
        "unused_share": support.unused,
        "unsupported_share": support.unsupported,
        "least_propensity": support.least_propensity,
        "weight_counts": support.weight_counts.tolist(),
        "arms": None
        if arms is None
        else {"logged": arms.logged.tolist(), "wanted": arms.wanted.tolist(), "mean_rewards": arms.rewards.tolist()},
    }


def _curve(curve: LearningCurve) -> Plain:
    return {
        "learn": curve.learn,
        "mean": curve.value,
        "standard_error": curve.standard_error,
        "rows": curve.events,
        "rows_that_count": curve.kept,
        "effective_sample_size": curve.effective_sample_size,
        "largest_weight": curve.largest_weight,
        "at_rows": curve.at_events.tolist(),
        "at_means": curve.at_values.tolist(),
        "at_standard_errors": curve.at_standard_errors.tolist(),
    }


def _known(value: Any) -> Any:
    """The same with None for every number that JSON has no word for."""
    if isinstance(value, dict):
        return {key: _known(inside) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [_known(inside) for inside in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value
