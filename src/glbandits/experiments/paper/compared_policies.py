"""The seven algorithms that the paper compares, with its grids."""

from glbandits.experiments.experiment import PolicyEntry
from glbandits.policies import EpsilonGreedy, GlmTsl, Gloc, LaplaceTs, SgdTs, SupCbGlm, UcbGlm


def paper_policies(horizon: int) -> tuple[PolicyEntry, ...]:
    """Each on its grid; those that ask for the horizon are told it."""
    logistic = {"link": "logistic"}
    told = logistic | {"horizon": horizon}
    return (
        PolicyEntry(SgdTs, told),
        PolicyEntry(UcbGlm, told),
        PolicyEntry(GlmTsl, told),
        PolicyEntry(SupCbGlm, told),
        PolicyEntry(Gloc, logistic),
        PolicyEntry(LaplaceTs, logistic),
        PolicyEntry(EpsilonGreedy, logistic),
    )
