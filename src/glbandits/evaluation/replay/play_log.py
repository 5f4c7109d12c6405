"""Progressive evaluation: what a policy that learns would have earned, from the log of another.

The rows of the log are offered to the policy in their order. There are two ways to go on.

- "matched" (Li, Chu, Langford and Wang, WSDM 2011): where the policy chooses as the log did, it learns the reward, and
  the row counts; all other rows are as if they had not been. If the log chose with equal probabilities, the rows that
  are left are like those that the policy would have met in the world. If it did not, a matched row is kept only with
  probability q/p, where p is its propensity and q the least of all: then every decision of the policy is met with the
  same probability q, whatever it is. That holds too where one row has more arms than another: of a log with equal
  probabilities, a row with K_i arms is kept with probability K_i / K. Otherwise rows with few arms, which match more
  often, would count too much.
- "all": the policy learns every row. Before it does, the row tells what the policy is worth by now: its reward, with
  the weight pi/p, where pi is the probability that the policy gives to the arm that the log chose. The value is that
  of a policy which learned from this log so far, not from its own decisions.
"""

import warnings
from collections.abc import Callable

from glbandits.errors import check_int
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.replay.learning_curve import Learn, LearningCurve
from glbandits.evaluation.replay.log_player import Rules, play_together
from glbandits.policies import Policy

ENOUGH = 100
"""With fewer rows that count there is a warning: a share of 0.5 is then known to 0.05 at best."""
MORE_ROWS = {
    "matched": 'learn="all", which leaves out no row that matches',
    "all": "exact=True, which weighs every row by the policy's exact probabilities where it has them",
}
"""What helps where few rows count."""


def play_log(
    policy: Policy,
    log: Log,
    seed: int,
    *,
    learn: Learn = "matched",
    exact: bool = False,
    least_propensity: float | None = None,
    points: int = 1000,
    progress: Callable[[int], None] | None = None,
) -> LearningCurve:
    """Offer the rows of a log to a policy that learns, in their order, and estimate what it would have earned.

    It makes the same choices as `Bandit(policy, log.dim, seed)` driven by hand. The log is read twice: once to check
    it, once to play.

    Args:
        policy: settings; one that wants a horizon wants the number of rows that it will learn.
        log: with propensities.
        seed: of the policy's own randomness, and of the choice of the rows that are kept.
        learn: "matched" keeps the rows where the policy agrees with the log, about least_propensity of all: use it to
            learn how the policy would fare from its first decision on. "all" learns every row: use it if few match.
        exact: with "all", weigh by the policy's exact probabilities where it has them, not by one decision of it a row.
            It is less spread out, and takes longer if a decision looks at few arms but the probabilities need all.
        least_propensity: q, for "matched"; the smallest of the log if None. A larger one keeps more rows, but those
            with a smaller propensity are then met too seldom. They get a larger weight for it, but what the policy
            learns from is no longer what it would have met.
        points: the estimate so far is recorded at most at so many places.
        progress: called with the number of rows just played.

    >>> import numpy as np
    >>> from glbandits import Uniform
    >>> from glbandits.evaluation import FixedArms, LoggedData, play_log
    >>> chosen = np.random.default_rng(1).integers(2, size=1000)
    >>> log = LoggedData(
    ...     chosen=chosen, rewards=chosen, propensities=np.full(1000, 0.5), arms=FixedArms(np.eye(2), rows=1000)
    ... )
    >>> curve = play_log(Uniform(), log, seed=1)
    >>> curve.events, curve.kept, round(curve.value, 2), round(curve.standard_error, 2)
    (1000, 509, 0.5, 0.02)
    """
    rules = Rules(learn=learn, exact=exact, least_propensity=least_propensity, points=points)
    seed = check_int("seed", seed, at_least=0)
    [[curve]] = play_together([policy], log, [seed], rules, progress)
    warn_if_few(curve, stacklevel=3)
    return curve


def warn_if_few(curve: LearningCurve, stacklevel: int) -> None:
    """Say so if the estimate rests on too few rows."""
    if curve.effective_sample_size < ENOUGH:
        warnings.warn(
            f"the value of {curve.policy.name} rests on {curve.effective_sample_size:.3g} of {curve.events} rows, "
            f"which says little. Use a longer log, or {MORE_ROWS[curve.learn]}",
            stacklevel=stacklevel,
        )
