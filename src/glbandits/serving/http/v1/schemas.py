"""What goes over the wire, as types. The OpenAPI description is made from these, and the client reads with them."""

from datetime import datetime
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from glbandits.serving.domain.catalogue_arms import CatalogueRecord
from glbandits.serving.domain.events import Aggregation, EventStatus, Mode
from glbandits.serving.domain.explanation import Contribution
from glbandits.serving.domain.loop_config import LoopConfig
from glbandits.serving.domain.optimisation import Gain, LookVerdict

LONGEST_ID = 256
"""Characters of an id, of an event, an arm or a reward's key."""

Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST_ID)]


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What all messages share: names in camelCase, and nothing that is not known."""


class DecideRequest(Wire, frozen=True, kw_only=True):
    """A question: which of these arms?"""

    event_id: Id | None = None
    """Names the decision, and seeds its draw. The same one again gets the same answer. None: the server makes one."""
    arms: Annotated[list[list[float]], Meta(min_length=1)] | None = None
    """The features of each arm: as many numbers as the loop is wide. Send these or `rows`."""
    rows: Annotated[list[dict[str, Any]], Meta(min_length=1)] | None = None
    """The named fields of each arm, which the feature map of the model makes features of, or hashing if it has none."""
    context: dict[str, Any] | None = None
    """The named fields that all `rows` share."""
    ids: list[Id] | None = None
    """Names of the arms, for the log. None: their indices."""
    excluded: list[Annotated[int, Meta(ge=0)]] = []
    """Indices of arms that must not be chosen."""
    deferred: bool = False
    """Whether the decision counts only once it is activated."""


class Decided(Wire, frozen=True, kw_only=True):
    """The answer."""

    event_id: str
    arm: int
    """Index of the arm to use."""
    id: str
    probability: float
    probabilities: tuple[float, ...]
    """The probability that the model gave each arm, in the order of the request."""
    model_version: str
    """Epoch and number of the model: see the guide."""
    degraded: bool
    """The log did not say in time that it has the decision. A reward for it may find it unknown after a crash."""


class EventRewardRequest(Wire, frozen=True, kw_only=True):
    """What came of a decision."""

    event_id: Id
    value: float
    key: Annotated[str, Meta(max_length=LONGEST_ID)] = ""
    """A name for this reward: sent twice under the same name it counts once."""


class Rewarded(Wire, frozen=True, kw_only=True):
    """What became of a reward, or of an activation."""

    event_id: str
    status: EventStatus
    """Late ones are in the log and are not learned."""


class ActivateRequest(Wire, frozen=True, kw_only=True):
    """A deferred decision was used after all."""

    event_id: Id


class BatchRequest(Wire, frozen=True, kw_only=True):
    """Several questions and several rewards. Decisions come first: a reward may be of one in the same batch."""

    decide: list[DecideRequest] = []
    reward: list[EventRewardRequest] = []


class ItemProblem(Wire, frozen=True, kw_only=True):
    """Why one item of a batch was refused."""

    status: int
    """What its own request would have been answered with."""
    code: str
    detail: str


class DecideOutcome(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """One of the two."""

    decided: Decided | None = None
    problem: ItemProblem | None = None


class RewardOutcome(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """One of the two."""

    rewarded: Rewarded | None = None
    problem: ItemProblem | None = None


class BatchReply(Wire, frozen=True, kw_only=True):
    """What became of each item, in their order."""

    decide: list[DecideOutcome]
    reward: list[RewardOutcome]


class EventReward(Wire, frozen=True, kw_only=True):
    """A reward as it is in the log."""

    number: int
    at: datetime
    value: float
    key: str
    late: bool


class EventRecord(Wire, frozen=True, kw_only=True):
    """A decision as it is in the log, with all that came of it so far."""

    # `Decision` documents the fields that have the same name.
    number: int
    event_id: str
    slot: str
    at: datetime
    actions: tuple[str, ...]
    excluded: tuple[int, ...]
    shown: int
    chosen: int
    probability: float
    probabilities: tuple[float, ...]
    model_version: str
    mode: Mode
    deferred: bool
    activated_at: datetime | None
    rewards: list[EventReward]
    wait: float
    """Seconds that rewards are waited for."""
    default_reward: float
    aggregation: Aggregation
    exploration: float
    seed: str
    """What the draw was made with; as text, because it has more digits than JavaScript keeps."""
    encoding: str
    """json or dense: what the features are."""
    features: Any
    """Of dense arms a list of numbers each; else the shared features and those of each action."""
    catalogue: CatalogueRecord | None = None
    """Of a decision from the catalogue; `actions` are then the baseline and the arm that was drawn."""


class Events(Wire, frozen=True, kw_only=True):
    """A page of the log, the newest first."""

    events: list[EventRecord]
    before: int | None
    """What to ask for to get the next page; None if this is the last."""


class ExplainedAction(Wire, frozen=True, kw_only=True):
    """The score of an action and what it is made of."""

    # `ActionExplanation` documents the fields that have the same name.
    id: str
    score: float
    probability: float
    shown: bool
    chosen: bool
    """Whether the model drew it: another one than was shown unless the mode is Online."""
    contributions: tuple[Contribution, ...]


class ExplainedSlot(Wire, frozen=True, kw_only=True):
    """The actions of one decision."""

    slot: str
    """Empty if the event has only one."""
    explained_by: str
    """Version of the model whose coefficients these are: the one that decided if the explanation is exact."""
    actions: list[ExplainedAction]
    """In the order of the request."""


class Explanation(Wire, frozen=True, kw_only=True):
    """Why the actions of an event got their scores."""

    event_id: str
    model_version: str
    """Version of the model that decided; with several slots, the first one."""
    exact: bool
    """Whether each slot is explained by the model that decided. If not, by the model that decides now."""
    slots: list[ExplainedSlot]


class Counts(Wire, frozen=True, kw_only=True):
    """How many events came, of each status."""

    decisions: dict[EventStatus, int]
    rewards: dict[EventStatus, int]
    activations: dict[EventStatus, int]


class LookRecord(Wire, frozen=True, kw_only=True):
    """What came of a look of the auto-optimisation."""

    # `Look` documents the fields that have the same name.
    at: datetime
    verdict: LookVerdict
    sentence: str
    gains: dict[str, Gain]
    decisions: int


class Optimisation(Wire, frozen=True, kw_only=True):
    """The auto-optimisation of a loop."""

    next_at: datetime | None
    """When the next look is due; None if the auto-optimisation is off."""
    last: LookRecord | None


class Status(Wire, frozen=True, kw_only=True):
    """How a loop is doing."""

    loop: str
    policy: str
    width: int
    sparse: bool
    """Whether the model is sparse."""
    mode: Mode
    model_version: str
    learned_to: int
    """The number of the last decision that the model has passed."""
    learning_failed: str | None
    """What the last try to learn failed with."""
    queue: int
    """Events of all loops that wait to be written."""
    first_at: datetime | None
    last_at: datetime | None
    counts: Counts
    optimisation: Optimisation


class Loops(Wire, frozen=True, kw_only=True):
    """The loops of the server."""

    loops: list[str]


LoopConfiguration: Any = msgspec.defstruct(
    "LoopConfiguration",
    [
        (field.name, field.type, msgspec.field(default=field.default, default_factory=field.default_factory))  # type: ignore[call-overload]
        for field in msgspec.structs.fields(LoopConfig)
    ],
    bases=(Wire,),
    namespace={"__doc__": "Settings of a loop. What is left out of a whole configuration has its default."},
    frozen=True,
    kw_only=True,
)
"""`LoopConfig` in camelCase, so that no setting has two homes."""
