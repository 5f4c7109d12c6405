"""Base class of GLM-FPL and EVILL: the scale of a random perturbation of the fit."""

from glbandits.policies.contract import PositiveInt, derived
from glbandits.policies.shared.refit_policy import FittedPolicy
from glbandits.policies.shared.shared_settings import ExplorationSettingsWithNoise


class PerturbedPolicy(FittedPolicy, ExplorationSettingsWithNoise):
    """A policy that pulls the best arm under a randomly perturbed fit of all rewards.

    The other settings are those of the base classes. exploration is the scale of the perturbation. None uses the
    theory's, which needs a horizon.

    Args:
        horizon: T. Used by the theory's scale only.
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
        """The scale that a posterior draw of theta needs in the norm of the Hessian."""
        return self.weighted_width(self.link, dim, self.horizon)
