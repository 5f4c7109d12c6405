# ruff: noqa: ARG004
from typing import Any, ClassVar

import numpy as np
import pytest

from glbandits import EpsilonGreedy, Policy
from glbandits.common.arrays import Floats, Generator
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import generator
from glbandits.policies import POLICIES
from glbandits.policies.contract.decisions import DecisionFunctions, decisions_of, no_probabilities, rule_of
from glbandits.policies.sparse_forms import sparse_form

ARMS, STATE, LINK, SETTINGS = np.array([[1.0], [3.0], [2.0]]), np.zeros(1), LinkFunctions(abs, abs, abs), ()


class Largest(Policy):
    """A rule without settings: the largest feature."""

    name: ClassVar[str] = "largest"

    @staticmethod
    def index(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> None:
        out[:] = arms[:, 0]


class Smallest(Largest):
    @staticmethod
    def index(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> None:
        out[:] = -arms[:, 0]


class First(Largest):
    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        return 0


class FirstAndLargest(First):
    @staticmethod
    def index(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> None:
        out[:] = arms[:, 0]


class Halves(Largest):
    @staticmethod
    def random_share(state: Floats, settings: Any) -> float:
        return 0.5

    @staticmethod
    def explores(state: Floats, settings: Any, rng: Generator) -> bool:
        return False


class Quarters(Halves):
    @staticmethod
    def random_share(state: Floats, settings: Any) -> float:
        return 1.0


def choice_of(kind: type[Policy]) -> int:
    chosen: int = decisions_of(kind).choose(STATE, SETTINGS, ARMS, generator(1), LINK)
    return chosen


def probabilities_of(kind: type[Policy]) -> list[float] | None:
    out = np.empty(3)
    exact = decisions_of(kind).probabilities(STATE, SETTINGS, ARMS, LINK, out)
    return out.tolist() if exact else None


def test_nearest_rule_or_choice_decides() -> None:
    assert [choice_of(kind) for kind in (Largest, Smallest, First, FirstAndLargest)] == [1, 0, 0, 1]
    assert probabilities_of(Smallest) == [1.0, 0.0, 0.0]


def test_class_with_its_own_choice_alone_has_no_scores() -> None:
    own = decisions_of(First)
    assert own == DecisionFunctions(First.choose, no_probabilities, None, None, None)
    assert probabilities_of(First) is None
    assert None not in decisions_of(FirstAndLargest)


def test_share_of_random_decisions_replaces_inherited_exploration() -> None:
    assert choice_of(Halves) == 1
    assert probabilities_of(Halves) == pytest.approx([1 / 6, 2 / 3, 1 / 6])
    assert probabilities_of(Quarters) == pytest.approx([1 / 3] * 3)
    assert rule_of(Quarters).explores(STATE, SETTINGS, generator(1))


def test_subclass_keeps_the_exploration_that_its_base_defines() -> None:
    """`EpsilonGreedy` draws a number in every round, also where epsilon is 0 or 1."""
    kind = sparse_form(EpsilonGreedy(fit="online"), 3).implementation(3)
    assert rule_of(kind).explores is EpsilonGreedy.explores


@pytest.mark.parametrize("name", POLICIES)
def test_decisions_of_a_class_are_made_once(name: str) -> None:
    assert decisions_of(POLICIES[name]) is decisions_of(POLICIES[name])
