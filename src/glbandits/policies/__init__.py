"""The bandit algorithms, one per file, and `POLICIES`, the table of all of them by name."""

from glbandits.policies.ecolog import Ecolog
from glbandits.policies.epsilon_greedy import EpsilonGreedy
from glbandits.policies.evill import Evill
from glbandits.policies.glb_omd import GlbOmd
from glbandits.policies.glm_fp import GlmFp
from glbandits.policies.glm_fpl import GlmFpl
from glbandits.policies.glm_tsl import GlmTsl
from glbandits.policies.glm_ucb import GlmUcb
from glbandits.policies.gloc import Gloc
from glbandits.policies.gloc_ts import GlocTs
from glbandits.policies.greedy import Greedy
from glbandits.policies.laplace_ts import LaplaceTs
from glbandits.policies.lin_ts import LinTs
from glbandits.policies.lin_ucb import LinUcb
from glbandits.policies.lin_ucb_disjoint import LinUcbDisjoint, disjoint_arms
from glbandits.policies.lmc_ts import LmcTs
from glbandits.policies.ofuglb_e import OfuglbE
from glbandits.policies.online_laplace import OnlineLaplace
from glbandits.policies.optimist import Optimist
from glbandits.policies.pg_ts import PgTs
from glbandits.policies.rs_glincb import RsGlincb
from glbandits.policies.sgd_ts import SgdTs
from glbandits.policies.supcb_glm import SupCbGlm
from glbandits.policies.ucb_glm import UcbGlm
from glbandits.policies.uniform import Uniform
from glbandits.policy import Grid, Policy
from glbandits.policy_bases.sgd_ts_theory import TheoryConstants

LISTED: tuple[type[Policy], ...] = (
    Optimist, SgdTs, OnlineLaplace, LaplaceTs, UcbGlm, GlmUcb, SupCbGlm, GlmTsl, GlmFpl,
    GlmFp, Evill, PgTs, LmcTs, EpsilonGreedy, Greedy, Gloc, GlocTs, GlbOmd,
    Ecolog, RsGlincb, OfuglbE, LinUcb, LinTs, LinUcbDisjoint, Uniform,
)  # fmt: skip
"""In the order of docs/policies.md."""
POLICIES: dict[str, type[Policy]] = {kind.name: kind for kind in LISTED}

__all__ = [
    "POLICIES", "Ecolog", "EpsilonGreedy", "Evill", "GlbOmd", "GlmFp", "GlmFpl", "GlmTsl",
    "GlmUcb", "Gloc", "GlocTs", "Greedy", "Grid", "LaplaceTs", "LinTs", "LinUcb",
    "LinUcbDisjoint", "LmcTs", "OfuglbE", "OnlineLaplace", "Optimist", "PgTs", "Policy", "RsGlincb",
    "SgdTs", "SupCbGlm", "TheoryConstants", "UcbGlm", "Uniform", "disjoint_arms",
]  # fmt: skip
