"""DOMD-GLB: GLB-OMD that forgets, for a theta* that changes (Lee and Oh, 2026)."""

import math
from typing import Annotated, Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Generator
from glbandits.compilation.numba_support import jittable
from glbandits.maths.cholesky import add_outer, factorise
from glbandits.maths.links import LinkFunctions
from glbandits.maths.vectors import copy_to
from glbandits.policies.contract import Bounds, NonNegative, PolicyInfo
from glbandits.policies.shared.glb_omd_policy import LEARNED, GlbOmdPolicy, factor_of

REWARDS_PER_DIMENSION = 16.0
"""The default half-life, in units of d + 1 rewards."""
DISCOUNTS = 8.0
"""How often H is discounted in a half-life."""

mirror_step = GlbOmdPolicy.learn


class DomdGlb(GlbOmdPolicy):
    """Pull the largest x'theta + beta ||x||_{H^-1}; update theta by online mirror descent with a discounted H.

    H loses old rewards: every m rewards it becomes gamma H + (1 - gamma) lambda I. The steps of theta then stay large
    enough to follow a theta* that changes, and the bonuses of arms that were not pulled for long grow again. theta
    itself is not shrunk. O(K d^2) to choose. O(d^2) to learn, and O(d^3) every m rewards and when theta leaves the
    ball. The state stores no observations.

    Args:
        half_life: the number of rewards after which the weight of a reward in H is halved. None uses 16 (d + 1). m is
            an eighth of it.

    The other settings are those of `GlbOmdPolicy`.

    >>> from glbandits import Bandit
    >>> from glbandits.policies import DomdGlb
    >>> bandit = Bandit(DomdGlb(half_life=2.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0]] * 100, [1.0] * 90 + [0.0] * 10)
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    2
    """

    name: ClassVar[str] = "domd-glb"
    compiled_settings: ClassVar[tuple[str, ...] | None] = (
        "exploration",
        "bound",
        "step",
        "prior_precision",
        "memory",
        "interval",
    )
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d^2", learn="d^2", memory="d^2",
        guarantee="d^(3/4) P^(1/4) T^(3/4), theta* moves by P",
        use_when="theta* keeps changing, or a proven bound for that is wanted",
    )  # fmt: skip

    exploration: NonNegative = 2.0
    half_life: Annotated[float, Bounds(at_least=1)] | None = None

    def memory(self, dim: int) -> float:
        """The half-life in rewards."""
        return REWARDS_PER_DIMENSION * (dim + 1) if self.half_life is None else self.half_life

    def interval(self, dim: int) -> float:
        """The number of rewards from one discount to the next."""
        return max(1.0, math.floor(self.memory(dim) / DISCOUNTS))

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Discount H if it is time, then take one step of mirror descent."""
        if state[LEARNED] % settings.interval == 0.0:
            share = math.exp(-math.log(2.0) * settings.interval / settings.memory)
            discount_factor(factor_of(state, x.shape[0]), share, (1.0 - share) * settings.prior_precision)
        return mirror_step(state, settings, x, reward, rng, link)


@jittable
def discount_factor(R: Floats, share: float, ridge: float) -> None:
    """Update R in place to the factor of share R'R + ridge I. O(d^3)."""
    A = np.zeros(R.shape)
    for k in range(R.shape[0]):
        add_outer(A, share, R[k])
    for i in range(R.shape[0]):
        A[i, i] += ridge
    factorise(A, ridge, R[0])
    for k in range(R.shape[0]):
        copy_to(R[k], A[k])
