"""The seven policies that the paper compares, with its grids, and three that came later."""

from glbandits.experiments.experiment import PolicyEntry
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
    """The paper's seven, each on its grid. Policies with a setting for the horizon get it."""
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
    """Policies that the paper does not have: `optimist` has nothing to tune, the others play on their own grids."""
    return (PolicyEntry(Optimist, LOGISTIC), PolicyEntry(OnlineLaplace, LOGISTIC), PolicyEntry(GlbOmd, LOGISTIC))
