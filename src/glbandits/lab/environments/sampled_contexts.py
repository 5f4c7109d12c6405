"""A problem with real contexts and simulated rewards.

Rounds are drawn from the user's sample of contexts, and rewards from a model with a random theta*.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput, check_float
from glbandits.lab.environments.noise import NOISES, Noise
from glbandits.lab.environments.rounds import Rounds
from glbandits.lab.environments.synthetic import (
    CHUNK_SIZE,
    NOISE,
    ROUND_OVERHEAD,
    THETA,
    expected_rewards,
    natural_noise,
)
from glbandits.maths.links import Link, find_link

CONTEXTS = 4
"""The random stream that draws rounds from the sample."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SampledContexts:
    """Rounds drawn with replacement from a sample; each seed has a random theta*.

    Args:
        sample: the features of real rounds, (rounds, arms, dim).
        theta_norm: the norm of theta*.
        link: mu.

    >>> import numpy as np
    >>> problem = SampledContexts(sample=np.random.default_rng(0).normal(size=(50, 4, 3)))
    >>> [len(chunk) for chunk in problem.rounds(horizon=8, seed=1)]
    [8]
    """

    sample: Floats = field(repr=False)
    theta_norm: float = 1.0
    link: str | Link = "logistic"

    def __post_init__(self) -> None:
        sample = np.ascontiguousarray(self.sample, dtype=np.float64)
        if sample.ndim != 3 or not sample.size or not np.isfinite(sample).all():
            raise InvalidInput(
                f"a sample of contexts must be finite numbers (rounds, arms, dim); got shape {sample.shape}"
            )
        object.__setattr__(self, "sample", sample)
        check_float("theta_norm", self.theta_norm, above=0)
        find_link(self.link)

    @property
    def dim(self) -> int:
        """The number of features of an arm."""
        return int(self.sample.shape[2])

    @property
    def noise(self) -> Noise:
        """The natural noise of the link (`natural_noise`)."""
        return NOISES[natural_noise(find_link(self.link))]

    @cached_property
    def _digest(self) -> str:
        return sha256(self.sample.tobytes()).hexdigest()[:16]

    def fingerprint(self) -> str:
        """A text with a hash of the sample, and the settings."""
        return f"SampledContexts({self.sample.shape}, {self._digest}, {self.theta_norm}, {find_link(self.link).name})"

    def theta_star(self, seed: int) -> Floats:
        """The true parameter for this seed."""
        direction = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(THETA,))).normal(size=self.dim)
        theta: Floats = self.theta_norm * direction / np.linalg.norm(direction)
        return theta

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """Yield the rounds of one run, in chunks of at most 4 MB of features."""
        indices, noises = (
            np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream,))) for stream in (CONTEXTS, NOISE)
        )
        _, arms, dim = self.sample.shape
        chunk_length = max(1, CHUNK_SIZE // (arms * (dim + 2) + ROUND_OVERHEAD))
        for start in range(0, horizon, chunk_length):
            length = min(chunk_length, horizon - start)
            features = self.sample[indices.integers(0, len(self.sample), length)]
            expected = expected_rewards(find_link(self.link))(features, self.theta_star(seed))
            yield Rounds(features, np.full(length, arms), expected, self.noise.draw(noises, length), expected)
