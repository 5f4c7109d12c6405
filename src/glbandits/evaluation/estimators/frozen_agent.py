"""FrozenAgent: an agent that decides and does not learn."""

import numpy as np

from glbandits.bandit import Bandit
from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput, check_bool
from glbandits.evaluation.estimators.frozen_target import FrozenTarget
from glbandits.evaluation.logs.logged_data import LoggedData
from glbandits.evaluation.logs.sparse_arms import arms_between, packed_arms
from glbandits.policies.agents import PlayingAgent, read_only_rows


def frozen(learner: Bandit | PlayingAgent, seed: int = 0, *, explore: bool = True) -> "FrozenTarget | FrozenAgent":
    """Return a target that decides as this Bandit or agent does, and does not learn."""
    if isinstance(learner, PlayingAgent):
        if not check_bool("explore", explore):
            raise InvalidInput(
                f"agent {learner.name} decides by its own rule, so it cannot be evaluated without exploration. Leave "
                "it out, or use a policy",
                field="explore",
            )
        return FrozenAgent(learner)
    return FrozenTarget(learner, seed, explore=explore)


class FrozenAgent:
    """An agent that does not learn during the evaluation.

    Without a method `probabilities`, one decision is drawn for each row and gets probability 1, as for a policy without
    exact probabilities.
    """

    def __init__(self, agent: PlayingAgent) -> None:
        self._agent = agent

    def probabilities(self, block: LoggedData, first_row: int) -> Floats:
        """Return the probability of each arm in each row of a block, (m, max_arms)."""
        if block.values is not None:
            raise InvalidInput(
                f"agent {self._agent.name} chooses without values and costs, but the log has them. Read the log "
                "without payoffs, or use a policy"
            )
        given = np.zeros((len(block), block.arms.max_arms))
        (packed, starts), counts = packed_arms(block.arms), block.arms.counts
        for i in range(len(block)):
            start, count = int(starts[i]), int(counts[i])
            arms = read_only_rows(arms_between(packed, start, start + count), block.dim)
            if self._agent.has_probabilities:
                given[i, :count] = self._agent.probabilities(arms, first_row + i)
            else:
                given[i, self._agent.choose(arms, first_row + i)] = 1.0
        return given
