"""The bandit algorithms, one per file, and `POLICIES`, the table of all of them by name."""

from glbandits.policies.algorithms.domd_glb import DomdGlb
from glbandits.policies.algorithms.epsilon_greedy import EpsilonGreedy
from glbandits.policies.algorithms.evill import Evill
from glbandits.policies.algorithms.glb_omd import GlbOmd
from glbandits.policies.algorithms.glm_fp import GlmFp
from glbandits.policies.algorithms.glm_fpl import GlmFpl
from glbandits.policies.algorithms.glm_tsl import GlmTsl
from glbandits.policies.algorithms.glm_ucb import GlmUcb
from glbandits.policies.algorithms.gloc import Gloc
from glbandits.policies.algorithms.gloc_ts import GlocTs
from glbandits.policies.algorithms.greedy import Greedy
from glbandits.policies.algorithms.laplace_ts import LaplaceTs
from glbandits.policies.algorithms.lin_ts import LinTs
from glbandits.policies.algorithms.lin_ucb import LinUcb
from glbandits.policies.algorithms.lin_ucb_disjoint import LinUcbDisjoint, disjoint_arms
from glbandits.policies.algorithms.lmc_ts import LmcTs
from glbandits.policies.algorithms.ofuglb_e import OfuglbE
from glbandits.policies.algorithms.online_laplace import OnlineLaplace
from glbandits.policies.algorithms.optimist import Optimist
from glbandits.policies.algorithms.pg_ts import PgTs
from glbandits.policies.algorithms.rs_glincb import RsGlincb
from glbandits.policies.algorithms.sgd_ts import SgdTs
from glbandits.policies.algorithms.supcb_glm import SupCbGlm
from glbandits.policies.algorithms.ucb_glm import UcbGlm
from glbandits.policies.algorithms.uniform import Uniform
from glbandits.policies.contract import Grid, Policy
from glbandits.policies.shared.sgd_ts_theory import TheoryConstants

LISTED: tuple[type[Policy], ...] = (
    Optimist, SgdTs, OnlineLaplace, LaplaceTs, UcbGlm, GlmUcb, SupCbGlm, GlmTsl, GlmFpl,
    GlmFp, Evill, PgTs, LmcTs, EpsilonGreedy, Greedy, Gloc, GlocTs, GlbOmd,
    DomdGlb, RsGlincb, OfuglbE, LinUcb, LinTs, LinUcbDisjoint, Uniform,
)  # fmt: skip
"""In the order of docs/policies.md."""
POLICIES: dict[str, type[Policy]] = {kind.name: kind for kind in LISTED}

__all__ = [
    "POLICIES", "DomdGlb", "EpsilonGreedy", "Evill", "GlbOmd", "GlmFp", "GlmFpl", "GlmTsl",
    "GlmUcb", "Gloc", "GlocTs", "Greedy", "Grid", "LaplaceTs", "LinTs", "LinUcb",
    "LinUcbDisjoint", "LmcTs", "OfuglbE", "OnlineLaplace", "Optimist", "PgTs", "Policy", "RsGlincb",
    "SgdTs", "SupCbGlm", "TheoryConstants", "UcbGlm", "Uniform", "disjoint_arms",
]  # fmt: skip
