"""Greedy: always the best arm under the maximum likelihood estimate, without exploration."""

from typing import ClassVar

from glbandits.policies.contract import NonNegative, NonNegativeInt, PolicyInfo
from glbandits.policies.shared.refit_policy import FittedPolicy


class Greedy(FittedPolicy):
    """Pull the best arm under the estimate from all rewards, after a few random pulls.

    If contexts are diverse enough, they provide exploration, and greedy is hard to beat. With a fixed set of arms it
    can stay with a bad arm for ever. `FittedPolicy` implements choosing and learning. O(K d) to choose. O(t d) to
    learn, because each fit starts at the last estimate.

    Args:
        link: mu, any link.
        warm_up: the number of random pulls before the first estimate; 2 in published code.
        ridge: the ridge penalty of the fit.

    >>> from glbandits import Bandit
    >>> from glbandits.policies import Greedy
    >>> bandit = Bandit(Greedy(), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.probabilities([[0.2], [0.5]])
    array([0., 1.])
    """

    name: ClassVar[str] = "greedy"
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d", learn="t d", memory="t d", page="baselines",
        guarantee="none; low if contexts are diverse",
        use_when="contexts vary so much that no other exploration is needed",
    )  # fmt: skip

    warm_up: NonNegativeInt = 2
    ridge: NonNegative = 0.0
