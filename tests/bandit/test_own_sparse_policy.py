"""A user-defined policy with a sparse form."""
# ruff: noqa: ARG004

from typing import Any, ClassVar

import numpy as np
import pytest

from glbandits import Bandit, InvalidInput, Policy, SparseRows
from glbandits.common.arrays import Floats
from glbandits.maths.sparse_rows import SparseRow
from glbandits.policies.contract import StateLayout


class Counting(Policy):
    """A user-defined policy that chooses the arm with the most features."""

    name: ClassVar[str] = "counting"
    layout: ClassVar[StateLayout] = StateLayout()
    learned = layout.count("learned")

    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Any, link: Any) -> int:
        return 0

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Any, link: Any) -> Floats:
        state[0] += x.shape[0]
        return state


class SparseCounting(Counting, sparse=True):
    """Its sparse form."""

    @staticmethod
    def choose(state: Floats, settings: Any, arms: Any, rng: Any, link: Any) -> int:
        indptr, best = arms.indptr, 0
        for a in range(indptr.shape[0] - 1):
            if indptr[a + 1] - indptr[a] > indptr[best + 1] - indptr[best]:
                best = a
        return best

    @staticmethod
    def learn(  # type: ignore[override]
        state: Floats, settings: Any, x: SparseRow, reward: float, rng: Any, link: Any
    ) -> Floats:
        state[0] += x.indices.shape[0]
        return state


@pytest.mark.safety
def test_user_defined_sparse_form_plays() -> None:
    bandit = Bandit(Counting(), 2**30, seed=1, sparse=True)
    rows = SparseRows(np.array([0, 1, 3]), np.array([5, 5, 2**29]), np.ones(3))
    assert bandit.choose(rows) == 1
    bandit.learn(rows.row(1), 1.0)
    assert bandit.state.tolist() == [2.0]
    assert bandit.probabilities(rows, draws=10).argmax() == 1
    assert Bandit.from_bytes(bandit.to_bytes(), policy=Counting()).choose(rows) == 1


def test_sparse_form_that_expects_a_matrix_is_refused() -> None:
    class Wrong(Counting):
        name: ClassVar[str] = "wrong"

    class SparseWrong(Wrong, sparse=True):
        @staticmethod
        def choose(state: Floats, settings: Any, arms: Floats, rng: Any, link: Any) -> int:
            return int(arms.shape[0] - 1)

    with pytest.raises(InvalidInput, match="SparseWrong.choose failed with AttributeError"):
        Bandit(Wrong(), 4, sparse=True)
