"""Sticky units: a unit gets the action of an earlier draw again."""

from msgspec.structs import replace

from glbandits.service.domain.events import Decision


def can_repeat(draw: Decision, decision: Decision, sticky_for: int) -> bool:
    """Return whether a decision may show the action of an earlier draw of its unit again.

    `sticky_for` is the longest time between the two, in microseconds.
    """
    is_same = draw.slot == decision.slot and draw.group is decision.group
    is_same = is_same and (draw.mode, draw.fallback) == (decision.mode, decision.fallback)
    if not is_same or draw.repeats or decision.timestamp - draw.timestamp > sticky_for:
        return False
    same_actions = len(draw.actions) == len(decision.actions) and set(draw.actions) == set(decision.actions)
    return same_actions and decision.actions.index(draw.actions[draw.shown]) not in decision.excluded


def repeat_of(draw: Decision, decision: Decision) -> Decision:
    """Return the decision with the action and the probabilities of an earlier draw among the same actions."""
    probability_of = dict(zip(draw.actions, draw.probabilities, strict=True))
    return replace(
        decision,
        repeats=draw.event_id,
        chosen=decision.actions.index(draw.actions[draw.chosen]),
        shown=decision.actions.index(draw.actions[draw.shown]),
        probability=draw.probability,
        probabilities=tuple(probability_of[action] for action in decision.actions),
    )
