"""The seven algorithms that the paper compares, with its grids."""

from glbandits.experiments.contest import Contestant
from glbandits.policies import EpsilonGreedy, GlmTsl, Gloc, LaplaceTs, SgdTs, SupCbGlm, UcbGlm


def the_seven(horizon: int) -> tuple[Contestant, ...]:
    """Each on its grid; those that ask for the horizon are told it."""
    logistic = {"link": "logistic"}
    told = logistic | {"horizon": horizon}
    return (
        Contestant(SgdTs, told),
        Contestant(UcbGlm, told),
        Contestant(GlmTsl, told),
        Contestant(SupCbGlm, told),
        Contestant(Gloc, logistic),
        Contestant(LaplaceTs, logistic),
        Contestant(EpsilonGreedy, logistic),
    )
