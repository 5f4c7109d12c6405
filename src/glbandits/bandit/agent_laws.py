"""The laws that every agent must obey: those of policies that apply to any Python object.

A law is a function of an `AgentSubject`. It raises InvalidInput if the agents break the law.
"""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from glbandits.bandit.policy_trials import ROUNDS, counts_agree, hard_problems, numbers_text, ordinary_rounds
from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.maths.sparse_rows import as_sparse_rows
from glbandits.policies.agents import KEEP_APART, AgentFactory, PlayingAgent, read_only_rows

REWARDS = (0.0, 1.0)
SIZES = (1e-6, 1.0, 1e3)
"""Sizes of the features of hard problems. Those of policies are larger: a service must bear them."""
DRAWS = 1000
"""Choices that are compared with probabilities. Policies, which are faster, make more."""
DRAW_FROM_RNG = (
    "Draw random numbers only from the argument `rng` of choose, and give libraries a fixed seed, such as "
    "random_state=0."
)


class AgentSubject(NamedTuple):
    """What makes agents, and the number and form of the features with which they are tested."""

    agents: AgentFactory
    dim: int
    sparse: bool = False

    def player(self, seed: int = 1, problem: str = "") -> PlayingAgent:
        """A new agent, which names the problem in its errors."""
        return PlayingAgent(self.agents.new(self.dim), self.agents.name, seed, rows=f"{problem}round")

    def rounds(self) -> Iterator[tuple[int, Floats, float]]:
        """Yield number, arms and reward of each round of a trial."""
        for t, (arms, reward) in enumerate(ordinary_rounds(self.dim, REWARDS, ROUNDS)):
            yield t + 1, arms, reward

    def rows(self, arms: Floats) -> Any:
        """The arms as an agent gets them."""
        return read_only_rows(as_sparse_rows(arms, self.dim) if self.sparse else arms, self.dim)

    def play(self, player: PlayingAgent, t: int, arms: Floats, reward: float) -> int:
        """Let the agent choose and learn. Returns the index of the arm."""
        arm = player.choose(self.rows(arms), t)
        x = self.rows(arms[arm : arm + 1])
        player.learn(x if self.sparse else x[0], reward, t)
        return arm

    def choices(self, problem: str = "") -> list[int]:
        """The arms that a new agent chooses in a trial."""
        player = self.player(problem=problem)
        return [self.play(player, *each) for each in self.rounds()]


def choose_and_learn_work(subject: AgentSubject) -> None:
    """`choose` returns an index for 1 to 9 arms, `learn` takes rewards, and neither changes the features."""
    subject.choices()


def any_number_of_features_is_accepted(subject: AgentSubject) -> None:
    """The agent uses the number of features with which it is made."""
    for dim in (1, 2, subject.dim + 1):
        subject._replace(dim=dim).choices(f"a problem with dim={dim}, ")


def hard_problems_are_played(subject: AgentSubject) -> None:
    """One arm, equal arms, many arms, rewards of one kind only, and features up to 1,000 end no run."""
    for name, rounds in hard_problems(subject.dim, REWARDS, SIZES):
        player = subject.player(problem=f"{name}, ")
        for t, (arms, reward) in enumerate(rounds):
            subject.play(player, t + 1, arms, reward)


def same_seed_same_choices(subject: AgentSubject) -> None:
    """Two new agents with the same random numbers make the same choices."""
    for t, (arm, other) in enumerate(zip(subject.choices(), subject.choices(), strict=True)):
        if arm != other:
            raise InvalidInput(
                f"two new agents with the same seed and input choose arms {arm} and {other} in round {t + 1}. "
                f"{DRAW_FROM_RNG} {KEEP_APART}"
            )


def agents_share_nothing(subject: AgentSubject) -> None:
    """What one agent learns does not change the choices of another one."""
    one, other = subject.player(), subject.player(seed=2)
    for alone, (t, arms, reward) in zip(subject.choices(), subject.rounds(), strict=True):
        arm = subject.play(one, t, arms, reward)
        subject.play(other, t, -arms, 1.0 - reward)
        if arm != alone:
            raise InvalidInput(
                f"an agent chooses arm {arm} instead of {alone} in round {t} because another agent learns. {KEEP_APART}"
            )


def probabilities_match_choices(subject: AgentSubject) -> None:
    """The sums of `probabilities` agree with the numbers of choices. Not tested if the agent does not have it."""
    arms = subject.rows(np.random.default_rng(8).uniform(-0.6, 0.6, (5, subject.dim)))
    for learned in (0, 10, ROUNDS):
        player = subject.player()
        if not player.has_probabilities:
            return
        for t, given, reward in subject.rounds():
            if t <= learned:
                subject.play(player, t, given, reward)
        counts, stated, variances = np.zeros((3, 5))
        for _ in range(DRAWS):  # choose may change the agent, so each choice has its own probabilities
            probabilities = player.probabilities(arms, learned + 1)
            counts[player.choose(arms, learned + 1)] += 1.0
            stated += probabilities
            variances += probabilities * (1.0 - probabilities)
        if not counts_agree(counts, stated, variances):
            raise InvalidInput(
                f"probabilities returned {numbers_text(stated / DRAWS)}, but the frequencies of {DRAWS:,} choices are "
                f"{numbers_text(counts / DRAWS)} after {learned} rewards. Return the probabilities with which choose "
                "draws, or leave the method out."
            )


def asking_for_probabilities_changes_nothing(subject: AgentSubject) -> None:
    """An agent that is asked for its probabilities makes the same choices as one that is not."""
    asked = subject.player()
    if not asked.has_probabilities:
        return
    for arm, (t, arms, reward) in zip(subject.choices(), subject.rounds(), strict=True):
        asked.probabilities(subject.rows(arms), t)
        if subject.play(asked, t, arms, reward) != arm:
            raise InvalidInput(
                f"a call of probabilities changes the choice of round {t}. It must not change what choose reads."
            )


def class_can_be_pickled(subject: AgentSubject) -> None:
    """The class or function and its settings survive pickling, so that every process can make agents."""
    made_by = (subject.agents.make, dict(subject.agents.settings))
    try:
        pickle.loads(pickle.dumps(made_by))
    except Exception as error:
        raise InvalidInput(
            f"{subject.agents.name} cannot be pickled: {error}. Define the class or function at the top level of a "
            "module, and give it settings by functools.partial."
        ) from error


def result_store_can_identify_agents(subject: AgentSubject) -> None:
    """The identity of code and settings can be computed, and playing does not change it."""
    before = replace(subject.agents).identity  # computed again
    subject.choices()
    if replace(subject.agents).identity != before:
        raise InvalidInput(
            f"playing changes the identity of {subject.agents.name}, so the result store does not find its results. "
            f"{KEEP_APART}"
        )


LAWS: tuple[Callable[[AgentSubject], None], ...] = (
    choose_and_learn_work,
    any_number_of_features_is_accepted,
    hard_problems_are_played,
    same_seed_same_choices,
    agents_share_nothing,
    probabilities_match_choices,
    asking_for_probabilities_changes_nothing,
    class_can_be_pickled,
    result_store_can_identify_agents,
)
NEEDS: dict[Callable[[AgentSubject], None], Callable[[AgentSubject], None]] = {
    **dict.fromkeys(LAWS[1:], choose_and_learn_work),
    agents_share_nothing: same_seed_same_choices,
    asking_for_probabilities_changes_nothing: same_seed_same_choices,
}
