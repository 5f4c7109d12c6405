"""Bandit: a policy with its learned state."""

from __future__ import annotations

import secrets
from dataclasses import replace
from os import PathLike
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike

from glbandits.bandit.arm_batch import ArmBatch, ArmBlock
from glbandits.bandit.budget import Budget
from glbandits.bandit.decisions import DEFAULT_INTERVAL, Decisions, decide_block, joined
from glbandits.bandit.input_checks import as_floats, checked_order, checked_reward
from glbandits.bandit.inputs import Inputs, no_costs
from glbandits.bandit.model_file import ParsedModel, can_be_loaded, model_bytes, parse_model, read_model, write_model
from glbandits.bandit.outlier_watch import OutlierWatch
from glbandits.bandit.predictions import (
    DEFAULT_DRAWS,
    Prediction,
    Ranking,
    best_arms,
    best_orders,
    estimated_probabilities,
    estimated_ranking_probability,
    expected_rewards,
    predict,
    score_means,
)
from glbandits.bandit.row_encoding import Rows, encode_row, encode_rows, resolve_dim
from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.common.display.displayed import Displayed
from glbandits.common.errors import MAX_ABS, InvalidInput, ModelFileError, check_bool, check_int, value_text
from glbandits.features.table_columns import Table
from glbandits.features.transformer_features import as_features
from glbandits.maths.arm_rows import ONLY_ROW
from glbandits.maths.links import find_link
from glbandits.maths.philox import generator
from glbandits.maths.sparse_rows import SparseRows
from glbandits.policies.contract import Coefficients, Outliers, Policy
from glbandits.policies.contract.compiled_calls import InvalidArm, convert_index_errors, index_out_of_range
from glbandits.policies.contract.decisions import NO_EXACT_FORM
from glbandits.policies.contract.policy_checks import check_can_run
from glbandits.policies.parsing import as_policy
from glbandits.policies.sparse_forms import sparse_form


