"""The catalogue of a loop: reads changes from the store, makes changes, and draws arms."""

from collections.abc import Callable, Collection, Sequence
from threading import Lock, RLock

from glbandits.bandit import Bandit
from glbandits.common.errors import InvalidInput
from glbandits.service.domain.catalogues.catalogue_records import CatalogueArm, CatalogueQuery, NewArm
from glbandits.service.domain.catalogues.served_catalogue import CatalogueChoice, ServedCatalogue, UnknownArm
from glbandits.service.domain.errors import VersionConflict
from glbandits.service.storage.event_store import EventStore


class LoopCatalogue:
    """The arms of a loop that can be chosen by id.

    All methods may be called from any thread. A draw waits for other draws, and for changes to be applied in memory,
    but not for the store.

    Args:
        loop_name: the name of the loop.
        store: has the arms.
        clock: microseconds since 1970.
        bandit: returns the present model of the loop, which turns named fields into features.
    """

    def __init__(
        self, loop_name: str, store: EventStore, clock: Callable[[], int], bandit: Callable[[], Bandit]
    ) -> None:
        self._name, self._store, self._clock, self._bandit = loop_name, store, clock, bandit
        self._change_lock, self._draw_lock = RLock(), Lock()
        """The first is held while the version changes, the second while `_served` is read or replaced."""
        self._served = ServedCatalogue(bandit())

    @property
    def served(self) -> ServedCatalogue:
        """The arms in memory. Other threads may change them."""
        return self._served

    def refresh(self) -> None:
        """Change to the newest version in the store, which another process may have written."""
        with self._change_lock:
            served, bandit = self._served, self._bandit()
            version, head, arms = self._store.catalogue_changes(self._name, served.version)
            if served.is_built_for(bandit) and head.complete_since <= served.version:
                if version > served.version:
                    with self._draw_lock:
                        served.apply(version, arms)
                return
            served = ServedCatalogue(bandit)
            served.apply(*self._store.live_arms(self._name))
            with self._draw_lock:
                self._served = served

    def draw(self, bandit: Bandit, query: CatalogueQuery, exploration: float, seed: int) -> CatalogueChoice:
        """Draw an arm: see `ServedCatalogue.draw`."""
        if self._served.is_built_for(bandit):
            try:
                return self._draw(bandit, query, exploration, seed)
            except UnknownArm:  # another process may just have added it
                pass
        self.refresh()
        return self._draw(bandit, query, exploration, seed)

    def _draw(self, bandit: Bandit, query: CatalogueQuery, exploration: float, seed: int) -> CatalogueChoice:
        with self._draw_lock:
            return self._served.draw(bandit, query, exploration, seed)

    def put(self, arms: Sequence[NewArm], *, max_arms: int, expected_version: int | None = None) -> int:
        """Add arms or replace those with the same ids: all or none.

        Returns the version that has them.

        Args:
            arms: arms with different ids. Those that the catalogue already has with the same features are skipped.
            max_arms: the largest number of arms in the catalogue; InvalidInput is raised beyond it.
            expected_version: VersionConflict is raised if the catalogue has another version. None: any version.
        """

        def changes(served: ServedCatalogue) -> tuple[list[NewArm], list[int]]:
            new = [arm for arm in arms if not served.has(arm)]
            if new:
                served.check(new)
            replaced = [served.numbers[arm.id] for arm in new if arm.id in served]
            _check_count(len(served) + len(new) - len(replaced), max_arms)
            return new, replaced

        return self._change(changes, expected_version)

    def retire_and_restore(
        self, retire: Collection[str], restore: Collection[str], *, max_arms: int, expected_version: int | None = None
    ) -> int:
        """Retire arms, and restore retired arms with their features: all or none.

        Returns the version with the change. Arms that are already retired, or restored, are skipped. Raises
        InvalidInput if an id is unknown, if a retired arm was deleted, or if the catalogue would have more than
        `max_arms` arms.
        """
        if both := set(retire).intersection(restore):
            raise InvalidInput(f"an arm can be retired or restored, not both; got {min(both)!r} in both lists")

        def changes(served: ServedCatalogue) -> tuple[list[NewArm], list[int]]:
            absent = [arm for arm in (*retire, *restore) if arm not in served]
            known = self._store.arms_of_ids(self._name, absent)
            for arm in absent:
                if arm not in known:
                    raise InvalidInput(f"the catalogue has no arm {arm!r}, also not a retired one; add it first")
            new = [_as_new(known[arm]) for arm in dict.fromkeys(restore) if arm in known]
            retired = [served.numbers[arm] for arm in dict.fromkeys(retire) if arm in served]
            if new:
                served.check(new)
                _check_count(len(served) + len(new) - len(retired), max_arms)
            return new, retired

        return self._change(changes, expected_version)

    def delete(self) -> int:
        """Delete all arms, also retired ones. Returns the version without them."""
        version = self._store.delete_catalogue(self._name, self._clock())
        self.refresh()
        return version

    def _change(
        self, changes: Callable[[ServedCatalogue], tuple[list[NewArm], list[int]]], expected_version: int | None
    ) -> int:
        """Compute and write a change of the newest version.

        Retry if another process has written a newer one.
        """
        with self._change_lock:
            while True:
                self.refresh()
                served = self._served
                if expected_version is not None and expected_version != served.version:
                    raise VersionConflict(
                        f"the catalogue has version {served.version}, not {expected_version}; read it again"
                    )
                add, retire = changes(served)
                if not add and not retire:
                    return served.version
                version = self._store.change_catalogue(
                    self._name, self._clock(), expected_version=served.version, add=add, retire=retire
                )
                if version is not None:
                    self.refresh()
                    return version


def _check_count(count: int, max_arms: int) -> None:
    if count > max_arms:
        raise InvalidInput(f"a catalogue may have {max_arms} arms; it would have {count}. Retire some first")


def _as_new(arm: CatalogueArm) -> NewArm:
    return NewArm(arm.id, arm.encoding, arm.features)
