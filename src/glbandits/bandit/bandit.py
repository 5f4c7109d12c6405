"""Bandit: a policy at work."""

from __future__ import annotations

import secrets
from collections.abc import Hashable, Iterable
from os import PathLike
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from glbandits.bandit.catalogue import Catalogue
from glbandits.bandit.catalogue_decisions import CatalogueDecisions, allowed_rows
from glbandits.bandit.entries import (
    choose_recipe,
    frequencies_recipe,
    learn_batch_recipe,
    learn_recipe,
    probabilities_recipe,
)
from glbandits.bandit.input_checks import (
    as_floats,
    check_usable,
    checked_arms,
    checked_features,
    checked_reward,
    is_usable,
)
from glbandits.bandit.model_file import model_bytes, parse_model, read_model, write_model
from glbandits.compilation import EntryPoint, entry_point
from glbandits.errors import LARGEST, InvalidInput, whole
from glbandits.maths.links import find_link
from glbandits.maths.philox import COUNTER, KEY, generator
from glbandits.policy import Coefficients, Policy
from glbandits.policy.checked import InvalidArm, index_errors_named, out_of_range
from glbandits.policy.first_use import check_policy
from glbandits.records import Floats, Generator

FIRST_PROBE_STREAM = np.uint64(1)
"""The streams of random numbers that estimate probabilities, so that asking for them changes no decision."""

ROWS_WORTH_WAITING = 2000
"""Rows of a batch for which waiting some seconds for machine code is quicker than learning them in plain Python."""


