"""Bandit: a policy at work."""

from __future__ import annotations

import secrets
from os import PathLike
from typing import Any, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from glbandits.bandit.entries import (
    arms_check,
    choose_recipe,
    frequencies_recipe,
    learn_batch_recipe,
    learn_recipe,
    probabilities_recipe,
)
from glbandits.bandit.model_file import model_bytes, parse_model, read_model, write_model
from glbandits.bandit.rows import Rows, dim_of, encoded_row, encoded_rows
from glbandits.compilation import EntryPoint, entry_point
from glbandits.errors import LARGEST, InvalidInput, whole
from glbandits.features.transformer_features import Features, as_features
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
        dim: the number of features of an arm. A feature map tells it.
        seed: the same seed, policy and calls give the same choices. Without one, a random seed is taken.
        features: a FeatureMap, or a fitted transformer of scikit-learn. With it, all methods that take an array of
            features also take rows of named values: a list of dicts, a dict of columns, or a data frame.

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
        self, policy: Policy, dim: int | None = None, seed: int | None = None, *, features: Any = None
    ) -> None:
        feature_map = None if features is None else as_features(features)
        dim = dim_of(dim, feature_map)
        check_policy(policy, dim)
        seed = secrets.randbits(62) if seed is None else whole("seed", seed, at_least=0)
        self._set(policy, dim, policy.init(dim), generator(seed), feature_map)

    def _set(self, policy: Policy, dim: int, state: Floats, rng: Generator, features: Features | None) -> None:
        self.policy, self.dim, self.features = policy, dim, features
        self._state, self._rng, self._settings = state, rng, policy.packed_settings(dim)
        self._link = find_link(policy.link)
        self._key = policy.implementation(dim), self._link
        self._choose, self._learn = entry_point(choose_recipe, *self._key), entry_point(learn_recipe, *self._key)
        self._choose.start()
        self._learn.start()

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

    def choose(self, arms: Rows) -> int:
        """The arm to pull, by its row in `arms` (K, dim). Learns nothing."""
        if type(arms) is not np.ndarray:
            arms = self._checked_arms(arms)
        try:
            arm: int = self._choose.call(self._state, self._settings, self.dim, arms, self._rng)
        except InvalidArm:
            raise
        except IndexError as error:
            raise out_of_range(self.policy, "choose") from error
        except Exception:  # an array of another type, or one that cannot be used; nothing has changed yet
            checked = self._checked_arms(arms)
            arm = self._choose.call(self._state, self._settings, self.dim, checked, self._rng)
        return arm

    def learn(self, x: Rows, reward: float) -> None:
        """Learn the reward of an arm with features `x` (dim,), which need not be the last one chosen."""
        if type(x) is not np.ndarray or not isinstance(reward, (float, int)):
            x, reward = self._checked_features(x), self._checked_reward(reward)
        try:
            new_state = self._learn.call(self._state, self._settings, self.dim, x, reward, self._rng)
        except (InvalidInput, TypeError):
            x, reward = self._checked_features(x), self._checked_reward(reward)
            new_state = self._learn.call(self._state, self._settings, self.dim, x, reward, self._rng)
        except IndexError as error:
            raise out_of_range(self.policy, "learn") from error
        if new_state is not None:
            self._state = new_state

    def learn_batch(self, features: Rows, rewards: ArrayLike) -> None:
        """Learn many rewards, row by row: the same as `learn` in a loop, but all of them or none."""
        X, y = _as_floats("features", encoded_rows(self.features, features)), _as_floats("rewards", rewards)
        if X.shape != (y.size, self.dim) or y.ndim != 1:
            raise InvalidInput(
                f"features must have shape (n, {self.dim}) and rewards (n,); got {X.shape} and {y.shape}"
            )
        _check_usable("features", X)
        for reward in y[(y < self._link.lowest_reward) | (y > self._link.highest_reward) | ~(np.abs(y) <= LARGEST)]:
            self._checked_reward(reward)
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

    def probabilities(self, arms: Rows, *, draws: int = 10_000) -> Floats:
        """The probability of each arm that the next `choose(arms)` gives it, (K,). Changes no later decision.

        It is exact wherever the policy's rule has an exact form. Where it has none (a fresh posterior draw for
        each decision), it is estimated from `draws` trial decisions: its standard error is
        sqrt(p (1 - p) / draws), at most 0.005 with the default. An estimate is never 0: an arm that no trial decision
        picked gets 1 / (K (draws + 1)).
        """
        checked = self._checked_arms(arms)
        draws = whole("draws", draws, at_least=1)
        exact = self._exact_probabilities(checked)
        if exact is not None:
            return exact
        # A stream for each moment, so that the errors of one estimate are not those of the next.
        probe = np.array([self._rng[KEY], FIRST_PROBE_STREAM + self._rng[COUNTER], 0], dtype=np.uint64)
        estimate: Floats = entry_point(frequencies_recipe, *self._key).call(
            self._state, self._settings, checked, probe, draws
        )
        return estimate

    def exact_probabilities(self, arms: Rows) -> Floats | None:
        """As `probabilities`, but only if the policy's rule has an exact form; None if it has none."""
        return self._exact_probabilities(arms if _is_usable(arms, self.dim) else self._checked_arms(arms))

    def _exact_probabilities(self, arms: Floats) -> Floats | None:
        out = np.empty(len(arms))
        exact = entry_point(probabilities_recipe, *self._key).call(self._state, self._settings, arms, out)
        return out if exact else None

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
        return model_bytes(self.policy, self.dim, self._state, self._rng, self.features)

    @classmethod
    def load(cls, path: str | PathLike[str], policy: Policy | None = None, *, features: Any = None) -> Self:
        """A Bandit that goes on, bit for bit, where the saved one stopped.

        Args:
            path: a file written by `save`.
            policy: needed only if the file was saved with a policy or link of your own, which a file cannot
                carry: the same settings again.
            features: needed only if the file was saved with a transformer of scikit-learn, which a file cannot carry:
                the same one again.
        """
        return cls._parsed(read_model(path), str(path), policy, features)

    @classmethod
    def from_bytes(cls, content: bytes, policy: Policy | None = None, features: Any = None) -> Self:
        """A Bandit that goes on, bit for bit, where the one of `to_bytes` stopped."""
        return cls._parsed(content, "what was given", policy, features)

    @classmethod
    def _parsed(cls, content: bytes, name: str, policy: Policy | None, features: Any) -> Self:
        bandit = cls.__new__(cls)
        bandit._set(*parse_model(content, name, policy, None if features is None else as_features(features)))
        return bandit

    def copy(self) -> Self:
        """Another Bandit that goes on from here by itself."""
        bandit = type(self).__new__(type(self))
        bandit._set(self.policy, self.dim, self._state.copy(), self._rng.copy(), self.features)
        return bandit

    __copy__ = copy

    def __reduce__(self) -> Any:
        return type(self).from_bytes, (self.to_bytes(), self.policy, self.features)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self.copy()

    def __repr__(self) -> str:
        return f"Bandit({self.policy!r}, dim={self.dim})"

    def _checked_arms(self, arms: Rows) -> Floats:
        checked = _as_floats("arms", encoded_rows(self.features, arms))
        if checked.ndim != 2 or checked.shape[1] != self.dim:
            raise InvalidInput(f"arms must have shape (K, {self.dim}), a row for each arm; got {checked.shape}")
        if len(checked) == 0:
            raise InvalidInput(f"arms must have at least one row; got shape {checked.shape}")
        _check_usable("arms", checked)
        return checked

    def _checked_features(self, x: Rows) -> Floats:
        checked = _as_floats("x", encoded_row(self.features, x))
        if checked.shape != (self.dim,):
            raise InvalidInput(f"x must have shape ({self.dim},), the features of one arm; got {checked.shape}")
        _check_usable("x", checked)
        return checked

    def _checked_reward(self, reward: float) -> float:
        checked = _as_floats("reward", reward)
        if checked.ndim != 0:
            raise InvalidInput(f"reward must be one number; got {reward!r}")
        _check_usable("reward", checked)
        self._link.check_reward(float(checked))
        return float(checked)


def _is_usable(arms: Rows, dim: int) -> TypeGuard[Floats]:
    """Whether arms can be used as they are; if not, it is for `_checked_arms` to say why or to make them so."""
    try:
        return type(arms) is np.ndarray and arms_check().call(arms, dim)
    except TypeError:  # an array of another type
        return False


def _as_floats(name: str, values: ArrayLike) -> Floats:
    """A contiguous float64 array of real numbers. Text, dates, complex and masked numbers are refused, not bent."""
    try:
        given = np.ma.asanyarray(values) if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
        if np.ma.is_masked(given) or given.dtype.kind not in "biufO":
            raise InvalidInput(f"{name} must hold plain numbers; got {given.dtype} {repr(values)[:80]}")
        return np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{name} must be an array of numbers; NumPy could not make one of it: {error}") from None


def _check_usable(name: str, values: Floats) -> None:
    bad = ~(np.abs(values) <= LARGEST)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        place = f" at {list(where)}" if where else ""
        raise InvalidInput(
            f"{name} must hold finite numbers no larger than {LARGEST:g}; got {values[where]}{place}. "
            "Fill in or drop missing values first"
        )
