"""The model of a loop as decisions see it."""

from typing import NamedTuple

from glbandits.bandit import Bandit
from glbandits.serving.domain.evidence import Evidence
from glbandits.serving.domain.model_snapshots import Snapshot, encode_snapshot
from glbandits.serving.domain.request_map import RequestEncoder


class Published(NamedTuple):
    """A model as decisions see it. It never changes; another takes its place."""

    epoch: int
    sequence: int
    bandit: Bandit
    encoder: RequestEncoder
    set_aside: int = 0
    """Decisions that could not be learned, since the log was begun."""
    evidence: Evidence = Evidence()
    """Whether the loop is better than its baseline, from the decisions that the model has learned."""

    def encoded(self) -> bytes:
        """The body of its document, or of its entry among the models."""
        return encode_snapshot(
            Snapshot(self.epoch, self.sequence, self.bandit.to_bytes(), self.set_aside, self.evidence)
        )