class Bandit:
    """A policy with a state and a generator: choose an arm, learn its reward.

    The number of arms may differ from call to call. Rewards may come late, in any order, or never: a policy
    learns what it is told when it is told. One Bandit belongs to one thread at a time.

    Args:
        policy: settings, such as `Optimist(link="logistic")`, which has nothing to tune.
        dim: the number of features of an arm.
        seed: the same seed, policy and calls give the same choices. Without one, a random seed is taken.

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

    def __init__(self, policy: Policy, dim: int, seed: int | None = None) -> None:
        check_policy(policy, dim)
        seed = secrets.randbits(62) if seed is None else whole("seed", seed, at_least=0)
        self._set(policy, dim, policy.init(dim), generator(seed))

    def _set(self, policy: Policy, dim: int, state: Floats, rng: Generator) -> None:
        self.policy, self.dim = policy, dim
        self._state, self._rng, self._settings = state, rng, policy.packed_settings(dim)
        self._link = find_link(policy.link)
        self._key = policy.implementation(dim), self._link
        self._choose, self._learn = entry_point(choose_recipe, *self._key), entry_point(learn_recipe, *self._key)
        self._choose.start()
        self._learn.start()
        self._catalogues: WeakKeyDictionary[Catalogue, CatalogueDecisions] = WeakKeyDictionary()

    @property
    def state(self) -> Floats:
        """A copy of all that was learned. Assign to it to replace that."""
        return self._state.copy()

    @state.setter
    def state(self, state: Floats) -> None:
        if not self.policy.is_valid_state(state, self.dim):
            raise InvalidInput(
                f"state must be the state of a Bandit with policy {self.policy.name} and {self.dim} features; got an "
                f"array of shape {state.shape}"
            )
        self._state = state.copy()

    def choose(self, arms: ArrayLike) -> int:
        """The arm to pull, by its row in `arms` (K, dim). Learns nothing."""
        if type(arms) is not np.ndarray:
            arms = checked_arms(arms, self.dim)
        try:
            arm: int = self._choose.call(self._state, self._settings, self.dim, arms, self._rng)
        except InvalidArm:
            raise
        except IndexError as error:
            raise out_of_range(self.policy, "choose") from error
        except Exception:  # an array of another type, or one that cannot be used; nothing has changed yet
            checked = checked_arms(arms, self.dim)
            arm = self._choose.call(self._state, self._settings, self.dim, checked, self._rng)
        return arm

    def learn(self, x: ArrayLike, reward: float) -> None:
        """Learn the reward of an arm with features `x` (dim,), which need not be the last one chosen."""
        if type(x) is not np.ndarray or not isinstance(reward, (float, int)):
            x, reward = checked_features(x, self.dim), checked_reward(self._link, reward)
        try:
            new_state = self._learn.call(self._state, self._settings, self.dim, x, reward, self._rng)
        except (InvalidInput, TypeError):
            x, reward = checked_features(x, self.dim), checked_reward(self._link, reward)
            new_state = self._learn.call(self._state, self._settings, self.dim, x, reward, self._rng)
        except IndexError as error:
            raise out_of_range(self.policy, "learn") from error
        if new_state is not None:
            self._state = new_state

    def learn_batch(self, features: ArrayLike, rewards: ArrayLike) -> None:
        """Learn many rewards, row by row: the same as `learn` in a loop, but all of them or none."""
        X, y = as_floats("features", features), as_floats("rewards", rewards)
        if X.shape != (y.size, self.dim) or y.ndim != 1:
            raise InvalidInput(
                f"features must have shape (n, {self.dim}) and rewards (n,); got {X.shape} and {y.shape}"
            )
        check_usable("features", X)
        for reward in y[(y < self._link.lowest_reward) | (y > self._link.highest_reward) | ~(np.abs(y) <= LARGEST)]:
            checked_reward(self._link, reward)
        batch = entry_point(learn_batch_recipe, *self._key)
        batch.start()
        before = (self._state.copy(), self._rng.copy())
        try:
            with index_errors_named(self.policy, "learn"):
                self._learn_rows(batch, X, y)
        except BaseException:
            self._state, self._rng = before
            raise

    def _learn_rows(self, batch: EntryPoint, X: Floats, y: Floats) -> None:
        done = 0
        while done < len(y) and not batch.is_compiled and not self._learn_all_at_once(len(y) - done):
            self.learn(X[done], float(y[done]))
            done += 1
        if done < len(y):
            learn = batch.compiled()
            self._state = learn(self._state, self._settings, self.dim, X[done:], y[done:], self._rng)

    def _learn_all_at_once(self, rows: int) -> bool:
        """Whether waiting for machine code beats learning so many rows one by one, while neither is compiled."""
        return rows > ROWS_WORTH_WAITING and not self._learn.is_compiled

    def probabilities(self, arms: ArrayLike, *, draws: int = 10_000) -> Floats:
        """The probability of each arm that the next `choose(arms)` gives it, (K,). Changes no later decision.

        It is exact wherever the policy's rule has an exact form. Where it has none (a fresh posterior draw for
        each decision), it is estimated from `draws` trial decisions: its standard error is
        sqrt(p (1 - p) / draws), at most 0.005 with the default. An estimate is never 0: an arm that no trial decision
        picked gets 1 / (K (draws + 1)).
        """
        checked = checked_arms(arms, self.dim)
        draws = whole("draws", draws, at_least=1)
        exact = self._exact_probabilities(checked)
        return self._estimated_probabilities(checked, draws) if exact is None else exact

    def _estimated_probabilities(self, arms: Floats, draws: int) -> Floats:
        # A stream for each moment, so that the errors of one estimate are not those of the next.
        probe = np.array([self._rng[KEY], FIRST_PROBE_STREAM + self._rng[COUNTER], 0], dtype=np.uint64)
        estimate: Floats = entry_point(frequencies_recipe, *self._key).call(
            self._state, self._settings, arms, probe, draws
        )
        return estimate

    def exact_probabilities(self, arms: ArrayLike) -> Floats | None:
        """As `probabilities`, but only if the policy's rule has an exact form; None if it has none."""
        return self._exact_probabilities(arms if is_usable(arms, self.dim) else checked_arms(arms, self.dim))

    def _exact_probabilities(self, arms: Floats) -> Floats | None:
        out = np.empty(len(arms))
        exact = entry_point(probabilities_recipe, *self._key).call(self._state, self._settings, arms, out)
        return out if exact else None

    def choose_from(
        self,
        catalogue: Catalogue,
        context: ArrayLike | None = None,
        *,
        only: Iterable[Hashable] | None = None,
        excluded: Iterable[Hashable] = (),
    ) -> Any:
        """The id of the arm to pull: the arm that `choose` gives on the features of all arms, but faster.

        Args:
            catalogue: the arms.
            context: what `combine` of the catalogue takes; None if the catalogue has no `combine`.
            only: ids among which to choose, which must be in the catalogue; all of them without it.
            excluded: ids that are not chosen; those that are not in the catalogue are ignored.
        """
        allowed = allowed_rows(catalogue, only, excluded)
        return catalogue.id_of(self._decisions(catalogue).choose(self._state, self._rng, context, allowed))

    def probabilities_from(
        self,
        catalogue: Catalogue,
        context: ArrayLike | None = None,
        *,
        only: Iterable[Hashable] | None = None,
        excluded: Iterable[Hashable] = (),
        draws: int = 10_000,
    ) -> Floats:
        """The probability of each arm that the next `choose_from` gives it, in the order of `catalogue.ids`.

        As `probabilities`, it is an estimate where the policy's rule has no exact form. That takes as long as `draws`
        decisions.
        """
        exact = self.exact_probabilities_from(catalogue, context, only=only, excluded=excluded)
        if exact is not None:
            return exact
        allowed, decisions = allowed_rows(catalogue, only, excluded), self._decisions(catalogue)
        arms, probabilities = decisions.arms(allowed, context), np.zeros(len(catalogue))
        draws = whole("draws", draws, at_least=1)
        probabilities[... if allowed is None else allowed] = self._estimated_probabilities(arms, draws)
        return probabilities

    def exact_probabilities_from(
        self,
        catalogue: Catalogue,
        context: ArrayLike | None = None,
        *,
        only: Iterable[Hashable] | None = None,
        excluded: Iterable[Hashable] = (),
    ) -> Floats | None:
        """As `probabilities_from`, but only if the policy's rule has an exact form; None if it has none."""
        allowed = allowed_rows(catalogue, only, excluded)
        return self._decisions(catalogue).exact_probabilities(self._state, context, allowed)

    def _decisions(self, catalogue: Catalogue) -> CatalogueDecisions:
        decisions = self._catalogues.get(catalogue) or CatalogueDecisions(self.policy, self.dim, self._key, catalogue)
        return self._catalogues.setdefault(catalogue, decisions)

    def coefficients(self) -> Coefficients | None:
        """A copy of the point estimate by which the policy scores arms, or None if the policy has no single one.

        >>> from glbandits import Bandit, LinUcb
        >>> bandit = Bandit(LinUcb(), dim=2)
        >>> bandit.learn([1.0, 0.0], 1.0)
        >>> bandit.coefficients()
        Coefficients(theta=array([0.5, 0. ]), intercept=0.0)
        """
        return self.policy.coefficients(self._state, self.dim)

    def save(self, path: str | PathLike[str]) -> None:
        """Write settings, state and generator to a safetensors file; all of it or nothing."""
        write_model(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """What `save` writes, for those who keep models elsewhere than in files."""
        return model_bytes(self.policy, self.dim, self._state, self._rng)

    @classmethod
    def load(cls, path: str | PathLike[str], policy: Policy | None = None) -> Self:
        """A Bandit that goes on, bit for bit, where the saved one stopped.

        Args:
            path: a file written by `save`.
            policy: needed only if the file was saved with a policy or link of your own, which a file cannot
                carry: the same settings again.
        """
        return cls._parsed(read_model(path), str(path), policy)

    @classmethod
    def from_bytes(cls, content: bytes, policy: Policy | None = None) -> Self:
        """A Bandit that goes on, bit for bit, where the one of `to_bytes` stopped."""
        return cls._parsed(content, "what was given", policy)

    @classmethod
    def _parsed(cls, content: bytes, name: str, policy: Policy | None) -> Self:
        bandit = cls.__new__(cls)
        bandit._set(*parse_model(content, name, policy))
        return bandit

    def copy(self) -> Self:
        """Another Bandit that goes on from here by itself."""
        bandit = type(self).__new__(type(self))
        bandit._set(self.policy, self.dim, self._state.copy(), self._rng.copy())
        return bandit

    __copy__ = copy

    def __reduce__(self) -> Any:
        return type(self).from_bytes, (self.to_bytes(), self.policy)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self.copy()

    def __repr__(self) -> str:
        return f"Bandit({self.policy!r}, dim={self.dim})"
