import numpy as np
import pytest

from glbandits import Bandit, Optimist
from glbandits.bandit.entry_points import arms_check_recipe
from glbandits.common.errors import InvalidInput
from glbandits.compilation.entry_point import EntryPoint


@pytest.mark.parametrize("mode", ["now", "never"])
def test_valid_arms_have_the_width_and_finite_numbers(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLBANDITS_COMPILE", mode)
    are_valid = EntryPoint(arms_check_recipe, (False,)).call
    assert are_valid(np.zeros((3, 2)), 2)
    assert not are_valid(np.zeros((3, 2)), 3)
    assert not are_valid(np.zeros((0, 2)), 2)
    assert not are_valid(np.array([[0.0, np.nan]]), 2)
    assert not are_valid(np.array([[0.0, 1e60]]), 2)
    with pytest.raises(TypeError):
        are_valid(np.zeros((3, 2), dtype=np.float32), 2)


def test_exact_probabilities_check_their_input() -> None:
    bandit = Bandit(Optimist(), dim=2, seed=0)
    arms = np.array([[1.0, 0.0], [0.0, 1.0]])
    exact = bandit.exact_probabilities(arms)
    assert exact is not None
    for same in (arms.astype(np.float32), np.asfortranarray(arms), arms.tolist(), arms.astype(int)):
        np.testing.assert_array_equal(bandit.exact_probabilities(same), exact)
    with pytest.raises(InvalidInput, match=r"shape \(K, 2\)"):
        bandit.exact_probabilities(np.zeros((2, 3)))
    with pytest.raises(InvalidInput, match="finite numbers"):
        bandit.exact_probabilities(np.array([[np.inf, 0.0]]))
