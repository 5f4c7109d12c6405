"""The rows of a batch, in the order of the columns of `schema.TABLES`."""

import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from glbandits.service.domain.event_rules import EventClassifier, opens_event
from glbandits.service.domain.events import Decision
from glbandits.service.storage.action_sets import BatchSets, SetName
from glbandits.service.storage.schema import LAST_SEQUENCE_KEY

Rows = dict[str, list[tuple[Any, ...]]]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Decision).decode
COMPRESSED = 0x78
"""First byte of a body that zlib has compressed. Other bodies begin with a map of msgpack, which has another one."""


def decode_body(body: bytes) -> Decision:
    """Decode a decision, without the fields of its set if it has one."""
    return _decode(zlib.decompress(body) if body[0] == COMPRESSED else body)


def rows_of(new: EventClassifier, sets: BatchSets, known_sets: Mapping[SetName, int]) -> Rows:
    """Return the rows to write by table. Those of `event_counts` are added to the present counts.

    Args:
        new: has classified the events of the batch.
        sets: the sets of the batch that have, or get, rows.
        known_sets: the numbers of those that the log has.
    """
    numbers, decisions, action_sets = dict(known_sets), list[tuple[Any, ...]](), list[tuple[Any, ...]]()
    for sequence, deadline, unit, d in new.decisions:
        number, split = None, sets.split(d) if sets.names else None
        if split is not None:
            if split.name not in numbers:
                action_sets.append((sequence, *split.name, split.body))
            number = numbers.setdefault(split.name, sequence)
        body = _encode(d if split is None else split.rest)
        if d.slots and not opens_event(
            d
        ):  # later slots of a ranking have few different probabilities; this takes 30 us
            body = zlib.compress(body, 1)
        name, limits = (d.loop, d.event_id, d.slot), d.reward_range or (None, None)
        decisions.append((sequence, *name, d.timestamp, deadline, *limits, *unit, body, number))
    # One statement may write a row once: of a late activation and one on time, the second counts.
    activations = {of: (of, sequence, each.timestamp, int(late)) for sequence, of, late, each in new.activations}
    return {
        "decisions": decisions,
        "action_sets": action_sets,
        "units": [(*name, *unit) for name, unit in new.units.items()],
        "rewards": [
            (of, sequence, each.timestamp, each.value, each.metric, each.key, int(late))
            for sequence, of, late, each in new.rewards
        ],
        "activations": list(activations.values()),
        "event_counts": [
            (*LAST_SEQUENCE_KEY, new.last - new.before),
            *((*which, count) for which, count in new.counts.items()),
        ],
    }
