"""What GLM-FPL and EVILL share: a fit with random numbers in it, and their scale."""

from glbandits.policy import PositiveInt, derived
from glbandits.policy_bases.confidence import Confidence
from glbandits.policy_bases.refit_policy import FittedPolicy


class PerturbedPolicy(FittedPolicy, Confidence):
    """The settings of a policy that plays the best arm under a perturbed fit of all rewards.

    They are those of its bases. exploration is the scale of the perturbation; None for the theory's, which needs a
    horizon.

    Args:
        horizon: T, for the theory's scale only.
    """

    horizon: PositiveInt | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scale(1)

    @derived
    def scale(self, dim: int) -> float:
        """The scale of the perturbation."""
        return self.exploration if self.exploration is not None else self.theory_scale(dim)

    def theory_scale(self, dim: int) -> float:
        """As wide as a draw of theta in the norm of the Hessian has to be."""
        return self.weighted_width(self.link, dim, self.horizon)
