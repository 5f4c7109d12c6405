from glbandits import EpsilonGreedy
from glbandits.policies.sparse_forms import sparse_form


def test_subclass_keeps_the_exploration_that_its_base_defines() -> None:
    """`EpsilonGreedy` draws a number in every round, also where epsilon is 0 or 1."""
    assert sparse_form(EpsilonGreedy(fit="online"), 3).implementation(3).explores is EpsilonGreedy.explores  # type: ignore[attr-defined]
