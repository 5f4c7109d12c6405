"""GLB-OMD: UCB with online mirror descent (Zhang, Xu, Zhao and Sugiyama, 2025)."""

from typing import ClassVar

from glbandits.policies.contract import PolicyInfo
from glbandits.policies.shared.glb_omd_policy import GlbOmdPolicy


class GlbOmd(GlbOmdPolicy):
    """Pull the largest x'theta + beta ||x||_{H^-1}; update theta by online mirror descent.

    `GlbOmdPolicy` has the steps and all settings. O(K d^2) to choose. O(d^2) to learn, and O(d^3) when theta leaves the
    ball. The state stores no observations.

    >>> from glbandits import Bandit
    >>> from glbandits.policies import GlbOmd
    >>> bandit = Bandit(GlbOmd(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "glb-omd"
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d^2", learn="d^2", memory="d^2",
        guarantee="d sqrt(mu'* T)", use_when="constant cost and the best known guarantee are wanted",
    )  # fmt: skip
