"""What a loop is born with, its models as they are kept, and which policies can be served."""

import msgspec

from glbandits.bandit import Bandit
from glbandits.errors import InvalidInput
from glbandits.maths.confidence_sequence import GRID_VERSION
from glbandits.serving.domain.evidence import Evidence
from glbandits.serving.domain.loop_config import LoopConfig


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


def fresh_model(configuration: LoopConfig) -> Bandit:
    """A model that knows nothing."""
    return Bandit(configuration.policy_settings(), configuration.width, seed=0)


def check_exact(configuration: LoopConfig) -> None:
    """Raise InvalidInput if the policy has no exact probabilities, in its first decision or a later one."""
    model = fresh_model(configuration)
    exact = model.exact_probabilities([[0.0] * configuration.width]) is not None
    later = getattr(model.policy, "draw", None) != "decision"  # which SGD-TS begins only after its first block
    if not (exact and later):
        raise InvalidInput(
            f"{configuration.policy} with these settings has no exact probabilities of actions, which a service must "
            "log. Use optimist."
        )
