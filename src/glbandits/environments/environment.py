"""The contract of an environment."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from glbandits.environments.noise import Noise
from glbandits.environments.sparse_rounds import SparseRounds
from glbandits.records import Rounds


@runtime_checkable
class Environment(Protocol):
    """A problem that can be played again: the same seed gives the same rounds, whoever plays them."""

    @property
    def dim(self) -> int:
        """The number of features of an arm."""

    @property
    def noise(self) -> Noise:
        """How an expected reward becomes a reward."""

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """The rounds of one run, in pieces small enough that the horizon does not fill the memory.

        How they are cut must not change them, and the first T rounds must not depend on the horizon.
        """


@runtime_checkable
class SparseEnvironment(Protocol):
    """As `Environment`, with arms that are sparse rows. Policies play in their sparse form."""

    @property
    def dim(self) -> int:
        """The number of features of an arm."""

    @property
    def noise(self) -> Noise:
        """How an expected reward becomes a reward."""

    @property
    def sparse(self) -> bool:
        """True."""

    def rounds(self, horizon: int, seed: int) -> Iterator[SparseRounds]:
        """The rounds of one run, in pieces, as those of an `Environment`."""
