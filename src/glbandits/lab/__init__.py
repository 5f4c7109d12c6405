"""The lab: bandit problems, simulated runs, comparisons of policies, and the experiments of the SGD-TS paper."""

from glbandits.common.extras import needed_for

with needed_for("glbandits.lab", "lab"):
    import joblib as _joblib  # noqa: F401
    import polars as _polars  # noqa: F401

from glbandits.lab.environments import (
    NOISES,
    ClassificationTable,
    ForestCover,
    News,
    Noise,
    Prices,
    Rounds,
    SparseHashed,
    SparseRounds,
    Synthetic,
    WithPayoffs,
    gaussian,
    write_simulated_news,
)
from glbandits.lab.experiments import (
    Experiment,
    ExperimentRunner,
    PolicyEntry,
    ResultStore,
    compare,
    results_table,
    summarise,
)
from glbandits.lab.simulation import play_together, recorded_rounds, simulate

__all__ = [
    "NOISES",
    "ClassificationTable",
    "Experiment",
    "ExperimentRunner",
    "ForestCover",
    "News",
    "Noise",
    "PolicyEntry",
    "Prices",
    "ResultStore",
    "Rounds",
    "SparseHashed",
    "SparseRounds",
    "Synthetic",
    "WithPayoffs",
    "compare",
    "gaussian",
    "play_together",
    "recorded_rounds",
    "results_table",
    "simulate",
    "summarise",
    "write_simulated_news",
]
