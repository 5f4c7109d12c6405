"""Make a decision from a request, the settings of a loop and its model."""

import msgspec

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.action_selection import allowed_indices, decide, seed_of
from glbandits.service.domain.events import Decision, DecisionRequest, Mode
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.model_snapshots import PublishedModel
from glbandits.service.domain.request_features import arms_of, width_of


def make_decision(
    request: DecisionRequest, loop_name: str, configuration: LoopConfig, model: PublishedModel, salt: str, now: int
) -> Decision:
    """Choose an action. Raises InvalidInput if the model cannot decide the request."""
    width = width_of(request, model.encoder)
    if width != model.bandit.dim:
        raise InvalidInput(
            f"an action must have {model.bandit.dim} features, the width of the loop; got {width:g}. Send as many, "
            "or configure the loop for another width"
        )
    arms = arms_of(request, model.encoder)
    allowed = allowed_indices(len(request.actions), request.excluded)
    seed = seed_of(salt, request.event_id, request.slot)
    choice = decide(model.bandit, arms, allowed, configuration.exploration, seed, request.values, request.costs)
    online = configuration.mode is Mode.ONLINE
    baseline = int(allowed[0]) if request.baseline is None else request.baseline
    probabilities = tuple(choice.probabilities.tolist())
    fields = msgspec.structs.asdict(request) | {"reward_range": configuration.reward_range or request.reward_range}
    return Decision(
        **fields,
        loop=loop_name,
        timestamp=now,
        chosen=choice.chosen,
        shown=choice.chosen if online else baseline,
        probability=probabilities[choice.chosen] if online else 1.0,
        probabilities=probabilities,
        epoch=model.epoch,
        learned_through=model.learned_through,
        mode=configuration.mode,
        reward_window=configuration.reward_window,
        default_reward=configuration.default_reward,
        aggregation=configuration.aggregation,
        exploration=configuration.exploration,
        seed=seed,
    )
