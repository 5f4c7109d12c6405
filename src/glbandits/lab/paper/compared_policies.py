"""The seven policies that the paper compares, with its grids, and three that came later."""

from glbandits.lab.experiments.experiment import PolicyEntry
from glbandits.policies import (
    EpsilonGreedy,
    GlbOmd,
    GlmTsl,
    Gloc,
    LaplaceTs,
    OnlineLaplace,
    Optimist,
    SgdTs,
    SupCbGlm,
    UcbGlm,
)

LOGISTIC = {"link": "logistic"}


def paper_policies(horizon: int) -> tuple[PolicyEntry, ...]:
    """Return the paper's seven policies with its grids.

    Policies with a horizon setting get the horizon.
    """
    with_horizon = LOGISTIC | {"horizon": horizon}
    return (
        PolicyEntry(SgdTs, with_horizon),
        PolicyEntry(UcbGlm, with_horizon),
        PolicyEntry(GlmTsl, with_horizon),
        PolicyEntry(SupCbGlm, with_horizon),
        PolicyEntry(Gloc, LOGISTIC),
        PolicyEntry(LaplaceTs, LOGISTIC),
        PolicyEntry(EpsilonGreedy, LOGISTIC),
    )


def later_policies() -> tuple[PolicyEntry, ...]:
    """Return three policies that are not in the paper.

    `optimist` is not tuned, the others use their default grids.
    """
    return (PolicyEntry(Optimist, LOGISTIC), PolicyEntry(OnlineLaplace, LOGISTIC), PolicyEntry(GlbOmd, LOGISTIC))
