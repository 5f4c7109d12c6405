"""The content of the evaluation page as JSON, for programs."""

from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from glbandits.common.version import __version__
from glbandits.evaluation import ArmSupport, Estimate, Evaluation
from glbandits.evaluation.comparison_result import EvaluatedPolicy, PolicyComparison
from glbandits.evaluation.estimators.support import WEIGHT_EDGES, Support
from glbandits.evaluation.replay.learning_curve import LearningCurve

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
        "log": comparison.source,
        "rows": comparison.rows,
        "features": comparison.dim,
        "arm_names": comparison.arm_names,
        "questions": comparison.settings,
        "split_by_cluster": comparison.by_cluster,
        "verdict": comparison.verdict,
        "notes": comparison.notes,
        "reference": comparison.reference,
        "promotion": comparison.promotion,
        "weight_edges": WEIGHT_EDGES,
        "policies": [_policy(policy) for policy in comparison.policies],
        "unit": comparison.unit,
        "reward": comparison.reward,
        "guardrails": [] if comparison.groups is None else comparison.groups.record,
        "other_rewards": [as_record(other, command) for other in comparison.other_rewards],
    }


def _policy(policy: EvaluatedPolicy) -> JsonObject:
    evaluation = policy.evaluation
    return {
        "policy": policy.label,
        "learned_rows": policy.learned_rows,
        "left_out_rows": policy.left_out_rows,
        "log_mean": evaluation.logged,
        "log_standard_error": evaluation.logged_error,
        "no_evidence": evaluation.no_evidence,
        "headline": evaluation.headline,
        "estimates": [_estimate(estimate, evaluation) for estimate in evaluation.estimates],
        "running_at_rows": evaluation.at_rows,
        "support": _support(evaluation.support),
        "notes": [*evaluation.notes, *filter(None, [policy.learning_curve_note()])],
        "while_learning": None if policy.learning_curve is None else _curve(policy.learning_curve),
    }


def _estimate(estimate: Estimate, evaluation: Evaluation) -> JsonObject:
    return {
        "estimator": estimate.name,
        "value": estimate.value,
        "standard_error": estimate.standard_error,
        "more_than_log": estimate.value - evaluation.logged,
        "normal": estimate.normal,
        "running": estimate.running,
    }


def _support(support: Support) -> JsonObject:
    arms: ArmSupport | None = support.arms
    return {
        "rows": support.rows,
        "effective_sample_size": support.effective_sample_size,
        "effective_sample_size_kind": "expected" if support.expected else "realised",
        "large_weights": support.large_weights,
        "largest_weight": support.largest_weight,
        "mean_weight": support.mean_weight,
        "unused_share": support.unused,
        "unsupported_share": support.unsupported,
        "least_propensity": support.least_propensity,
        "weight_counts": support.weight_counts,
        "arms": None if arms is None else {"logged": arms.logged, "wanted": arms.wanted, "mean_rewards": arms.rewards},
    }


def _curve(curve: LearningCurve) -> JsonObject:
    return {
        "learn": curve.learn,
        "mean": curve.value,
        "standard_error": curve.standard_error,
        "rows": curve.events,
        "rows_that_count": curve.kept,
        "effective_sample_size": curve.effective_sample_size,
        "largest_weight": curve.largest_weight,
        "at_rows": curve.at_events,
        "at_means": curve.at_values,
        "at_standard_errors": curve.at_standard_errors,
    }
