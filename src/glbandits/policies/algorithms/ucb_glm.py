"""UCB-GLM: maximum likelihood with a bonus on the score (Li, Lu and Zhou, 2017)."""

from typing import Any, ClassVar

from glbandits.common.arrays import Floats, Generator
from glbandits.maths.cholesky import rank_one_update
from glbandits.maths.links import LinkFunctions
from glbandits.maths.posteriors.gaussian_posterior import score_with_bonus
from glbandits.policies.contract import Grid, NonNegative, PolicyInfo
from glbandits.policies.shared.mle_policy import MlePolicy, factor_of, remember_and_fit, theta_of
from glbandits.policies.shared.shared_settings import EXPLORATIONS, FACTORS


class UcbGlm(MlePolicy):
    """Pull the largest x'theta_hat + alpha ||x||_{V^-1}, with theta_hat the MLE.

    1. Pull tau arms at random.
    2. Each round: theta_hat = maximum likelihood estimate from all rewards. Pull the arm; the bonus is added to the
       score, not to the expected reward. V += xx', not weighted by the slope of the link.

    The settings are those of `MlePolicy`. exploration is alpha. O(K d^2) to choose, O(t d) to learn.

    >>> from glbandits import Bandit
    >>> from glbandits.policies import UcbGlm
    >>> bandit = Bandit(UcbGlm(warm_up=2, exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "ucb-glm"
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS, "warm_up_factor": FACTORS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d^2", learn="t d", memory="t d",
        guarantee="d sqrt(T), contexts drawn independently",
        use_when="a deterministic rule, if there is time for an exact fit each round",
    )  # fmt: skip

    exploration: NonNegative = 3.0

    @staticmethod
    def index(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> None:
        """Write the upper confidence bound of each arm."""
        dim = arms.shape[1]
        score_with_bonus(arms, theta_of(state, dim), factor_of(state, dim), settings.exploration, out)

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Store the reward, refit theta_hat, and update V."""
        state = remember_and_fit(state, settings, x, reward, link)
        rank_one_update(factor_of(state, x.shape[0]), 1.0, x)
        return state
