"""One file an algorithm, and the table of them all."""

from glbandits.policies.policy import Policy, rebuild, settings_of
from glbandits.policies.sgd_ts import SgdTs
from glbandits.policies.sgd_ts_theory import TheoryConstants
from glbandits.policies.uniform import Uniform

POLICIES: dict[str, type[Policy]] = {
    SgdTs.name: SgdTs,
    Uniform.name: Uniform,
}

__all__ = ["POLICIES", "Policy", "SgdTs", "TheoryConstants", "Uniform", "rebuild", "settings_of"]
