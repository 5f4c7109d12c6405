"""play_log: estimate the mean reward of a policy that learns (progressive validation).

The policy gets the rows of the log in their order. There are two ways to learn:

- "matched" (Li, Chu, Langford and Wang, WSDM 2011): if the policy chooses the logged arm, it learns the reward and the
  row counts. All other rows are ignored. If the logging policy chose uniformly, the remaining rows have the
  distribution that the policy would meet online. If not, a matched row is kept only with probability q/p, where p is
  its propensity and q the smallest propensity. Then each decision of the policy is observed with the same probability
  q. This also holds if the number of arms differs between rows: in a uniform log, a row with K_i arms is kept with
  probability K_i / K. Without thinning, rows with few arms, which match more often, would be overrepresented.
- "all": the policy learns every row. Before that, the reward of the row is counted with the weight pi/p, where pi is
  the probability that the policy gives to the logged arm. The value is that of a policy which has learned from this log
  so far, not from its own decisions.

All rows count the same, however old they are. A policy that forgets has a setting for it, such as
`Optimist(half_life=...)`.
"""

import warnings
from collections.abc import Callable
from contextlib import nullcontext

from glbandits.common.display.progress_lines import progress_lines
from glbandits.common.errors import check_int
from glbandits.evaluation.estimators.support import MIN_SAMPLE_SIZE
from glbandits.evaluation.learning.learning_curve import Learn, LearningCurve
from glbandits.evaluation.learning.log_player import play_policies, policy_for_log
from glbandits.evaluation.learning.players import PlaySettings
from glbandits.evaluation.logs.logged_data import Log
from glbandits.policies.agents import AgentFactory, PolicyLike

ADVICE = {
    "matched": 'learn="all", which uses all matched rows',
    "all": "exact=True, which uses exact probabilities of the policy, if it has them",
}
"""Advice if few rows count, by the way to learn."""


def play_log(
    policy: PolicyLike,
    log: Log,
    seed: int,
    *,
    learn: Learn = "matched",
    exact: bool = False,
    least_propensity: float | None = None,
    points: int = 1000,
    progress: Callable[[int], None] | None = None,
) -> LearningCurve:
    """Play a log with a policy that learns, and estimate its mean reward.

    A policy makes the same choices as `Bandit(policy, log.dim, seed)`. The log is read twice: to check it, and to
    play it.

    Args:
        policy: a policy with its settings, or the name of a policy, or a class or function that makes agents
            (`glbandits.Agent`). A horizon must be the number of rows that it will learn.
        log: a log with propensities.
        seed: seed of the random numbers of the policy and of the thinning.
        learn: "matched" learns rows where the policy chooses the logged arm, about a share `least_propensity` of all.
            It estimates the reward of the policy from its first decision on. "all" learns every row: use it if few
            rows match.
        exact: with "all", use exact probabilities of the policy, if it has them, instead of one decision per row. The
            variance is smaller. It takes longer if a decision needs only some of the arms.
        least_propensity: q, for "matched"; by default the smallest propensity of the log. A larger value keeps more
            rows, but rows with a smaller propensity are underrepresented. A larger weight corrects the estimate, but
            the policy no longer learns from the rows that it would meet online.
        points: maximum number of points of the learning curve.
        progress: called with the number of rows just played. By default it prints lines as in `train`.

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
    rules = PlaySettings(learn=learn, exact=exact, least_propensity=least_propensity, points=points)
    seed = check_int("seed", seed, at_least=0)
    played, done = policy_for_log(policy), 0

    def report(rows: int) -> None:
        nonlocal done
        done += rows

    how = " as plain Python" if isinstance(played, AgentFactory) else ""
    lines = progress_lines(lambda: f"{played.name} plays the log{how}: {done / len(log):.0%}")
    with nullcontext() if progress is not None else lines:
        [[curve]] = play_policies([played], log, [seed], rules, progress or report)
    warn_if_few_rows(curve, stacklevel=3)
    return curve


def warn_if_few_rows(curve: LearningCurve, stacklevel: int) -> None:
    """Warn if the effective sample size is below `MIN_SAMPLE_SIZE`."""
    if curve.effective_sample_size < MIN_SAMPLE_SIZE:
        warnings.warn(
            f"the effective sample size of {curve.policy.name} is only {curve.effective_sample_size:.3g} of "
            f"{curve.events} rows: its value is unreliable. Use a longer log, or {ADVICE[curve.learn]}",
            stacklevel=stacklevel,
        )
