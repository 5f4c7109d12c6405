"""The catalogue of a loop: follows the store, changes it, and draws arms."""

from collections.abc import Callable, Collection, Sequence
from threading import Lock, RLock

from glbandits.bandit import Bandit
from glbandits.errors import InvalidInput
from glbandits.serving.domain.catalogue_arms import CatalogueArm, CatalogueQuestion, NewArm
from glbandits.serving.domain.errors import VersionConflict
from glbandits.serving.domain.served_catalogue import CatalogueChoice, ServedCatalogue, UnknownArm
from glbandits.serving.storage.event_store import EventStore


class LoopCatalogue:
    """The arms of a loop that can be chosen by id.

    All methods may be called from any thread. A draw waits for other draws, and for changes to be applied in memory,
    but not for the store.

    Args:
        loop_name: whose arms.
        store: where they are kept.
        clock: microseconds since 1970.
        bandit: returns the model of the loop, which makes features of fields.
    """

    def __init__(
        self, loop_name: str, store: EventStore, clock: Callable[[], int], bandit: Callable[[], Bandit]
    ) -> None:
        self._name, self._store, self._clock, self._bandit = loop_name, store, clock, bandit
        self._changes, self._draws = RLock(), Lock()
        """The first is held while `_served` goes on to another version, the second while it is read or replaced."""
        self._served = ServedCatalogue(bandit())

    @property
    def served(self) -> ServedCatalogue:
        """The version that draws are made from. Other threads may change it."""
        return self._served

    def refresh(self) -> None:
        """Go on to the newest version in the store, whichever process made it."""
        with self._changes:
            served, bandit = self._served, self._bandit()
            version, head, arms = self._store.catalogue_changes(self._name, served.version)
            if served.fits(bandit) and head.whole_since <= served.version:
                if version > served.version:
                    with self._draws:
                        served.apply(version, arms)
                return
            served = ServedCatalogue(bandit)
            served.apply(*self._store.live_arms(self._name))
            with self._draws:
                self._served = served

    def draw(self, bandit: Bandit, question: CatalogueQuestion, exploration: float, seed: int) -> CatalogueChoice:
        """Draw an arm: see `ServedCatalogue.draw`."""
        if self._served.fits(bandit):
            try:
                return self._draw(bandit, question, exploration, seed)
            except UnknownArm:  # another process may have added it at this moment
                pass
        self.refresh()
        return self._draw(bandit, question, exploration, seed)

    def _draw(self, bandit: Bandit, question: CatalogueQuestion, exploration: float, seed: int) -> CatalogueChoice:
        with self._draws:
            return self._served.draw(bandit, question, exploration, seed)

    def put(self, arms: Sequence[NewArm], *, most: int, after: int | None = None) -> int:
        """Add arms, in place of those with the same ids: all of them or none. Returns the version that has them.

        Args:
            arms: with different ids. Those that the catalogue has already with the same features change nothing.
            most: arms that the catalogue may have.
            after: the version that the caller knows; VersionConflict is raised if there is a newer one.
        """

        def changes(served: ServedCatalogue) -> tuple[list[NewArm], list[int]]:
            new = [arm for arm in arms if not served.has(arm)]
            if new:
                served.check(new)
            replaced = [served.numbers[arm.id] for arm in new if arm.id in served]
            count = len(served) + len(new) - len(replaced)
            if count > most:
                raise InvalidInput(f"a catalogue may have {most} arms; it would have {count}. Retire some first")
            return new, replaced

        return self._change(changes, after)

    def retire_and_restore(self, retire: Collection[str], restore: Collection[str], *, after: int | None = None) -> int:
        """Retire arms, and bring retired ones back with the features that they had: all of them or none.

        Returns the version that has the change. Arms that are retired, or live, already stay as they are. Raises
        InvalidInput if an id is unknown, or an arm was retired so long ago that it is deleted.
        """
        if both := set(retire).intersection(restore):
            raise InvalidInput(f"an arm can be retired or restored, not both; got {min(both)!r} twice")

        def changes(served: ServedCatalogue) -> tuple[list[NewArm], list[int]]:
            absent = [arm for arm in (*retire, *restore) if arm not in served]
            known = self._store.arms_of_ids(self._name, absent)
            for arm in absent:
                if arm not in known:
                    raise InvalidInput(f"there is no arm {arm!r} in the catalogue, live or retired; add it first")
            new = [_as_new(known[arm]) for arm in dict.fromkeys(restore) if arm in known]
            if new:
                served.check(new)
            return new, [served.numbers[arm] for arm in dict.fromkeys(retire) if arm in served]

        return self._change(changes, after)

    def delete(self) -> int:
        """Delete all arms, also those that were retired. Returns the version without them."""
        version = self._store.delete_catalogue(self._name, self._clock())
        self.refresh()
        return version

    def _change(self, changes: Callable[[ServedCatalogue], tuple[list[NewArm], list[int]]], after: int | None) -> int:
        """Make a change that depends on the newest version, again if another process was faster."""
        with self._changes:
            while True:
                self.refresh()
                served = self._served
                if after is not None and after != served.version:
                    raise VersionConflict(f"the catalogue has version {served.version}, not {after}; read it again")
                add, retire = changes(served)
                if not add and not retire:
                    return served.version
                version = self._store.change_catalogue(
                    self._name, self._clock(), after=served.version, add=add, retire=retire
                )
                if version is not None:
                    self.refresh()
                    return version


def _as_new(arm: CatalogueArm) -> NewArm:
    return NewArm(arm.id, arm.encoding, arm.features)
