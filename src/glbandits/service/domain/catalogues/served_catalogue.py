"""The arms of a catalogue in memory, and the draw of one of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from glbandits.bandit import Bandit, Catalogue, cross_features
from glbandits.bandit.catalogue import Combine
from glbandits.bandit.input_checks import check_usable
from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput
from glbandits.service.domain.action_selection import uniform_of
from glbandits.service.domain.catalogues.catalogue_features import context_size, encode_json_arms, features_of_arms
from glbandits.service.domain.catalogues.catalogue_records import CatalogueArm, CatalogueQuery, CatalogueRecord, NewArm
from glbandits.service.domain.request_features import DENSE, JSON, RequestMap, encoder_of


class UnknownArm(InvalidInput):
    """The query names an arm that the catalogue does not have, or the catalogue is empty."""


class CatalogueChoice(NamedTuple):
    """The fields of a logged decision: the drawn arm and the baseline, if there is one."""

    record: CatalogueRecord
    actions: tuple[str, ...]
    """Ids of the baseline, if the query names one, and of the drawn arm, if it is another one."""
    chosen: int
    """Index of the drawn arm in `actions`."""
    probabilities: tuple[float, ...]
    """The exact probability of each of `actions`."""
    request: bytes
    """The features of `actions`, for `Decision.request`."""
    encoding: str


class ServedCatalogue:
    """The arms of one version of a catalogue, for models of one width and feature map.

    Belongs to one thread at a time. It changes to other versions by `apply`.

    Args:
        bandit: a model that decides among the arms.
    """

    def __init__(self, bandit: Bandit) -> None:
        self.version = 0
        self._width, self._features, self._encoder = bandit.dim, bandit.features, encoder_of(bandit)
        self._is_sparse = bandit.sparse
        self._numbers: dict[str, int] = {}
        self._arms: dict[int, CatalogueArm] = {}
        """By number. Dense arms are without features here, because `_catalogue` has them."""
        self._catalogue: Catalogue | None = None
        self._failure: str | None = None
        """Why the features of the arms could not be computed; None if they could."""
        self._order: Ints | None = None
        """The rows of the catalogue in the order of the arms' numbers; None if the arms have changed."""
        self._row_numbers: Ints

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, arm_id: str) -> bool:
        return arm_id in self._numbers

    @property
    def encoding(self) -> str | None:
        """The encoding of the features of all arms; None if there are no arms."""
        return next(iter(self._arms.values())).encoding if self._arms else None

    @property
    def dim(self) -> int | None:
        """The number of features of each arm; None if there are no arms."""
        return None if self._catalogue is None else self._catalogue.dim

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each arm by its id."""
        return self._numbers

    def is_built_for(self, bandit: Bandit) -> bool:
        """Return whether the features of the arms were computed for models like this one."""
        if self._features is not bandit.features and self._features == bandit.features:
            self._features = bandit.features  # makes the next comparison fast
        same = self._width == bandit.dim and self._is_sparse == bandit.sparse
        return same and self._features is bandit.features

    def apply(self, version: int, arms: Sequence[CatalogueArm]) -> None:
        """Change to another version: add its new arms, and remove arms that it does not have.

        If the model cannot use the fields of an arm, draws raise the error until the arm is replaced.

        Args:
            version: the new version.
            arms: at least all arms that were added or retired since the present version.
        """
        retired = [arm.number for arm in arms if arm.number in self._arms and not arm.is_in(version)]
        new = [arm for arm in arms if arm.number not in self._arms and arm.is_in(version)]
        for number in retired:
            arm = self._arms.pop(number)
            if self._numbers[arm.id] == number:
                del self._numbers[arm.id]
        for arm in new:
            self._numbers[arm.id], self._arms[arm.number] = arm.number, arm
        self.version, self._order = version, None
        try:
            self._update_features(retired, new)
        except InvalidInput as error:
            self._catalogue, self._failure = None, str(error)

    def _update_features(self, retired: Sequence[int], new: Sequence[CatalogueArm]) -> None:
        if self._failure is not None:
            new, self._failure = list(self._arms.values()), None
        elif self._catalogue is not None and len(self._arms) > len(new):
            self._catalogue.retire(retired)
        else:  # the first arms, which may have another width
            self._catalogue = None
        if new:
            features = features_of_arms(new, self._encoder)
            if self._catalogue is None:
                self._catalogue = Catalogue([], np.empty((0, features.shape[1])), self._combine(features.shape[1]))
            self._catalogue.add([arm.number for arm in new], features)
        for arm in new:
            if arm.encoding == DENSE:
                self._arms[arm.number] = msgspec.structs.replace(arm, features=b"")

    def _combine(self, dim: int) -> Combine | None:
        """Return the function that combines arms with a context; None if arms need no context."""
        if self.encoding == JSON:
            return None if self._map_of_context is None else self._map_of_context.combine
        return None if dim == self._width else cross_features

    @property
    def _map_of_context(self) -> RequestMap | None:
        """The feature map, if it has columns for the context and the arms have named fields."""
        encoder = self._encoder
        if self.encoding == JSON and isinstance(encoder, RequestMap) and encoder.features.context.width:
            return encoder
        return None

    def has(self, arm: NewArm) -> bool:
        """Return whether the catalogue has an arm with this id and these features."""
        number = self._numbers.get(arm.id)
        if number is None or self._catalogue is None or self._arms[number].encoding != arm.encoding:
            return False
        own = self._arms[number].features if arm.encoding == JSON else self._catalogue[number].tobytes()
        return own == arm.features

    def check(self, arms: Sequence[NewArm]) -> None:
        """Raise InvalidInput unless these arms can be added, or replace those with the same ids."""
        features = features_of_arms(arms, self._encoder)
        check_usable("features", features)
        if self._is_sparse:
            raise InvalidInput("a catalogue needs a loop with dense features; this loop is sparse")
        dim, keeps_other_arms = features.shape[1], len(self) > len({arm.id for arm in arms}.intersection(self._numbers))
        if arms[0].encoding == DENSE and context_size(dim, self._width) is None:
            raise InvalidInput(
                f"an arm must have {self._width} features, the width of the loop, or p features with p + q + p q = "
                f"{self._width} for a context of q numbers; got {dim}"
            )
        if keeps_other_arms and (arms[0].encoding, dim) != (self.encoding, self.dim):
            raise InvalidInput(
                f"all arms of a catalogue must have the same kind of features; it has {self.encoding} arms of "
                f"{self.dim} features, got "
                f"{arms[0].encoding} arms of {dim}. Retire the others first"
            )

    def draw(self, bandit: Bandit, query: CatalogueQuery, exploration: float, seed: int) -> CatalogueChoice:
        """Draw one of the arms that the query allows.

        With probability `exploration` each allowed arm is equally likely, otherwise the model decides. Raises
        InvalidInput if no arm is allowed, if the context does not fit, or if the policy has no exact probabilities.
        """
        catalogue = self._catalogue
        if self._failure is not None:
            raise InvalidInput(f"the arms of the catalogue are unusable: {self._failure}. Replace or delete them")
        if catalogue is None:
            raise UnknownArm("the catalogue is empty; add arms to it first")
        context = self._context(catalogue, query.context)
        allowed = self._allowed(catalogue, query)
        baseline = self._baseline(catalogue, query)
        own = self._own_probabilities(bandit, catalogue, query, context)
        drawn = self._drawn(own, allowed, exploration, uniform_of(seed))
        rows = [drawn] if baseline in (None, drawn) else [baseline, drawn]
        arms = [self._arms[number] for number in self._row_numbers[rows].tolist()]
        mixed = (1.0 - exploration) * own[[*rows, int(own.argmax())]] + exploration / len(allowed)
        *probabilities, highest = mixed.tolist()
        return CatalogueChoice(
            CatalogueRecord(version=self.version, arms=len(allowed), highest=highest, query=query),
            actions=tuple(arm.id for arm in arms),
            chosen=len(rows) - 1,
            probabilities=tuple(probabilities),
            request=encode_json_arms(arms, query.context)
            if self.encoding == JSON
            else catalogue.combined(catalogue.features[rows], context).tobytes(),
            encoding=arms[0].encoding,
        )

    def _own_probabilities(
        self, bandit: Bandit, catalogue: Catalogue, query: CatalogueQuery, context: Floats | None
    ) -> Floats:
        """Return the probability of each row under the model, without exploration."""
        only = None if query.only is None else [self._numbers[arm] for arm in query.only]
        excluded = [self._numbers[arm] for arm in query.excluded if arm in self._numbers]
        own = bandit.exact_probabilities_from(catalogue, context, only=only, excluded=excluded)
        if own is None:
            raise InvalidInput(
                f"{bandit.policy.name} has no exact probabilities of actions, which a service must log. Use optimist."
            )
        return own

    def _allowed(self, catalogue: Catalogue, query: CatalogueQuery) -> Ints:
        """Return the rows that may be chosen, in the order of the arms' numbers."""
        if self._order is None:
            self._row_numbers = np.array(catalogue.ids, dtype=np.int64)
            self._order = np.argsort(self._row_numbers, kind="stable")
        if query.only is None and not query.excluded:
            return self._order
        excluded = [catalogue.row(self._numbers[arm]) for arm in query.excluded if arm in self._numbers]
        if query.only is not None:
            rows = np.array([catalogue.row(self._number("only", arm)) for arm in query.only], dtype=np.int64)
            allowed = self._by_number(np.setdiff1d(rows, excluded))
        else:
            allowed = self._order[~np.isin(self._order, excluded)]
        if not len(allowed):
            raise InvalidInput(f"all {len(self)} arms of the catalogue are excluded; leave at least one")
        return allowed

    def _by_number(self, rows: Ints) -> Ints:
        return rows[np.argsort(self._row_numbers[rows], kind="stable")]

    def _drawn(self, own: Floats, allowed: Ints, exploration: float, uniform: float) -> int:
        """Return the row that a number of [0, 1) draws.

        Numbers below `exploration` draw a random arm, the others draw by the probabilities of the model.
        """
        if uniform < exploration:
            return int(allowed[min(int(uniform / exploration * len(allowed)), len(allowed) - 1)])
        rows = self._by_number(np.flatnonzero(own))
        cumulative = np.cumsum(own[rows])
        part = (uniform - exploration) / (1.0 - exploration) * cumulative[-1]
        return int(rows[min(int(np.searchsorted(cumulative, part, side="right")), len(rows) - 1)])

    def _baseline(self, catalogue: Catalogue, query: CatalogueQuery) -> int | None:
        """Return the row of the baseline.

        Raises InvalidInput if the query does not allow the baseline.
        """
        baseline = query.baseline
        if baseline is None:
            return None
        if baseline in query.excluded or (query.only is not None and baseline not in query.only):
            raise InvalidInput(f"the baseline must be an arm that may be chosen; {baseline!r} is excluded")
        return catalogue.row(self._number("baseline", baseline))

    def _number(self, role: str, arm: str) -> int:
        if arm not in self._numbers:
            raise UnknownArm(
                f"{role}: version {self.version} of the catalogue has no arm {arm!r}; add it, or restore it if it "
                "was retired"
            )
        return self._numbers[arm]

    def _context(self, catalogue: Catalogue, context: tuple[float, ...] | dict[str, Any] | None) -> Floats | None:
        """Return the features of a context, None without a context.

        Raises InvalidInput if it does not fit the arms.
        """
        if (encoder := self._map_of_context) is not None:
            if not isinstance(context, dict):
                named = ", ".join(encoder.features.context.kinds)
                raise InvalidInput(f"context must be an object with the fields {named}; got {repr(context)[:60]}")
            return encoder.context_features(context)
        size = context_size(catalogue.dim, self._width) if self.encoding == DENSE else 0
        if size is None:
            raise InvalidInput(
                f"arms of {catalogue.dim} features cannot be used with the loop's width of {self._width}. "
                "Replace the arms, or configure the loop for another width"
            )
        if isinstance(context, dict) or len(context or ()) != size:
            got = "an object" if isinstance(context, dict) else len(context or ())
            raise InvalidInput(
                f"context must have {size} numbers, because the loop has a width of {self._width} and the arms have "
                f"{catalogue.dim} features; got {got}"
            )
        return np.array(context) if size else None
