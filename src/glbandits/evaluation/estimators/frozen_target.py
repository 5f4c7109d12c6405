"""FrozenTarget: a Bandit that decides and does not learn."""

import numpy as np
from numba import types

from glbandits.bandit import Bandit
from glbandits.bandit.entries import policy_recipe
from glbandits.bandit.sparse_entries import ROWS
from glbandits.compilation import Recipe, entry_point
from glbandits.errors import InvalidInput, check_int
from glbandits.evaluation.logs.arm_features import FixedArms
from glbandits.evaluation.logs.logged_data import LoggedData
from glbandits.evaluation.logs.sparse_arms import SparseArms
from glbandits.features import FeatureMap, Features
from glbandits.maths.links import Link, LinkFunctions, find_link
from glbandits.maths.philox import generator
from glbandits.numba_support import GENERATOR, READ_CUBE, READ_INTS, READ_VECTOR, VECTOR, borrowed
from glbandits.policy import Policy
from glbandits.policy.compiled_calls import checked_arm, checked_bool, policy_functions
from glbandits.records import Floats, Generator, Ints
from glbandits.sparse_policies import sparse_form


class FrozenTarget:
    """A Bandit as it is: it decides, and learns nothing.

    Where its policy has no exact probabilities, one decision is drawn for each row and has probability 1. That
    has no bias either, and more variance.
    """

    def __init__(self, bandit: Bandit, seed: int = 0) -> None:
        policy = sparse_form(bandit.policy, bandit.dim) if bandit.sparse else bandit.policy
        self._dim, self._state, self._settings = bandit.dim, bandit.state, policy.packed_settings(bandit.dim)
        self._sparse, recipe = bandit.sparse, sparse_frozen_recipe if bandit.sparse else frozen_recipe
        self._features = bandit.features
        self._rng = generator(check_int("seed", seed, at_least=0))
        self._fill = entry_point(recipe, policy.implementation(bandit.dim), find_link(policy.link)).compiled()

    def probabilities(self, block: LoggedData, first: int) -> Floats:  # noqa: ARG002, D102
        if block.dim != self._dim:
            raise InvalidInput(f"the bandit was made for {self._dim} features; the log's arms have {block.dim}")
        if block.sparse != self._sparse:
            kinds = ("sparse", "dense") if self._sparse else ("dense", "sparse")
            raise InvalidInput(
                f"the bandit is {kinds[0]} and the arms of the log are {kinds[1]}. Read the log with "
                f"sparse={self._sparse}, or make the bandit with sparse={block.sparse}"
            )
        self._check_features(block.feature_map)
        out = np.zeros((len(block), block.arms.most))
        if isinstance(block.arms, FixedArms):
            fixed = block.arms.arms[np.newaxis]
            exact = self._fill(self._state, self._settings, fixed, block.arms.counts[:1], self._rng, out[:1])
            if exact:
                return np.repeat(out[:1], len(block), axis=0)
        arms = (block.arms.first_arms, *block.arms.arms) if isinstance(block.arms, SparseArms) else (block.features(),)
        self._fill(self._state, self._settings, *arms, block.arms.counts, self._rng, out)
        return out

    def _check_features(self, of_log: Features | None) -> None:
        mine = self._features
        if mine is not of_log and isinstance(mine, FeatureMap) and isinstance(of_log, FeatureMap) and mine != of_log:
            raise InvalidInput(
                "the bandit and the log have different feature maps. Open the log with the bandit's: "
                "open_log(..., features=bandit.features)"
            )


def frozen_recipe(policy: type[Policy], link: Link) -> Recipe:
    """A function that writes the probabilities of every row to `out`, and says whether they are exact."""
    choose, _, probabilities, unpack, name = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def fill(state: Floats, settings: Floats, arms: Floats, counts: Ints, rng: Generator, out: Floats) -> bool:
        functions, named = LinkFunctions(mean, slope, antiderivative), unpack(settings)
        arms, exact = borrowed(arms), True
        for row in range(arms.shape[0]):
            here, filled = arms[row, : counts[row]], out[row, : counts[row]]
            exact = checked_bool(probabilities(state, named, here, functions, filled))
            if not exact:
                for arm in range(counts[row]):
                    filled[arm] = 0.0
                filled[checked_arm(choose(state, named, here, rng, functions), counts[row], name)] = 1.0
        return exact

    signature = types.boolean(VECTOR, READ_VECTOR, READ_CUBE, READ_INTS, GENERATOR, types.float64[:, ::1])
    return policy_recipe(fill, signature, policy, link, more=", frozen")


def sparse_frozen_recipe(policy: type[Policy], link: Link) -> Recipe:
    """As `frozen_recipe`, for sparse rows."""
    choose, _, probabilities, unpack, name = policy_functions(policy)
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def fill(
        state: Floats,
        settings: Floats,
        starts: Ints,
        indptr: Ints,
        indices: Ints,
        values: Floats,
        counts: Ints,
        rng: Generator,
        out: Floats,
    ) -> bool:
        functions, named, exact = LinkFunctions(mean, slope, antiderivative), unpack(settings), True
        rows, features, numbers = borrowed(indptr), borrowed(indices), borrowed(values)
        for row in range(counts.shape[0]):
            count = counts[row]
            offered, filled = rows[starts[row] : starts[row] + count + 1], out[row, :count]
            exact = checked_bool(probabilities(state, named, offered, features, numbers, functions, filled))
            if not exact:
                filled[:] = 0.0
                arm = checked_arm(choose(state, named, offered, features, numbers, rng, functions), count, name)
                filled[arm] = 1.0
        return exact

    signature = types.boolean(VECTOR, READ_VECTOR, READ_INTS, *ROWS, READ_INTS, GENERATOR, types.float64[:, ::1])
    return policy_recipe(fill, signature, policy, link, more=", frozen, sparse rows")
