"""A small log with known mean rewards, and a comparison of five candidates on it."""

import os
from functools import cache
from unittest.mock import patch

import numpy as np

from glbandits import Bandit, Optimist, SgdTs
from glbandits.evaluation import CrossedArms, LoggedData
from glbandits.evaluation.estimators.targets import AlwaysTarget, UniformTarget
from glbandits.evaluation.policy_comparison import Candidate, ComparisonSettings, PolicyComparison, compare_policies

ROWS, ARMS = 1024, ("old", "new", "<b>odd & long name of an arm</b>")
VALUES = np.array([0.2, 0.6, 0.4])
PROBABILITIES = np.array([0.5, 0.2, 0.3])


@cache
def small_log() -> LoggedData:
    """Three arms whose mean rewards do not depend on the context, logged with different probabilities."""
    rng = np.random.default_rng(5)
    chosen = rng.choice(3, size=ROWS, p=PROBABILITIES)
    return LoggedData(
        chosen=chosen,
        rewards=(rng.random(ROWS) < VALUES[chosen]).astype(np.float64),
        propensities=PROBABILITIES[chosen],
        arms=CrossedArms(rng.normal(size=(ROWS, 1)), np.eye(3)),
        link="logistic",
        arm_names=ARMS,
    )


@cache
def small_comparison() -> PolicyComparison:
    """Compare two policies that learn, two fixed targets, and a model that learned elsewhere."""
    log = small_log()
    candidates: dict[str, Candidate] = {
        "optimist": Optimist(link="logistic"),
        "sgd-ts:step=0.5": SgdTs(link="logistic", step=0.5),
        "arm:new": AlwaysTarget(1),
        "uniform": UniformTarget(),
        "a <model>": Bandit(Optimist(link="logistic"), log.dim, seed=3),
    }
    settings = ComparisonSettings(estimators=("snips", "dr", "dm"))
    with patch.dict(os.environ, {"GLBANDITS_COMPILE": "never"}):  # compiling two policies would take half a minute
        return compare_policies(log, candidates, settings, source="tiny & <small>.parquet")
