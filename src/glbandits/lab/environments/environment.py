"""`Environment`, the protocol of a bandit problem."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from glbandits.lab.environments.noise import Noise
from glbandits.lab.environments.rounds import Rounds
from glbandits.lab.environments.sparse_rounds import SparseRounds


@runtime_checkable
class Environment(Protocol):
    """A reproducible bandit problem: the same seed gives the same rounds for every policy."""

    @property
    def dim(self) -> int:
        """The number of features of an arm."""

    @property
    def noise(self) -> Noise:
        """The distribution of a reward, given its expectation."""

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """Yield the rounds of one run, in chunks of bounded size.

        The size of the chunks must not change the rounds. The first T rounds must not depend on the horizon.
        """


@runtime_checkable
class SparseEnvironment(Protocol):
    """An `Environment` whose arms are sparse rows. Policies run in their sparse form."""

    @property
    def dim(self) -> int:
        """The number of features of an arm."""

    @property
    def noise(self) -> Noise:
        """The distribution of a reward, given its expectation."""

    @property
    def sparse(self) -> bool:
        """Always True: arms are sparse rows."""

    def rounds(self, horizon: int, seed: int) -> Iterator[SparseRounds]:
        """Yield the rounds of one run, in chunks, as `Environment.rounds`."""
