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

from glbandits.evaluation.estimators.frozen_target import FrozenTarget
from glbandits.evaluation.estimators.point_estimators import ESTIMATORS
from glbandits.evaluation.evaluate import evaluate
from glbandits.evaluation.evaluate_slates import evaluate_slates
from glbandits.evaluation.learning.play_log import play_log
from glbandits.evaluation.learning.train import train
from glbandits.evaluation.learning.tune import tune
from glbandits.evaluation.logs.arm_features import CrossedArms, FixedArms, RowArms
from glbandits.evaluation.logs.log_slice import split
from glbandits.evaluation.logs.logged_data import LoggedData
from glbandits.evaluation.logs.sparse_arms import SparseArms
from glbandits.evaluation.models.propensity_models import estimate_propensities
from glbandits.evaluation.models.reward_models import GlmReward, SklearnReward
from glbandits.evaluation.promotion import promotion
from glbandits.evaluation.readers.columns import Columns
from glbandits.evaluation.readers.open_log import open_log
from glbandits.evaluation.readers.table_files import read_csv, read_parquet
from glbandits.evaluation.readers.table_log import read_table

__all__ = [
    "ESTIMATORS",
    "Columns",
    "CrossedArms",
    "FixedArms",
    "FrozenTarget",
    "GlmReward",
    "LoggedData",
    "RowArms",
    "SklearnReward",
    "SparseArms",
    "estimate_propensities",
    "evaluate",
    "evaluate_slates",
    "open_log",
    "play_log",
    "promotion",
    "read_csv",
    "read_parquet",
    "read_table",
    "split",
    "train",
    "tune",
]