class Bandit(Displayed):
    """A policy with a state and a random generator: it chooses arms and learns their rewards.

    The number of arms may differ between calls. Rewards may arrive late, in any order, or never: `learn` takes the
    features of an arm with its reward, and does not refer to a decision. Not thread-safe: use a Bandit in one thread
    at a time.

    Args:
        policy: a policy with its settings, such as `Optimist(link="logistic")`, which has nothing to tune; or the name
            of a policy, such as "optimist".
        dim: the number of features of an arm. Leave it out if `features` is given.
        seed: the same seed, policy and calls give the same choices. The default is a random seed.
        sparse: whether arms are sparse rows (`SparseRows`, or any scipy.sparse matrix). Time then depends on the
            non-zero features, and memory on the learned features instead of dim (docs/sparse-features.md).
        features: a FeatureMap, or a fitted scikit-learn transformer. All methods that accept an array of features
            then also accept rows of named values: a list of dicts, a dict of columns, or a data frame.

    >>> import numpy as np
    >>> from glbandits import Bandit, Optimist
    >>> bandit = Bandit(Optimist(), dim=2, seed=7)
    >>> arms = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> for _ in range(20):
    ...     arm = bandit.choose(arms)
    ...     bandit.learn(arms[arm], reward=float(arm == 1))
    >>> bandit.choose(arms)
    1
    """

    def __init__(
        self,
        policy: Policy | str,
        dim: int | None = None,
        seed: int | None = None,
        *,
        sparse: bool = False,
        features: Any = None,
    ) -> None:
        feature_map = None if features is None else as_features(features)
        dim = resolve_dim(dim, feature_map)
        policy = as_policy(policy)
        form = sparse_form(policy, dim) if sparse else policy
        check_can_run(form, dim)
        seed = secrets.randbits(62) if seed is None else check_int("seed", seed, at_least=0)
        self._set(ParsedModel(policy, form, dim, form.init(dim), generator(seed), feature_map))

    def _set(self, model: ParsedModel) -> None:
        policy, form, dim, self._state, self._rng, self.features, self._budget, training = model
        self.training = training
        """A sketch of the rows of a log that it learned, by `train` or `glb train`. Evaluations use other rows."""
        self.policy, self.dim, self._form, self._settings = policy, dim, form, form.packed_settings(dim)
        self._link, self._is_sparse = find_link(policy.link), form.is_sparse
        self._inputs = Inputs(form.implementation(dim), self._link, dim)
        self._kind, self._choose, self._learn = self._inputs.kind, self._inputs.choose, self._inputs.learn
        self._outlier_watch = OutlierWatch(form, dim, feature_map=self.features, state=self._state)
        self.warns_of_outliers = True
        """Whether `learn` and `learn_batch` warn of outliers, once for each feature and once for rewards."""

    @property
    def sparse(self) -> bool:
        """Whether arms are sparse rows."""
        return self._is_sparse

    @property
    def budget(self) -> Budget | None:
        """A budget that is saved with the model; None by default."""
        return self._budget

    @budget.setter
    def budget(self, budget: Budget | None) -> None:
        if budget is not None and not isinstance(budget, Budget):
            raise InvalidInput(f"budget must be a Budget or None; got {value_text(budget)}")
        self._budget = budget

    @property
    def state(self) -> Floats:
        """A copy of the learned state. Assign to it to replace the state."""
        return self._state.copy()

    @state.setter
    def state(self, state: Floats) -> None:
        state = as_floats("state", state)
        if not self._form.is_valid_state(state, self.dim):
            raise InvalidInput(
                f"state must be the state of a Bandit with policy {self.policy.name} and {self.dim} features; got an "
                f"array of shape {state.shape}"
            )
        self._state = state

    def choose(
        self, arms: Rows, *, values: ArrayLike | None = None, costs: ArrayLike | None = None, explore: bool = True
    ) -> int:
        """The index of the arm to pull, a row of `arms` (K, dim).

        Advances the random generator, learns nothing. Without `values` the arm with the highest expected reward is
        wanted; with `values` the arm with the highest payoff, value * expected reward - cost.

        Args:
            arms: the features of each arm.
            values: what a reward of 1 is worth for each arm, (K,), at least 0.
            costs: what pulling each arm costs, (K,); 0 if it is left out. Only together with `values`.
            explore: True follows the rule of the policy, which tries uncertain arms. False pulls the best arm by
                `predict`, of equal ones the first, and leaves the random generator as it is. Such decisions earn more
                for now, but a bandit that learns from them alone may never find the best arm.
        """
        if explore is not True and not check_bool("explore", explore):
            return int(self.rank(arms, 1, values=values, costs=costs, explore=False).arms[0])
        has_payoffs = values is not None or costs is not None
        entry = self._inputs.choose_by_payoff if has_payoffs else self._choose
        rows: Any = arms if type(arms) is self._kind else self._arms(arms)
        try:
            offered: Any = tuple(rows) if self._is_sparse else rows
            if has_payoffs:
                offered = offered, values, no_costs(self._inputs.count(rows)) if costs is None else costs
            arm: int = entry.call(self._state, self._settings, self.dim, offered, self._rng)
        except InvalidArm:
            raise
        except IndexError as error:
            raise index_out_of_range(self.policy, "choose") from error
        except Exception:  # arguments of another type, or invalid ones; the state is still unchanged
            offered = self._inputs.offered(self._arms(arms), values, costs)
            arm = entry.call(self._state, self._settings, self.dim, offered, self._rng)
        return arm

    def rank(
        self,
        arms: Rows,
        k: int,
        *,
        values: ArrayLike | None = None,
        costs: ArrayLike | None = None,
        explore: bool = True,
        draws: int = DEFAULT_DRAWS,
    ) -> Ranking:
        """Rank the best k arms, each at most once, and return the probability of this ranking.

        Advances the random generator, learns nothing. `rank(arms, 1)` chooses as `choose(arms)` does. The probability
        is exact if the rule of the policy has an exact form. Otherwise it is estimated from `draws` trial rankings.
        Without exploration it is 1.

        Args:
            arms: the features of each arm.
            k: the number of arms in the ranking, from 1 to K.
            values: as for `choose`.
            costs: as for `choose`.
            explore: as for `choose`.
            draws: trial rankings of an estimate.

        >>> from glbandits import Bandit, Optimist
        >>> bandit = Bandit(Optimist(), dim=3, seed=7)
        >>> bandit.rank(np.eye(3), 2)
        Ranking(arms=array([2, 0]), probability=0.16666666666666666)
        """
        if not check_bool("explore", explore):
            rows = self._arms(arms)
            count, has_payoffs = self._inputs.count(rows), values is not None or costs is not None
            payoffs = self._inputs.payoffs(count, values, costs) if has_payoffs else None
            k, block = check_int("k", k, at_least=1, at_most=count), ArmBlock(rows, np.array([0, count]), payoffs)
            return Ranking(best_orders(self.ranking_scores(block), block.bounds, k)[0], 1.0)
        entry = self._inputs.rank(payoffs=values is not None or costs is not None)
        checked: Any = arms if self._inputs.are_usable(arms) else self._arms(arms)
        offered, count = self._inputs.offered(checked, values, costs), self._inputs.count(checked)
        order = np.empty(check_int("k", k, at_least=1, at_most=count), np.int64)
        draws = check_int("draws", draws, at_least=1)

        def rank_by(rng: Generator, order: Ints) -> float:
            return float(entry.call(self._state, self._settings, self.dim, offered, rng, order))

        with convert_index_errors(self.policy, "rank"):
            probability = rank_by(self._rng, order)
            if probability == NO_EXACT_FORM:
                probability = estimated_ranking_probability(rank_by, self._rng, order, count, draws)
        return Ranking(order, probability)

    def ranking_scores(self, block: ArmBlock) -> Floats:
        """The numbers by which arms are ranked without exploration: expected payoffs, or scores without payoffs."""
        scores = score_means(self._form, self._state, self.dim, block.rows, block.largest)
        if block.payoffs is None:
            return scores
        values, costs = block.payoffs
        return np.asarray(values * expected_rewards(self._link, scores) - costs)

    def choose_batch(
        self,
        arms: Rows,
        counts: ArrayLike | None = None,
        *,
        values: ArrayLike | None = None,
        costs: ArrayLike | None = None,
        explore: bool = True,
    ) -> Ints:
        """The index of the arm to pull in each of many decisions, (n,). Equals `choose` in a loop, and is faster.

        Args:
            arms: an array (n, K, dim). Or the rows of all arms, one decision after another, with `counts`. Or, if the
                feature map lists the arms, a table with a row for each context, which may get any of them.
            counts: the number of arms of each decision, (n,), or one number for all.
            values: as for `choose`: (K,) for all decisions, (n, K), or one for each row of arms.
            costs: as `values`.
            explore: as for `choose`.

        If an error occurs, the random generator is as before.

        >>> from glbandits import Bandit
        >>> bandit = Bandit("optimist", dim=2, seed=7)
        >>> bandit.learn_batch([[1.0, 0.0], [0.0, 1.0]] * 20, [0.0, 1.0] * 20)
        >>> bandit.choose_batch(np.array([np.eye(2), np.eye(2)[::-1]]), explore=False)
        array([1, 0])
        """
        explore = check_bool("explore", explore)
        batch, before = self._batch(arms, counts, values, costs), self._rng.copy()
        chosen = np.empty(len(batch), np.int64)
        try:
            for part, block in batch.blocks():
                if explore:
                    self._explore(block, chosen[part])
                else:
                    chosen[part] = best_arms(self.ranking_scores(block), block.bounds)
        except BaseException:
            self._rng = before
            raise
        return chosen

    def _explore(self, block: ArmBlock, chosen: Ints) -> None:
        """Write the choices of the policy's rule."""
        offered: Any = self._inputs.packed(block.rows)
        if block.payoffs is not None:
            offered = offered, *block.payoffs
        entry = self._inputs.choose_batch(payoffs=block.payoffs is not None)
        with convert_index_errors(self.policy, "choose"):
            for part, choose in entry.pieces(len(chosen)):
                bounds = block.bounds[part.start : part.stop + 1]
                choose(self._state, self._settings, self.dim, offered, bounds, self._rng, chosen[part])

    def predict_batch(self, arms: Rows, counts: ArrayLike | None = None) -> Floats:
        """The expected reward of each arm of many decisions, as `predict`. Arguments as for `choose_batch`.

        (n, K) if all decisions have K arms, else (rows,).
        """
        batch = self._batch(arms, counts)
        expected = np.empty(batch.bounds[-1])
        for part, block in batch.blocks():
            scores = score_means(self._form, self._state, self.dim, block.rows, block.largest)
            expected[batch.bounds[part.start] : batch.bounds[part.stop]] = expected_rewards(self._link, scores)
        return expected.reshape(len(batch), batch.same) if batch.same else expected

    def decide_batch(
        self,
        contexts: Table,
        *,
        top: int = 1,
        values: ArrayLike | None = None,
        costs: ArrayLike | None = None,
        explore: bool | None = None,
        interval: float = DEFAULT_INTERVAL,
    ) -> Decisions:
        """Decide for each row of a table of contexts, which may get any arm of the feature map. `glb decide` for files.

        Args:
            contexts: a data frame, a list of dicts or a dict of columns.
            top: the number of arms to rank for each context.
            values: as for `choose_batch`, in the order of `features.arm_names`.
            costs: as `values`.
            explore: as for `choose`. By default True, but False with values or several arms for a context.
            interval: as for `predict`.

        >>> from glbandits import Bandit
        >>> from glbandits.features import FeatureMap
        >>> log = {"offer": ["hat", "coat"] * 20, "age": [20, 20, 60, 60] * 10}
        >>> bandit = Bandit("optimist", seed=7, features=FeatureMap.learn(log, context=["age"], per_arm_block="offer"))
        >>> bandit.learn_batch(log, [1.0, 0.0, 0.0, 1.0] * 10)
        >>> bandit.decide_batch({"age": [25, 55]}, explore=False).names.ravel().tolist()
        ['hat', 'coat']
        """
        top = check_int("top", top, at_least=1)
        batch, before = self._batch(contexts, None, values, costs), self._rng.copy()
        if not batch.names:
            raise InvalidInput(f"decide_batch needs a table of contexts; got {value_text(contexts)}. Use choose_batch")
        by_default = values is None and costs is None and top == 1
        explore = by_default if explore is None else check_bool("explore", explore)
        try:
            parts = [
                decide_block(
                    self, block, batch.names * (len(block.bounds) - 1), top=top, explore=explore, level=interval
                )
                for _, block in batch.blocks()
            ]
        except BaseException:
            self._rng = before
            raise
        if not parts:
            raise InvalidInput("contexts must have at least one row; got none")
        return joined(parts, contexts)

    def _batch(self, arms: Any, counts: Any, values: Any = None, costs: Any = None) -> ArmBatch:
        return ArmBatch(
            self._inputs, self.features, sparse=self.sparse, arms=arms, counts=counts, values=values, costs=costs
        )

    def probabilities(
        self,
        arms: Rows,
        *,
        values: ArrayLike | None = None,
        costs: ArrayLike | None = None,
        draws: int = DEFAULT_DRAWS,
    ) -> Floats:
        """The probabilities with which the next `choose` with the same arguments returns each arm, (K,).

        Changes no later decision.

        They are exact if the rule of the policy has an exact form. Otherwise (a new posterior draw for each decision)
        they are estimated from `draws` trial decisions, with a standard error of sqrt(p (1 - p) / draws), at most
        0.005 by default. An estimate is never 0: an arm that no trial decision chose has 1 / (K (draws + 1)).
        """
        draws = check_int("draws", draws, at_least=1)
        exact = self.exact_probabilities(arms, values=values, costs=costs)
        if exact is not None:
            return exact
        entry = self._choose if values is None else self._inputs.choose_by_payoff
        checked = self._arms(arms)
        offered = self._inputs.offered(checked, values, costs)

        def choose_by(rng: Generator) -> int:
            return int(entry.call(self._state, self._settings, self.dim, offered, rng))

        with convert_index_errors(self.policy, "choose"):
            return estimated_probabilities(choose_by, self._rng, self._inputs.count(checked), draws)

    def exact_probabilities(
        self, arms: Rows, *, values: ArrayLike | None = None, costs: ArrayLike | None = None
    ) -> Floats | None:
        """As `probabilities` if the rule of the policy has an exact form; None if it has none."""
        entry = self._inputs.probabilities(payoffs=values is not None or costs is not None)
        checked: Any = arms if self._inputs.are_usable(arms) else self._arms(arms)
        out, offered = np.empty(self._inputs.count(checked)), self._inputs.offered(checked, values, costs)
        return out if entry.call(self._state, self._settings, self.dim, offered, out) else None

    def learn(self, x: Rows, reward: float, *, arm: int | None = None) -> None:
        """Learn the reward of an arm, which need not be the arm chosen last.

        Args:
            x: the features of the arm, (dim,). With `arm`, the features of several arms, as for `choose`.
            reward: the reward of the arm.
            arm: the index of the arm in `x`.

        For SparseRows, `learn(arms, reward, arm=arm)` is faster than `learn(arms.row(arm), reward)`.

        >>> from glbandits import Bandit, Optimist
        >>> bandit = Bandit(Optimist(), dim=2, seed=7)
        >>> arms = [[1.0, 0.0], [0.0, 1.0]]
        >>> bandit.learn(arms, 1.0, arm=bandit.choose(arms))
        """
        if arm is not None and (type(x) is not SparseRows or type(arm) is not int or arm < 0):
            x, arm = self._arm_at(x, arm), None
        if type(x) is not self._kind or not isinstance(reward, (float, int)):
            x, reward, arm = self._arm(x, arm), checked_reward(self._link, reward), None
        row: Any = x
        packed: Any = (*row, ONLY_ROW if arm is None else arm) if self._is_sparse else row
        try:
            new_state = self._learn.call(self._state, self._settings, self.dim, packed, reward, self._rng)
        except (InvalidInput, TypeError, OverflowError):
            packed, reward = self._inputs.packed_row(self._arm(x, arm)), checked_reward(self._link, reward)
            new_state = self._learn.call(self._state, self._settings, self.dim, packed, reward, self._rng)
        except IndexError as error:
            raise index_out_of_range(self.policy, "learn") from error
        if new_state is not None:
            self._state = new_state
        if self._outlier_watch.has_news(self._state) and self.warns_of_outliers:
            self._outlier_watch.warn(self._state)

    def learn_ranking(self, arms: Rows, shown: ArrayLike, rewards: ArrayLike) -> None:
        """Learn a reward for each arm that was shown in a ranking. If an error occurs, none is learned.

        Args:
            arms: the arms, as for `rank`.
            shown: the indices of the arms that were shown, such as `Ranking.arms`.
            rewards: the reward of each of them.
        """
        rows = self._arms(arms)
        order = checked_order(shown, self._inputs.count(rows))
        self.learn_batch(self._inputs.selected(rows, order), rewards)

    def learn_click(self, arms: Rows, shown: ArrayLike, position: int | None) -> None:
        """Learn a click in a ranking that users read from the top: the cascade model.

        The clicked arm has reward 1, and the arms above it have reward 0. Arms below it were perhaps not seen, so
        nothing is learned of them. Without a click all have reward 0.

        Args:
            arms: the arms, as for `rank`.
            shown: the indices of the arms that were shown, such as `Ranking.arms`.
            position: the position of the clicked arm in `shown`, from 0 on; None if no arm was clicked.

        >>> from glbandits import Bandit, Optimist
        >>> bandit = Bandit(Optimist(), dim=3, seed=7)
        >>> arms = np.eye(3)
        >>> ranking = bandit.rank(arms, 2)
        >>> bandit.learn_click(arms, ranking.arms, position=1)
        """
        rows = self._arms(arms)
        order = checked_order(shown, self._inputs.count(rows))
        seen = len(order)
        if position is not None:
            seen = check_int("position", position, at_least=0, at_most=len(order) - 1) + 1
        rewards = np.zeros(seen)
        rewards[-1] = 0.0 if position is None else 1.0
        self.learn_batch(self._inputs.selected(rows, order[:seen]), rewards)

    def learnable(self, x: SparseRows, max_size: int) -> SparseRows:
        """The features of a sparse row that fit in a state of at most `max_size` numbers.

        Returns all features while there is room, and afterwards only features that were learned before. A state grows
        with every new feature, 8 bytes a number. A service that learns features from clients can bound its memory by
        `learn(learnable(x, max_size), reward)`.

        >>> from glbandits import Bandit, Optimist, SparseRows
        >>> bandit = Bandit(Optimist(), dim=2**20, seed=7, sparse=True)
        >>> rows = SparseRows(np.array([0, 9, 18]), np.arange(0, 36, 2), np.ones(18))
        >>> bandit.learn(rows.row(0), 1.0)
        >>> bandit.learnable(rows.row(1), 10_000).indices.size, bandit.learnable(rows.row(1), 300).indices.size
        (9, 0)
        """
        has_room = self._form.has_room(self._state, self.dim, x.indices, max_size)
        if has_room.all():
            return x
        return SparseRows(np.array([0, has_room.sum()]), x.indices[has_room], x.values[has_room])

    def learn_batch(self, features: Rows, rewards: ArrayLike) -> None:
        """Learn many rewards in order, as `learn` in a loop. If an error occurs, none is learned."""
        y = as_floats("rewards", rewards)
        if y.ndim != 1:
            raise InvalidInput(f"rewards must have shape (n,), one for each row of features; got {y.shape}")
        X = self._inputs.rows(encode_rows(self.features, features, sparse=self.sparse), y.size)
        for reward in y[(y < self._link.lowest_reward) | (y > self._link.highest_reward) | ~(np.abs(y) <= MAX_ABS)]:
            checked_reward(self._link, reward)
        before, warns, self.warns_of_outliers = (self._state.copy(), self._rng.copy()), self.warns_of_outliers, False
        try:
            with convert_index_errors(self.policy, "learn"):
                for part, learn in self._inputs.batch().pieces(len(y)):
                    packed = self._inputs.packed(self._inputs.row_range(X, part.start, part.stop))
                    self._state = learn(self._state, self._settings, self.dim, packed, y[part], self._rng)
        except BaseException:
            self._state, self._rng = before
            raise
        finally:
            self.warns_of_outliers = warns
        if self._outlier_watch.has_news(self._state) and self.warns_of_outliers:
            self._outlier_watch.warn(self._state)

    @overload
    def predict(self, arms: Rows) -> Floats: ...
    @overload
    def predict(self, arms: Rows, *, interval: float) -> Prediction: ...
    def predict(self, arms: Rows, *, interval: float | None = None) -> Floats | Prediction:
        """The expected reward of each arm under the policy's estimate, (K,). Changes nothing.

        Args:
            arms: as for `choose`. Outlying features are limited as in decisions.
            interval: the probability that the policy's posterior gives to an interval of the expected reward, such as
                0.9. Returns a `Prediction` of mean, low and high. docs/online.md says how far to trust it.

        Raises InvalidInput if the policy has no estimate, or with `interval` no posterior. Before the first estimate
        of a policy with a warm-up, the score of every arm is 0.

        >>> from glbandits import Bandit
        >>> bandit = Bandit("optimist", dim=1, seed=7)
        >>> bandit.learn_batch([[1.0], [-1.0]] * 50, [1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0] * 10)
        >>> bandit.predict([[1.0], [-1.0]]).round(1)
        array([0.6, 0.2])
        """
        return predict(self._form, self._link, self._state, self.dim, self._arms(arms), interval)

    def coefficients(self) -> Coefficients | None:
        """A copy of the policy's estimate of theta; None if it has no single estimate.

        >>> from glbandits import Bandit, LinUcb
        >>> bandit = Bandit(LinUcb(), dim=2)
        >>> bandit.learn([1.0, 0.0], 1.0)
        >>> bandit.coefficients()
        Coefficients(theta=array([0.5, 0. ]), intercept=0.0, indices=None)
        """
        return self._form.coefficients(self._state, self.dim)

    def is_valid(self) -> bool:
        """Whether the model can be saved and loaded again: its state is finite and valid for the policy.

        Reads the whole state. Returns False only after a policy has failed numerically.
        """
        return can_be_loaded(self._form, self._state, self.dim)

    @property
    def outliers(self) -> Outliers:
        """The number of rewards and features that were limited, because they were far outside everything seen.

        Only `Optimist` limits outliers.
        """
        return self._form.outliers(self._state, self.dim)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return policy, dim, sparse and features by name, as scikit-learn's estimators do.

        With `deep` also the settings of the policy, such as `policy__link`.

        >>> from glbandits import Bandit
        >>> Bandit("uniform", dim=2).get_params()
        {'policy': Uniform(link='identity'), 'dim': 2, 'sparse': False, 'features': None, 'policy__link': 'identity'}
        """
        params = {"policy": self.policy, "dim": self.dim, "sparse": self.sparse, "features": self.features}
        nested = self.policy.get_params() if deep else {}
        return params | {f"policy__{name}": value for name, value in nested.items()}

    def save(self, path: str | PathLike[str]) -> None:
        """Write policy, state, generator and feature map to a safetensors file.

        Replaces the file atomically. Raises ModelFileError, and leaves the file as it is, if the state is not valid.
        """
        write_model(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """The content of the file that `save` writes, to store models elsewhere than in files.

        Raises ModelFileError if the state is not valid, because such a model cannot be loaded. Pickling uses this
        method too.
        """
        if not self.is_valid():
            raise ModelFileError(
                f"the model cannot be saved, because its state is not valid for {self.policy.name}, for example after "
                "rewards or features that are too large. Load the last saved model, and limit rewards and features"
            )
        return model_bytes(
            self.policy,
            self.dim,
            self._state,
            self._rng,
            sparse=self.sparse,
            features=self.features,
            budget=self.budget,
            training=self.training,
        )

    @classmethod
    def load(cls, path: str | PathLike[str], policy: Policy | None = None, *, features: Any = None) -> Self:
        """Load a saved Bandit. It makes exactly the same decisions as the saved one would.

        Args:
            path: a file written by `save`.
            policy: the policy of the saved Bandit, with the same settings. Needed only for policies and links that
                are not part of this package, because a file does not contain code.
            features: the fitted scikit-learn transformer of the saved Bandit, which a file does not contain. Not
                needed for a FeatureMap.

        Raises:
            ModelFileError: if the file is absent, damaged, or needs `policy` or `features`.
        """
        return cls._parsed(read_model(path), str(path), policy, features)

    @classmethod
    def from_bytes(cls, content: bytes, policy: Policy | None = None, features: Any = None) -> Self:
        """Restore a Bandit from the result of `to_bytes`, with the arguments of `load`."""
        return cls._parsed(content, "the content", policy, features)

    @classmethod
    def _parsed(cls, content: bytes, name: str, policy: Policy | None, features: Any) -> Self:
        bandit = cls.__new__(cls)
        bandit._set(parse_model(content, name, policy, None if features is None else as_features(features)))
        return bandit

    def copy(self) -> Self:
        """An independent Bandit with a copy of the state and the generator."""
        bandit = type(self).__new__(type(self))
        budget = None if self.budget is None else replace(self.budget)
        state, rng = self._state.copy(), self._rng.copy()
        bandit._set(ParsedModel(self.policy, self._form, self.dim, state, rng, self.features, budget, self.training))
        bandit.warns_of_outliers = self.warns_of_outliers
        return bandit

    __copy__ = copy

    def __reduce__(self) -> Any:
        return type(self).from_bytes, (self.to_bytes(), self.policy, self.features)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self.copy()

    def __repr__(self) -> str:
        return f"Bandit({self.policy!r}, dim={self.dim}{', sparse=True' if self.sparse else ''})"

    def _values(self) -> dict[str, object]:
        values = {"policy": self.policy.name, **self.policy.get_params(), "dim": self.dim, "sparse": self.sparse}
        return values if self.features is None else values | {"features": repr(self.features)}

    def _arms(self, arms: Rows) -> Any:
        return self._inputs.arms(encode_rows(self.features, arms, sparse=self.sparse))

    def _arm(self, x: Rows, arm: int | None = None) -> Any:
        if arm is not None:
            return self._arm_at(x, arm)
        return self._inputs.features(encode_row(self.features, x, sparse=self.sparse))

    def _arm_at(self, arms: Rows, arm: int) -> Any:
        rows = self._arms(arms)
        return self._inputs.row(rows, check_int("arm", arm, at_least=0, at_most=self._inputs.count(rows) - 1))
