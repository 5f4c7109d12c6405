"""Off-policy evaluation: estimate the value of policies from a log of another policy.

Sub-packages, from the lowest layer up: `logs` holds logs in memory, `readers` reads them from tables and files,
`models` fits reward and propensity models, `estimators` computes estimates and intervals, `learning` plays a log with
policies that learn. The modules of this package combine them: `evaluate`, `evaluate_slates` and `promotion`.
`policy_comparison` compares several candidates, and `report` writes the page about them.
"""

from glbandits.common.extras import needed_for

with needed_for("glbandits.evaluation", "lab"):
    import joblib as _joblib  # noqa: F401
    import polars as _polars  # noqa: F401

from glbandits.evaluation.estimators.anytime import AnytimeInterval
from glbandits.evaluation.estimators.estimator import Estimator, Interval
from glbandits.evaluation.estimators.frozen_target import FrozenTarget
from glbandits.evaluation.estimators.headline import DoublyRobustEstimate, Headline
from glbandits.evaluation.estimators.point_estimators import (
    ESTIMATORS,
    ClippedIps,
    DirectMethod,
    DoublyRobust,
    DrOptimisticShrinkage,
    Ips,
    SelfNormalisedDr,
    Snips,
    SwitchDr,
)
from glbandits.evaluation.estimators.results import Estimate, Evaluation
from glbandits.evaluation.estimators.support import ArmSupport, LargeWeights, Support
from glbandits.evaluation.estimators.targets import Target
from glbandits.evaluation.evaluate import evaluate
from glbandits.evaluation.evaluate_slates import SLATE_ESTIMATORS, SlateEstimate, SlateEvaluation, evaluate_slates
from glbandits.evaluation.learning.learning_curve import LearningCurve
from glbandits.evaluation.learning.play_log import play_log
from glbandits.evaluation.learning.train import train
from glbandits.evaluation.learning.tune import CandidateResult, TuningResult, tune
from glbandits.evaluation.logs.arm_features import ArmFeatures, CrossedArms, FixedArms, RowArmNames, RowArms
from glbandits.evaluation.logs.description import ArmSummary, ColumnSummary, LogDescription
from glbandits.evaluation.logs.log_slice import LogSlice, SelectedRows, split, with_reward
from glbandits.evaluation.logs.log_statistics import overlap_of
from glbandits.evaluation.logs.logged_data import Log, LoggedData
from glbandits.evaluation.logs.overlap import Overlap
from glbandits.evaluation.logs.schema import LogSchema
from glbandits.evaluation.logs.sparse_arms import SparseArms
from glbandits.evaluation.models.propensity_models import EstimatedPropensities, estimate_propensities
from glbandits.evaluation.models.reward_models import GlmReward, RewardModel, SklearnReward
from glbandits.evaluation.promotion import promotion
from glbandits.evaluation.promotion_result import Promotion, Verdict
from glbandits.evaluation.readers.columns import Columns
from glbandits.evaluation.readers.dsjson import DsjsonCounts, DsjsonLog, read_dsjson
from glbandits.evaluation.readers.open_bandit import read_open_bandit
from glbandits.evaluation.readers.open_log import open_log
from glbandits.evaluation.readers.service_export import ServiceExport, read_export
from glbandits.evaluation.readers.table_files import read_csv, read_json_lines, read_parquet
from glbandits.evaluation.readers.table_log import TableLog, read_table

__all__ = [
    "ESTIMATORS",
    "SLATE_ESTIMATORS",
    "AnytimeInterval",
    "ArmFeatures",
    "ArmSummary",
    "ArmSupport",
    "CandidateResult",
    "ClippedIps",
    "ColumnSummary",
    "Columns",
    "CrossedArms",
    "DirectMethod",
    "DoublyRobust",
    "DoublyRobustEstimate",
    "DrOptimisticShrinkage",
    "DsjsonCounts",
    "DsjsonLog",
    "Estimate",
    "EstimatedPropensities",
    "Estimator",
    "Evaluation",
    "FixedArms",
    "FrozenTarget",
    "GlmReward",
    "Headline",
    "Interval",
    "Ips",
    "LargeWeights",
    "LearningCurve",
    "Log",
    "LogDescription",
    "LogSchema",
    "LogSlice",
    "LoggedData",
    "Overlap",
    "Promotion",
    "RewardModel",
    "RowArmNames",
    "RowArms",
    "SelectedRows",
    "SelfNormalisedDr",
    "ServiceExport",
    "SklearnReward",
    "SlateEstimate",
    "SlateEvaluation",
    "Snips",
    "SparseArms",
    "Support",
    "SwitchDr",
    "TableLog",
    "Target",
    "TuningResult",
    "Verdict",
    "estimate_propensities",
    "evaluate",
    "evaluate_slates",
    "open_log",
    "overlap_of",
    "play_log",
    "promotion",
    "read_csv",
    "read_dsjson",
    "read_export",
    "read_json_lines",
    "read_open_bandit",
    "read_parquet",
    "read_table",
    "split",
    "train",
    "tune",
    "with_reward",
]
