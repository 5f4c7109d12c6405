"""The arms of a catalogue in memory, and the draw of one of them. Nothing here reads a clock or a store."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from glbandits.bandit import Bandit, Catalogue, cross_features
from glbandits.bandit.catalogue import Combine
from glbandits.bandit.input_checks import check_usable
from glbandits.errors import InvalidInput
from glbandits.records import Floats, Ints
from glbandits.serving.domain.action_selection import DENSE, JSON, share_of
from glbandits.serving.domain.arm_features import context_size, described_arms, features_of_arms
from glbandits.serving.domain.catalogue_arms import CatalogueArm, CatalogueQuestion, CatalogueRecord, NewArm
from glbandits.serving.domain.request_map import RequestMap, encoder_of


class UnknownArm(InvalidInput):
    """The catalogue does not have an arm that a question names, or any."""


class CatalogueChoice(NamedTuple):
    """The arm that was drawn, beside the baseline if the question names one: what the log has of a decision."""

    record: CatalogueRecord
    actions: tuple[str, ...]
    """Ids: of the baseline, if the question names one, and of the arm that was drawn, if it is another."""
    chosen: int
    """Index of the arm that was drawn."""
    probabilities: tuple[float, ...]
    """The exact probability of each of them."""
    request: bytes
    """Their features, as `Decision.request` has them."""
    encoding: str


class ServedCatalogue:
    """The arms of one version of a catalogue, for models of one width and feature map. Belongs to one thread at a time.

    Args:
        bandit: a model that decides among the arms.
    """

    def __init__(self, bandit: Bandit) -> None:
        self.version = 0
        self._width, self._features, self._encoder = bandit.dim, bandit.features, encoder_of(bandit)
        self._bandit = bandit
        self._numbers: dict[str, int] = {}
        self._arms: dict[int, CatalogueArm] = {}
        """By number. Those of dense arms have no features: the catalogue has them."""
        self._catalogue: Catalogue | None = None
        self._failure: str | None = None
        """Why there is no catalogue, though there are arms."""
        self._order: Ints | None = None
        """The rows of the catalogue by the numbers of their arms; None if they must be sorted again."""
        self._row_numbers: Ints

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, arm_id: str) -> bool:
        return arm_id in self._numbers

    @property
    def encoding(self) -> str | None:
        """How the features of all arms are encoded; None if there are none."""
        return next(iter(self._arms.values())).encoding if self._arms else None

    @property
    def dim(self) -> int | None:
        """The number of features of each arm; None if there are none."""
        return None if self._catalogue is None else self._catalogue.dim

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each arm by its id."""
        return self._numbers

    def fits(self, bandit: Bandit) -> bool:
        """Whether the features of the arms were made for models like this one."""
        if self._features is not bandit.features and self._features == bandit.features:
            self._features = bandit.features  # the next comparison is quick
        same = self._width == bandit.dim and self._bandit.sparse == bandit.sparse
        return same and self._features is bandit.features

    def apply(self, version: int, arms: Sequence[CatalogueArm]) -> None:
        """Go on to another version: add and retire those of the arms that it has, or does not have any more.

        If the model cannot make features of the fields of an arm, draws raise the error until the arms are replaced.
        """
        gone = [arm.number for arm in arms if arm.number in self._arms and not arm.is_in(version)]
        new = [arm for arm in arms if arm.number not in self._arms and arm.is_in(version)]
        for number in gone:
            arm = self._arms.pop(number)
            if self._numbers[arm.id] == number:
                del self._numbers[arm.id]
        for arm in new:
            self._numbers[arm.id], self._arms[arm.number] = arm.number, arm
        self.version, self._order = version, None
        try:
            self._update_features(gone, new)
        except InvalidInput as error:
            self._catalogue, self._failure = None, str(error)

    def _update_features(self, gone: Sequence[int], new: Sequence[CatalogueArm]) -> None:
        if self._failure is not None:
            new, self._failure = list(self._arms.values()), None
        elif self._catalogue is not None and len(self._arms) > len(new):
            self._catalogue.retire(gone)
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
        """What makes the features that the model sees of those of arms and a context; None without contexts."""
        if self.encoding == JSON:
            return None if self._map_of_context is None else self._map_of_context.combine
        return None if dim == self._width else cross_features

    @property
    def _map_of_context(self) -> RequestMap | None:
        """The feature map, if it has columns of the context and the arms have named fields."""
        encoder = self._encoder
        if self.encoding == JSON and isinstance(encoder, RequestMap) and encoder.features.context.width:
            return encoder
        return None

    def has(self, arm: NewArm) -> bool:
        """Whether there is an arm with this id and these features."""
        number = self._numbers.get(arm.id)
        if number is None or self._catalogue is None or self._arms[number].encoding != arm.encoding:
            return False
        own = self._arms[number].features if arm.encoding == JSON else self._catalogue[number].tobytes()
        return own == arm.features

    def check(self, arms: Sequence[NewArm]) -> None:
        """Raise InvalidInput unless these arms can take the place of those with the same ids, or be added."""
        features = features_of_arms(arms, self._encoder)
        check_usable("features", features)
        if self._bandit.sparse:
            raise InvalidInput("a catalogue needs a loop with dense features, and this one is sparse")
        dim, stays = features.shape[1], len(self) > len({arm.id for arm in arms}.intersection(self._numbers))
        if arms[0].encoding == DENSE and context_size(dim, self._width) is None:
            raise InvalidInput(
                f"an arm must have the {self._width} features that the loop takes, or p of them with p + q + p q = "
                f"{self._width} for a context of q numbers; got {dim}"
            )
        if stays and (arms[0].encoding, dim) != (self.encoding, self.dim):
            raise InvalidInput(
                f"all arms of a catalogue must be alike; it has {self.encoding} arms of {self.dim} features, got "
                f"{arms[0].encoding} arms of {dim}. Retire the others first"
            )

    def draw(self, bandit: Bandit, question: CatalogueQuestion, exploration: float, seed: int) -> CatalogueChoice:
        """Draw one of the arms that the question allows.

        With probability `exploration` each of them is equally likely, otherwise the model decides. Raises InvalidInput
        if there is no such arm, if the context has another length, or if the policy has no exact probabilities.
        """
        catalogue = self._catalogue
        if self._failure is not None:
            raise InvalidInput(f"the arms of the catalogue cannot be used: {self._failure}. Replace or delete them")
        if catalogue is None:
            raise UnknownArm("the catalogue is empty; add arms to it first")
        context = self._context(catalogue, question.context)
        allowed = self._allowed(catalogue, question)
        baseline = self._baseline(catalogue, question)
        own = self._own_probabilities(bandit, catalogue, question, context)
        drawn = self._drawn(own, allowed, exploration, share_of(seed))
        rows = [drawn] if baseline in (None, drawn) else [baseline, drawn]
        arms = [self._arms[number] for number in self._row_numbers[rows].tolist()]
        mixed = (1.0 - exploration) * own[[*rows, int(own.argmax())]] + exploration / len(allowed)
        *probabilities, highest = mixed.tolist()
        return CatalogueChoice(
            CatalogueRecord(version=self.version, arms=len(allowed), highest=highest, question=question),
            actions=tuple(arm.id for arm in arms),
            chosen=len(rows) - 1,
            probabilities=tuple(probabilities),
            request=described_arms(arms, question.context)
            if self.encoding == JSON
            else catalogue.combined(catalogue.features[rows], context).tobytes(),
            encoding=arms[0].encoding,
        )

    def _own_probabilities(
        self, bandit: Bandit, catalogue: Catalogue, question: CatalogueQuestion, context: Floats | None
    ) -> Floats:
        """The probability that the model gives each row."""
        bandit.share_catalogues(self._bandit)
        self._bandit = bandit
        only = None if question.only is None else [self._numbers[arm] for arm in question.only]
        excluded = [self._numbers[arm] for arm in question.excluded if arm in self._numbers]
        own = bandit.exact_probabilities_from(catalogue, context, only=only, excluded=excluded)
        if own is None:
            raise InvalidInput(
                f"{bandit.policy.name} has no exact probabilities of actions, which a service must log. Use optimist."
            )
        return own

    def _allowed(self, catalogue: Catalogue, question: CatalogueQuestion) -> Ints:
        """The rows that may be chosen, by the numbers of their arms."""
        if self._order is None:
            self._row_numbers = np.array(catalogue.ids, dtype=np.int64)
            self._order = np.argsort(self._row_numbers, kind="stable")
        if question.only is None and not question.excluded:
            return self._order
        excluded = [catalogue.row(self._numbers[arm]) for arm in question.excluded if arm in self._numbers]
        if question.only is not None:
            rows = np.array([catalogue.row(self._number("only", arm)) for arm in question.only], dtype=np.int64)
            allowed = self._by_number(np.setdiff1d(rows, excluded))
        else:
            allowed = self._order[~np.isin(self._order, excluded)]
        if not len(allowed):
            raise InvalidInput(f"none of the {len(self)} arms of the catalogue may be chosen; leave at least one")
        return allowed

    def _by_number(self, rows: Ints) -> Ints:
        return rows[np.argsort(self._row_numbers[rows], kind="stable")]

    def _drawn(self, own: Floats, allowed: Ints, exploration: float, share: float) -> int:
        """The row that a share of [0, 1) draws: uniformly below `exploration`, and by the model above."""
        if share < exploration:
            return int(allowed[min(int(share / exploration * len(allowed)), len(allowed) - 1)])
        rows = self._by_number(np.flatnonzero(own))
        cumulative = np.cumsum(own[rows])
        part = (share - exploration) / (1.0 - exploration) * cumulative[-1]
        return int(rows[min(int(np.searchsorted(cumulative, part, side="right")), len(rows) - 1)])

    def _baseline(self, catalogue: Catalogue, question: CatalogueQuestion) -> int | None:
        """The row of the baseline."""
        baseline = question.baseline
        if baseline is None:
            return None
        if baseline in question.excluded or (question.only is not None and baseline not in question.only):
            raise InvalidInput(f"the baseline must be an arm that may be chosen; {baseline!r} may not")
        return catalogue.row(self._number("baseline", baseline))

    def _number(self, role: str, arm: str) -> int:
        if arm not in self._numbers:
            raise UnknownArm(
                f"{role}: the catalogue has no arm {arm!r} in version {self.version}; it was retired, or never added"
            )
        return self._numbers[arm]

    def _context(self, catalogue: Catalogue, context: tuple[float, ...] | dict[str, Any] | None) -> Floats | None:
        """The context as the catalogue takes it. Raises InvalidInput if it does not fit the arms."""
        if (encoder := self._map_of_context) is not None:
            if not isinstance(context, dict):
                named = ", ".join(encoder.features.context.kinds)
                raise InvalidInput(f"context must be an object with the fields {named}; got {repr(context)[:60]}")
            return encoder.context_features(context)
        size = context_size(catalogue.dim, self._width) if self.encoding == DENSE else 0
        if size is None:
            raise InvalidInput(
                f"the arms of the catalogue have {catalogue.dim} features, which do not fit the loop's {self._width}. "
                "Replace the arms, or configure the loop for another width"
            )
        if isinstance(context, dict) or len(context or ()) != size:
            got = "an object" if isinstance(context, dict) else len(context or ())
            raise InvalidInput(
                f"the loop takes {self._width} features, and the arms of its catalogue have {catalogue.dim}, so "
                f"context must have {size} numbers; got {got}"
            )
        return np.array(context) if size else None
