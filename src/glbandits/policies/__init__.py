"""One file an algorithm, and the table of them all."""

from glbandits.policies.epsilon_greedy import EpsilonGreedy
from glbandits.policies.glm_fp import GlmFp
from glbandits.policies.glm_tsl import GlmTsl
from glbandits.policies.gloc import Gloc
from glbandits.policies.gloc_ts import GlocTs
from glbandits.policies.laplace_ts import LaplaceTs
from glbandits.policies.lin_ts import LinTs
from glbandits.policies.lin_ucb import LinUcb
from glbandits.policies.online_laplace import OnlineLaplace
from glbandits.policies.policy import Policy, rebuild, settings_of
from glbandits.policies.sgd_ts import SgdTs
from glbandits.policies.sgd_ts_theory import TheoryConstants
from glbandits.policies.ucb_glm import UcbGlm
from glbandits.policies.uniform import Uniform

POLICIES: dict[str, type[Policy]] = {
    SgdTs.name: SgdTs,
    OnlineLaplace.name: OnlineLaplace,
    LaplaceTs.name: LaplaceTs,
    UcbGlm.name: UcbGlm,
    GlmTsl.name: GlmTsl,
    GlmFp.name: GlmFp,
    EpsilonGreedy.name: EpsilonGreedy,
    Gloc.name: Gloc,
    GlocTs.name: GlocTs,
    LinUcb.name: LinUcb,
    LinTs.name: LinTs,
    Uniform.name: Uniform,
}

__all__ = [
    "POLICIES",
    "EpsilonGreedy",
    "GlmFp",
    "GlmTsl",
    "Gloc",
    "GlocTs",
    "LaplaceTs",
    "LinTs",
    "LinUcb",
    "OnlineLaplace",
    "Policy",
    "SgdTs",
    "TheoryConstants",
    "UcbGlm",
    "Uniform",
    "rebuild",
    "settings_of",
]
