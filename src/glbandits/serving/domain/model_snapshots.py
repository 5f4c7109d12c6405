"""What a loop is born with, its models as they are kept, and which policies can be served."""

from typing import Any, NamedTuple

import msgspec
import numpy as np

from glbandits.bandit import Bandit
from glbandits.errors import InvalidInput
from glbandits.features import Features
from glbandits.maths.online_statistics.confidence_sequence import GRID_VERSION
from glbandits.maths.sparse_rows import SparseRows
from glbandits.policy import settings_of
from glbandits.serving.domain.arm_rows import Arms
from glbandits.serving.domain.evidence import Evidence
from glbandits.serving.domain.loop_config import DENSE_WIDTH, LoopConfig


class Identity(msgspec.Struct, frozen=True):
    """What a loop was born with."""

    salt: str
    """Makes its draws its own."""


class Snapshot(msgspec.Struct, frozen=True):
    """A model as it is kept."""

    epoch: int
    sequence: int = msgspec.field(name="number")
    """Of the last decision that the model has learned. Encoded as in older versions."""
    bandit: bytes
    set_aside: int = 0
    """Decisions that could not be learned, since the log was begun. 0 in a snapshot of an older version."""
    evidence: Evidence = Evidence()
    """From the decisions that the model has learned. It begins anew after a snapshot of an older version."""


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The body of its document, or of its entry among the models."""
    return msgspec.msgpack.encode(snapshot)


def decode_snapshot(body: bytes) -> Snapshot:
    """What `encode_snapshot` has encoded."""
    snapshot = msgspec.msgpack.decode(body, type=Snapshot)
    usable = snapshot.evidence.version == GRID_VERSION
    return snapshot if usable else msgspec.structs.replace(snapshot, evidence=Evidence())


def fresh_model(configuration: LoopConfig, features: Features | None = None) -> Bandit:
    """A model that knows nothing. A feature map of another width is not used."""
    usable = features if features is not None and features.dim == configuration.width else None
    return Bandit(
        configuration.policy_settings(), configuration.width, seed=0, sparse=configuration.is_sparse, features=usable
    )


class FirstModel(NamedTuple):
    """A trained model with which new loops begin."""

    content: bytes
    """As `Bandit.save` wrote it."""
    policy: str
    settings: dict[str, Any]
    width: int
    sparse: bool | None
    """None if it is what the width says, as in `LoopConfig`."""

    @classmethod
    def load(cls, path: str) -> "FirstModel":
        """Read a model file. Raises ModelFileError or InvalidInput if it cannot be served."""
        bandit = Bandit.load(path)
        sparse = None if bandit.sparse == (bandit.dim > DENSE_WIDTH) else bandit.sparse
        model = cls(bandit.to_bytes(), bandit.policy.name, settings_of(bandit.policy), bandit.dim, sparse)
        check_exact(model.configure(LoopConfig()))
        return model

    def configure(self, configuration: LoopConfig) -> LoopConfig:
        """The configuration of a loop that begins with this model."""
        own = {"policy": self.policy, "settings": self.settings, "width": self.width, "sparse": self.sparse}
        return msgspec.structs.replace(configuration, **own)


def arms_of_zeros(model: Bandit, count: int) -> Arms:
    """So many arms without features, as the model takes them."""
    if model.sparse:
        return SparseRows(np.zeros(count + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))
    return np.zeros((count, model.dim))


def check_exact(configuration: LoopConfig) -> None:
    """Raise InvalidInput if the policy has no exact probabilities, in its first decision or a later one."""
    model = fresh_model(configuration)
    exact = model.exact_probabilities(arms_of_zeros(model, 1)) is not None
    later = getattr(model.policy, "draw", None) != "decision"  # which SGD-TS begins only after its first block
    if not (exact and later):
        raise InvalidInput(
            f"{configuration.policy} with these settings has no exact probabilities of actions, which a service must "
            "log. Use optimist."
        )
