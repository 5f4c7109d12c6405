"""What another policy would have earned, from the log of one that decided."""

from glbandits.evaluation.anytime import AnytimeInterval, AnytimeIntervals
from glbandits.evaluation.arm_features import ArmFeatures, CrossedArms, FixedArms, RowArms
from glbandits.evaluation.columns import Columns
from glbandits.evaluation.dsjson import DsjsonCounts, DsjsonLog, read_dsjson
from glbandits.evaluation.estimator import Estimator
from glbandits.evaluation.estimator_selection import Selection, SplitError, select_estimator
from glbandits.evaluation.estimators import (
    ESTIMATORS,
    ClippedIps,
    DirectMethod,
    DoublyRobust,
    DrOptimisticShrinkage,
    Ips,
    Mips,
    OffCem,
    Replay,
    SelfNormalisedDr,
    Snips,
    SwitchDr,
)
from glbandits.evaluation.evaluate import evaluate
from glbandits.evaluation.headline import DoublyRobustEstimate, Headline
from glbandits.evaluation.intervals import Interval
from glbandits.evaluation.large_weights import LargeWeights
from glbandits.evaluation.learning_curve import LearningCurve
from glbandits.evaluation.log_part import ClusterPart, LogPart, split
from glbandits.evaluation.logged_data import Log, LoggedData
from glbandits.evaluation.open_bandit import read_open_bandit
from glbandits.evaluation.opening import open_log
from glbandits.evaluation.overlap import Overlap, overlap_of
from glbandits.evaluation.progressive import play_log
from glbandits.evaluation.promotion import Promotion, Verdict, promotion
from glbandits.evaluation.propensities import EstimatedPropensities, estimate_propensities
from glbandits.evaluation.results import Estimate, Evaluation
from glbandits.evaluation.reward_models import GlmReward, RewardModel, SklearnReward
from glbandits.evaluation.slate_estimators import SLATE_ESTIMATORS, SlateEstimate, SlateEvaluation, evaluate_slates
from glbandits.evaluation.slate_tables import SlateColumns, read_slates
from glbandits.evaluation.slates import SlateLog
from glbandits.evaluation.sparse_arms import SparseArms
from glbandits.evaluation.support import ArmSupport, Support
from glbandits.evaluation.table_files import read_csv, read_json_lines, read_parquet
from glbandits.evaluation.tables import TableLog, read_table
from glbandits.evaluation.targets import Target
from glbandits.evaluation.training import train
from glbandits.evaluation.tuning import Played, Tuned, tune

__all__ = [
    "ESTIMATORS",
    "SLATE_ESTIMATORS",
    "AnytimeInterval",
    "AnytimeIntervals",
    "ArmFeatures",
    "ArmSupport",
    "ClippedIps",
    "ClusterPart",
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
    "GlmReward",
    "Headline",
    "Interval",
    "Ips",
    "LargeWeights",
    "LearningCurve",
    "Log",
    "LogPart",
    "LoggedData",
    "Mips",
    "OffCem",
    "Overlap",
    "Played",
    "Promotion",
    "Replay",
    "RewardModel",
    "RowArms",
    "Selection",
    "SelfNormalisedDr",
    "SklearnReward",
    "SlateColumns",
    "SlateEstimate",
    "SlateEvaluation",
    "SlateLog",
    "Snips",
    "SparseArms",
    "SplitError",
    "Support",
    "SwitchDr",
    "TableLog",
    "Target",
    "Tuned",
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
    "read_json_lines",
    "read_open_bandit",
    "read_parquet",
    "read_slates",
    "read_table",
    "select_estimator",
    "split",
    "train",
    "tune",
]
