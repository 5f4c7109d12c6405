"""Problems to play: rounds of arms, their expected rewards, and the noise of the reward."""

from glbandits.environments.environment import Environment
from glbandits.environments.noise import NOISES, Noise, gaussian
from glbandits.environments.synthetic import Synthetic

__all__ = ["NOISES", "Environment", "Noise", "Synthetic", "gaussian"]
