"""Greedy: the best arm under maximum likelihood, and no exploration at all."""

from typing import ClassVar

from glbandits.policy import NonNegative, NonNegativeInt, PolicyInfo
from glbandits.policy_bases.refit_policy import FittedPolicy


class Greedy(FittedPolicy):
    """After a few random pulls, always the best arm under the estimate from all rewards.

    Where contexts are diverse enough they explore by themselves, and greedy play is hard to beat; with a fixed set of
    arms it can stay with a bad one for ever. O(K d) to choose, O(t d) to learn, from a warm start: choosing and
    learning are all `FittedPolicy`'s.

    Args:
        link: mu, any link.
        warm_up: pulls at random before the first estimate; the published code's 2.
        ridge: penalty of the fit.

    >>> from glbandits import Bandit, Greedy
    >>> bandit = Bandit(Greedy(), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.probabilities([[0.2], [0.5]])
    array([0., 1.])
    """

    name: ClassVar[str] = "greedy"
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d", learn="t d", memory="t d",
        guarantee="none; low if contexts are diverse",
        use_when="contexts vary so much that they explore by themselves",
    )  # fmt: skip

    warm_up: NonNegativeInt = 2
    ridge: NonNegative = 0.0
