"""What another policy would have earned, from the log of one that decided."""

from glbandits.evaluation.arm_features import ArmFeatures, CrossedArms, FixedArms, RowArms
from glbandits.evaluation.estimators import (
    ESTIMATORS,
    ClippedIps,
    DirectMethod,
    DoublyRobust,
    DrOptimisticShrinkage,
    Estimator,
    Ips,
    Replay,
    SelfNormalisedDr,
    Snips,
    SwitchDr,
)
from glbandits.evaluation.evaluate import evaluate
from glbandits.evaluation.intervals import Interval
from glbandits.evaluation.learning_curve import LearningCurve
from glbandits.evaluation.log_part import LogPart
from glbandits.evaluation.logged_data import Log, LoggedData
from glbandits.evaluation.progressive import play_log
from glbandits.evaluation.results import Estimate, Evaluation
from glbandits.evaluation.reward_models import GlmReward, RewardModel, SklearnReward
from glbandits.evaluation.support import ArmSupport, Support
from glbandits.evaluation.targets import Target
from glbandits.evaluation.tuning import Played, Tuned, tune

__all__ = [
    "ESTIMATORS",
    "ArmFeatures",
    "ArmSupport",
    "ClippedIps",
    "CrossedArms",
    "DirectMethod",
    "DoublyRobust",
    "DrOptimisticShrinkage",
    "Estimate",
    "Estimator",
    "Evaluation",
    "FixedArms",
    "GlmReward",
    "Interval",
    "Ips",
    "LearningCurve",
    "Log",
    "LogPart",
    "LoggedData",
    "Played",
    "Replay",
    "RewardModel",
    "RowArms",
    "SelfNormalisedDr",
    "SklearnReward",
    "Snips",
    "Support",
    "SwitchDr",
    "Target",
    "Tuned",
    "evaluate",
    "play_log",
    "tune",
]
