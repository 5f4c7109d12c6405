"""Models of a loop: in memory, as snapshots in the store, and for new loops from a file."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from glbandits.bandit import Bandit
from glbandits.common.errors import InvalidInput, ModelFileError
from glbandits.features.transformer_features import Features
from glbandits.maths.sparse_rows import SparseRows
from glbandits.policies.contract import settings_of
from glbandits.service.domain.decision_learning import LearningOutcome
from glbandits.service.domain.evidence import VERSION, LoopEvidence
from glbandits.service.domain.loop_config import DENSE_WIDTH, LoopConfig
from glbandits.service.domain.request_features import Arms, RequestEncoder, encoder_of


class Identity(msgspec.Struct, frozen=True):
    """The document that is created with a loop."""

    salt: str
    """Part of the seed of every draw, so that loops draw independently."""


class PublishedModel(NamedTuple):
    """The model with which a process decides. It is immutable: learning publishes a new one."""

    epoch: int
    learned_through: int
    """Sequence number of the last decision that the model has learned."""
    bandit: Bandit
    encoder: RequestEncoder
    set_aside: int = 0
    """Decisions of the log that cannot be learned, with those that count as `invalidating`."""
    invalidating: int = 0
    """Decisions that were set aside because the model would have become invalid."""
    evidence: LoopEvidence = LoopEvidence()
    """Whether the loop is better than its baseline, from the decisions that the model has learned."""
    relearn_after: int | None = 0
    """The model has learned the decisions of the log after this sequence number, and nothing else. None if the log does
    not have all that it has learned: decisions were deleted, or the model comes from a file or from
    `glb store models use`."""

    @classmethod
    def of_snapshot(cls, snapshot: "Snapshot", bandit: Bandit, encoder: RequestEncoder) -> "PublishedModel":
        """Return the model of a snapshot. `bandit` is its model, loaded."""
        own = {name: getattr(snapshot, name) for name in cls._fields if name not in ("bandit", "encoder")}
        return cls(bandit=bandit, encoder=encoder, **own)

    def after(self, bandit: Bandit, outcomes: Sequence[LearningOutcome]) -> "PublishedModel":
        """Return this model with a bandit that has learned more decisions, whose outcomes are counted."""
        invalidating = outcomes.count(LearningOutcome.INVALIDATING)
        set_aside = outcomes.count(LearningOutcome.SET_ASIDE) + invalidating
        return self._replace(
            bandit=bandit, set_aside=self.set_aside + set_aside, invalidating=self.invalidating + invalidating
        )

    def encoded(self) -> bytes:
        """Return the snapshot of the model for the store. Raises ModelFileError if the model is not valid."""
        snapshot = Snapshot(
            self.epoch,
            self.learned_through,
            self.bandit.to_bytes(),
            set_aside=self.set_aside,
            invalidating=self.invalidating,
            evidence=self.evidence,
            relearn_after=self.relearn_after,
        )
        return encode_snapshot(snapshot)

    def restarted(self, configuration: LoopConfig) -> "PublishedModel":
        """Return a model for a configuration that has learned nothing. It keeps the feature map if that fits."""
        bandit = fresh_model(configuration, self.bandit.features)
        return self._replace(bandit=bandit, encoder=encoder_of(bandit), relearn_after=self.learned_through)


class Snapshot(msgspec.Struct, frozen=True):
    """A model as it is stored."""

    epoch: int
    learned_through: int
    """Sequence number of the last decision that the model has learned."""
    bandit: bytes
    set_aside: int = 0
    invalidating: int = 0
    evidence: LoopEvidence = LoopEvidence()
    """From the decisions that the model has learned."""
    relearn_after: int | None = 0
    """See `PublishedModel.relearn_after`."""


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return the body of a document or of a saved model."""
    return msgspec.msgpack.encode(snapshot)


def decode_snapshot(body: bytes) -> Snapshot:
    """Decode a snapshot, without its model. LoopEvidence of another version is dropped.

    Raises ModelFileError if the bytes are not a snapshot.
    """
    try:
        snapshot = msgspec.msgpack.decode(body, type=Snapshot)
    except msgspec.MsgspecError as error:
        raise ModelFileError(f"the snapshot is damaged, or was written by another version: {error}") from None
    usable = snapshot.evidence.version == VERSION
    return snapshot if usable else msgspec.structs.replace(snapshot, evidence=LoopEvidence())


def load_snapshot(body: bytes) -> tuple[Snapshot, Bandit]:
    """Decode a snapshot and its model. Raises ModelFileError if one of them cannot be loaded."""
    snapshot = decode_snapshot(body)
    return snapshot, Bandit.from_bytes(snapshot.bandit)


def loadable_snapshot(body: bytes) -> Snapshot | None:
    """Decode a snapshot. Returns None if it or its model cannot be loaded."""
    try:
        return load_snapshot(body)[0]
    except ModelFileError:
        return None


def fresh_model(configuration: LoopConfig, features: Features | None = None) -> Bandit:
    """Return a model that has learned nothing. A feature map of another width is ignored."""
    usable = features if features is not None and features.dim == configuration.width else None
    return Bandit(
        configuration.build_policy(), configuration.width, seed=0, sparse=configuration.is_sparse, features=usable
    )


def fits(bandit: Bandit, configuration: LoopConfig) -> bool:
    """Return whether a model has the policy, the width and the form of a configuration."""
    same = bandit.dim == configuration.width and bandit.sparse == configuration.is_sparse
    return same and bandit.policy == configuration.build_policy()


class FirstModel(NamedTuple):
    """A trained model from a file, for new loops."""

    content: bytes
    """The model file."""
    policy: str
    settings: dict[str, Any]
    width: int
    sparse: bool | None
    """None if it is the default for the width, as in `LoopConfig`."""
    trained: bool
    """Whether the model has learned anything."""

    @classmethod
    def load(cls, path: str) -> "FirstModel":
        """Read a model file. Raises ModelFileError or InvalidInput if it cannot be served."""
        bandit = Bandit.load(path)
        sparse = None if bandit.sparse == (bandit.dim > DENSE_WIDTH) else bandit.sparse
        fresh = Bandit(bandit.policy, bandit.dim, seed=0, sparse=bandit.sparse, features=bandit.features)
        trained = not np.array_equal(bandit.state, fresh.state)
        model = cls(bandit.to_bytes(), bandit.policy.name, settings_of(bandit.policy), bandit.dim, sparse, trained)
        check_exact(model.configure(LoopConfig(reward_range=(-1.0, 1.0))))  # a loop sets its range later
        return model

    def configure(self, configuration: LoopConfig) -> LoopConfig:
        """Return a configuration with the policy, the settings and the width of this model."""
        own = {"policy": self.policy, "settings": self.settings, "width": self.width, "sparse": self.sparse}
        return msgspec.structs.replace(configuration, **own)


def arms_of_zeros(model: Bandit, count: int) -> Arms:
    """Return arms whose features are all 0, for a warm-up."""
    if model.sparse:
        return SparseRows(np.zeros(count + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))
    return np.zeros((count, model.dim))


def check_exact(configuration: LoopConfig) -> None:
    """Raise InvalidInput if the policy lacks exact probabilities in all decisions, or limits of rewards it needs."""
    model = fresh_model(configuration)
    exact = model.exact_probabilities(arms_of_zeros(model, 1)) is not None
    later = getattr(model.policy, "draw", None) != "decision"  # SGD-TS has no exact probabilities after its first block
    if not (exact and later):
        raise InvalidInput(
            f"{configuration.policy} with these settings has no exact probabilities of actions, which a service must "
            "log. Use optimist."
        )
    configuration.check_reward_limits()
