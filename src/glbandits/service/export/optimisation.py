"""Auto-optimisation of a loop: the promotion gate on its log, and the model of a promoted candidate.

**Over the whole life of a loop, the probability of ever promoting a candidate that is worse than the running policy is
at most 5 %.** A look compares the candidates with the running policy once. A gate is a series of looks with the same
candidates and the same running policy, on the decisions from one row of the log on.
`glbandits.evaluation.promotion` bounds the probability of a wrong promotion over all looks of a gate. Gate j has the
share 1 / ((j + 1) (j + 2)) of the 5 %; all shares sum to 1.

A new gate starts with each promotion, and when the policy, the candidates, the exploration, the width or the reward
limits change. It uses only later decisions: earlier ones were made by another policy, and a user may have chosen the
candidates from them. A new gate also starts, on the remaining decisions, when old decisions are deleted.
"""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from glbandits.maths.links import find_link
from glbandits.service.domain.events import Mode
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.model_snapshots import fresh_model
from glbandits.service.domain.optimisation_rules import (
    OPTIMISATION,
    Gain,
    Gate,
    Look,
    LookVerdict,
    OptimisationResult,
    candidates_of,
    check_optimisable,
)
from glbandits.service.domain.request_features import encoder_of
from glbandits.service.export.loop_export import ALWAYS, export_loop
from glbandits.service.runtime.loops.loop_documents import CONFIGURATION, latest_base
from glbandits.service.runtime.loops.loop_statistics import END_OF_TIME
from glbandits.service.runtime.replay.relearning import relearned
from glbandits.service.storage.event_store import EventStore

ALPHA = 0.05
"""Bound on the probability that a loop ever promotes a worse candidate."""


def optimise_log(store: EventStore, loop_name: str, *, learned_through: int) -> OptimisationResult:
    """Compare the candidates of a loop with its running policy. Implements `OptimiseLog`."""
    history = [
        (document.timestamp, msgspec.json.decode(document.body, type=LoopConfig))
        for document in store.documents(loop_name, CONFIGURATION)
    ]
    configuration = history[-1][1]
    check_optimisable(configuration)
    candidates = candidates_of(configuration)
    if not candidates:
        sentence = "Keep the running policy: it is the only candidate."
        return OptimisationResult(Look(verdict=LookVerdict.KEEP, sentence=sentence))
    gate = _gate(store, loop_name, history, candidates)
    look, chosen = _look(store, loop_name, configuration, candidates, gate)
    if chosen is None:
        return OptimisationResult(look)
    base = latest_base(store, loop_name)
    model = fresh_model(candidates[chosen], None if base is None else base.features)
    model = relearned(store, loop_name, model, encoder_of(model), 0, learned_through)
    return OptimisationResult(look, candidates[chosen], model.to_bytes())


def _look(
    store: EventStore, loop_name: str, configuration: LoopConfig, candidates: Mapping[str, LoopConfig], gate: Gate
) -> tuple[Look, str | None]:
    """Return the look, and the candidate to promote, if any."""
    from glbandits.evaluation import read_export
    from glbandits.evaluation.promotion import FIRST_SPLIT, promotion  # needs the extra [lab], which a server may lack

    limits = configuration.reward_limits()
    assert limits is not None
    with TemporaryDirectory() as place:
        folder = Path(place) / "log"
        rows = export_loop(store, loop_name, folder, (gate.since, ALWAYS[1]), [Mode.ONLINE], limits).rows
        if rows < 2 * FIRST_SPLIT:
            sentence = f"Wait: {rows:,} of the {2 * FIRST_SPLIT:,} decisions that the gate needs are settled."
            return Look(verdict=LookVerdict.WAIT, sentence=sentence, decisions=rows, gate=gate), None
        result = promotion(
            read_export(folder, link=find_link(configuration.build_policy().link)),
            {name: candidate.build_policy() for name, candidate in candidates.items()},
            alpha=ALPHA / ((gate.index + 1) * (gate.index + 2)),
            reward_range=limits,
            exploration=configuration.exploration,
        )
    gains = {name: Gain(gain.value, gain.low, gain.high) for name, gain in result.gains.items()}
    sentence, chosen = result.headline, result.candidate
    if chosen is not None:
        sentence = (
            f"Promoted {chosen}: it is better than {configuration.policy} by {gains[chosen].low:.3g} to "
            f"{gains[chosen].high:.3g} per decision."
        )
    return Look(verdict=LookVerdict(result.verdict), sentence=sentence, gains=gains, decisions=rows, gate=gate), chosen


def _gate(
    store: EventStore, loop_name: str, history: list[tuple[int, LoopConfig]], candidates: Mapping[str, LoopConfig]
) -> Gate:
    """Return the gate of a look: the gate of the previous look if nothing has changed, else a new one."""
    since, configuration = history[-1]
    for timestamp, older in reversed(history):
        if _running(older) != _running(configuration):
            break
        since = timestamp
    policies = {name: [candidate.policy, candidate.settings] for name, candidate in candidates.items()}
    compared = msgspec.json.encode([*_running(configuration), configuration.reward_limits(), policies]).decode()
    looks = [
        (document.timestamp, msgspec.json.decode(document.body, type=Look))
        for document in store.documents(loop_name, OPTIMISATION)
    ]
    with_gate = ((timestamp, look) for timestamp, look in reversed(looks) if look.gate is not None)
    last_timestamp, last = next(with_gate, (0, None))
    if last is None or last.gate is None:
        return Gate(0, since, _first(store, loop_name, since), compared)
    same = last.gate.compared == compared
    since = max(since, last.gate.since if same else last_timestamp)
    gate = Gate(last.gate.index, since, _first(store, loop_name, since), compared)
    # A look without gains had too few decisions to compare, so that its gate has not used its share of the 5 %.
    return gate if gate == last.gate or not last.gains else msgspec.structs.replace(gate, index=gate.index + 1)


def _running(configuration: LoopConfig) -> list[Any]:
    """Return the settings that must not change within a gate."""
    names = ("policy", "settings", "width", "is_sparse", "exploration", "candidates")
    return [getattr(configuration, name) for name in names]


def _first(store: EventStore, loop_name: str, since: int) -> int:
    """Return the sequence number of the first decision at or after `since`; 0 if there is none."""
    before = store.last_sequence(loop_name, before=since)
    return next((settled.sequence for settled in store.settled(loop_name, before, END_OF_TIME, 1)), 0)
