"""The content of the evaluation page as JSON, for programs. Keys are the names of the attributes in Python."""

from dataclasses import fields
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from glbandits.common.version import __version__
from glbandits.evaluation.comparison_result import EvaluatedPolicy, PolicyComparison
from glbandits.evaluation.estimators.support import WEIGHT_EDGES
from glbandits.evaluation.learning.learning_curve import LearningCurve

JsonObject: TypeAlias = dict[str, Any]


def write_record(path: Path, comparison: PolicyComparison, command: str) -> Path:
    """Write a policy comparison as JSON; return the path."""
    return write_json(path, as_record(comparison, command))


def write_json(path: Path, values: JsonObject) -> Path:
    """Write values as JSON; return the path. Numbers that are not finite become null."""
    text = msgspec.json.encode(values, enc_hook=lambda array: array.tolist())
    path.write_bytes(msgspec.json.format(text, indent=1) + b"\n")
    return path


def as_record(comparison: PolicyComparison, command: str) -> JsonObject:
    """Return a policy comparison as values that JSON can hold."""
    return {
        "made_by": f"glbandits {__version__}",
        "command": command,
        **_fields(comparison, "groups"),
        "unit": comparison.unit,
        "verdict": comparison.verdict,
        "weight_edges": WEIGHT_EDGES,
        "policies": [_policy(policy) for policy in comparison.policies],
        "guardrails": [] if comparison.groups is None else comparison.groups.record,
        "other_rewards": [as_record(other, command) for other in comparison.other_rewards],
    }


def _policy(policy: EvaluatedPolicy) -> JsonObject:
    evaluation, curve = policy.evaluation, policy.learning_curve
    return {
        "label": policy.label,
        "learned_rows": policy.learned_rows,
        "left_out_rows": policy.left_out_rows,
        **_fields(evaluation, "arm_names"),
        "estimates": [{"name": one.name, **_fields(one, "estimator", "support")} for one in evaluation.estimates],
        "notes": [*evaluation.notes, *filter(None, [policy.learning_curve_note()])],
        "learning_curve": None if curve is None else _curve(curve),
    }


def _curve(curve: LearningCurve) -> JsonObject:
    return {"value": curve.value, "standard_error": curve.standard_error, **_fields(curve, "policy", "seed")}


def _fields(record: Any, *left_out: str) -> JsonObject:
    return {each.name: getattr(record, each.name) for each in fields(record) if each.name not in left_out}
