"""Make a decision: the draw of the model, the group, and the action that is shown.

The outcome is a function of the request, the model, the salt of the loop and the terms. The log has all of them, so
that a replay computes the same outcome.
"""

import math
from operator import mul
from typing import NamedTuple

import numpy as np

from glbandits.common.errors import InvalidInput
from glbandits.maths.links import find_link
from glbandits.maths.sparse_rows import SparseRows
from glbandits.policies.contract import Coefficients
from glbandits.service.domain.action_selection import allowed_indices, decide, seed_of, uniform_of
from glbandits.service.domain.events import Decision, DecisionRequest, Group, Mode
from glbandits.service.domain.groups.experiment import group_of, hashed_unit
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.model_snapshots import PublishedModel
from glbandits.service.domain.request_features import Arms, arms_of, width_of

ARM = "arm:"
"""What `Control.show` begins with if control gets a fixed action."""


class Terms(NamedTuple):
    """The state of a loop, beside its model, on which its decisions depend."""

    mode: Mode
    exploration: float
    fallback: bool
    control_share: float
    """0 without a control group."""
    control_show: str
    """`Control.show`."""
    alone: bool
    """See `Decision.alone`."""

    @classmethod
    def of_configuration(cls, configuration: LoopConfig, unit: str, *, fallback: bool) -> "Terms":
        """Return the terms of a new decision."""
        mode, exploration, control = configuration.mode, configuration.exploration, configuration.control
        if control is None:
            return cls(mode, exploration, fallback, 0.0, "baseline", alone=False)
        alone = bool(unit) and control.by == "event"
        return cls(mode, exploration, fallback, control.share, control.show, alone)

    @classmethod
    def of_decision(cls, logged: Decision) -> "Terms":
        """Return the terms of a logged decision."""
        return cls(*(getattr(logged, name) for name in cls._fields))


class LoopTerms(NamedTuple):
    """What a loop adds to all its decisions."""

    name: str
    salt: str
    """Part of the seeds of all draws."""
    unit_rule: str
    """Part of the hashes of units, so that known units are new ones when it changes."""
    history: int
    """See `Decision.history`."""

    def hashed_unit(self, unit: str) -> str:
        """Return the salted hash of a unit; empty without a unit."""
        return hashed_unit(f"{self.salt}.{self.unit_rule}", unit) if unit else ""


class DecisionOutcome(NamedTuple):
    """What was drawn and shown. `Decision` documents the fields."""

    seed: int
    group: Group | None
    chosen: int
    probabilities: tuple[float, ...]
    shown: int
    probability: float
    predicted: tuple[float, float] | None


class DecisionMaker:
    """Decides with one model."""

    def __init__(self, model: PublishedModel) -> None:
        self.model, self._bandit, self._encoder = model, model.bandit, model.encoder
        self._link = find_link(model.bandit.policy.link)
        self._is_linear = self._link.name == "identity"
        self._coefficients: Coefficients | None = None

    def make(
        self,
        request: DecisionRequest,
        configuration: LoopConfig,
        loop: LoopTerms,
        now: int,
        *,
        fallback: bool,
    ) -> Decision:
        """Return the decision of a request. It has a hash of the unit. Raises InvalidInput if the width is wrong."""
        width, unit = width_of(request, self._encoder), loop.hashed_unit(request.unit)
        if width != self._bandit.dim:
            raise InvalidInput(
                f"an action must have {self._bandit.dim} features, the width of the loop; got {width:g}. Send as many, "
                "or configure the loop for another width"
            )
        terms = Terms.of_configuration(configuration, unit, fallback=fallback)
        if request.sticky and terms.alone:
            raise InvalidInput(
                "sticky needs a control group by unit; this loop assigns single events to groups. Send sticky=false, "
                "or set by of control to unit"
            )
        drawn = self.decide(request, unit, terms, loop.salt)
        return Decision(
            event_id=request.event_id,
            slot=request.slot,
            slots=request.slots,
            request=request.request,
            encoding=request.encoding,
            actions=request.actions,
            values=request.values,
            costs=request.costs,
            excluded=request.excluded,
            baseline=request.baseline,
            deferred=request.deferred,
            unit=unit,
            sticky=bool(unit) and (request.sticky or configuration.sticky),
            reward_range=configuration.reward_range or request.reward_range,
            loop=loop.name,
            unit_rule=loop.unit_rule,
            history=loop.history,
            timestamp=now,
            epoch=self.model.epoch,
            learned_through=self.model.learned_through,
            mode=terms.mode,
            exploration=terms.exploration,
            fallback=terms.fallback,
            control_share=terms.control_share,
            control_show=terms.control_show,
            alone=terms.alone,
            reward_window=configuration.reward_window,
            default_reward=configuration.default_reward,
            aggregation=configuration.aggregation,
            seed=drawn.seed,
            group=drawn.group,
            chosen=drawn.chosen,
            probabilities=drawn.probabilities,
            shown=drawn.shown,
            probability=drawn.probability,
            predicted=drawn.predicted,
        )

    def decide(self, request: DecisionRequest, unit: str, terms: Terms, salt: str) -> DecisionOutcome:
        """Draw an action, and find what is shown. `unit` is hashed."""
        arms = arms_of(request, self._encoder)
        allowed = allowed_indices(len(request.actions), request.excluded)
        seed = seed_of(salt, request.event_id, request.slot)
        choice = decide(self._bandit, arms, allowed, terms.exploration, seed, request.values, request.costs)
        probabilities = tuple(choice.probabilities.tolist())
        baseline = int(allowed[0]) if request.baseline is None else request.baseline
        group, predicted = None, None
        if terms.control_share:
            predicted = self._predicted(arms, probabilities, baseline)
            name = request.event_id if terms.alone or not unit else unit
            group = group_of(salt, name, terms.control_share)
        shown, probability = choice.chosen, probabilities[choice.chosen]
        if terms.fallback or terms.mode is not Mode.ONLINE:
            shown, probability = baseline, 1.0
        elif group is Group.CONTROL:
            shown, probability = baseline, 1.0
            wanted = terms.control_show.removeprefix(ARM)
            if terms.control_show == "uniform":
                share = uniform_of(seed_of(f"{salt}\0control", request.event_id, request.slot))
                shown, probability = int(allowed[int(share * len(allowed))]), 1.0 / len(allowed)
            elif terms.control_show.startswith(ARM) and wanted in request.actions:
                index = request.actions.index(wanted)
                shown = index if index in allowed else baseline
        return DecisionOutcome(seed, group, choice.chosen, probabilities, shown, probability, predicted)

    def _predicted(self, arms: Arms, probabilities: tuple[float, ...], baseline: int) -> tuple[float, float] | None:
        """Return the predicted reward of the baseline, and the mean over `probabilities`."""
        try:
            rewards = self._predict(arms)
        except (InvalidInput, ArithmeticError):  # the policy has no estimate, or a score is too large for the link
            return None
        predicted = rewards[baseline], sum(map(mul, rewards, probabilities))
        return predicted if math.isfinite(predicted[0]) and math.isfinite(predicted[1]) else None

    def _predict(self, arms: Arms) -> list[float]:
        if self._coefficients is None and not self._bandit.sparse:
            self._coefficients = self._bandit.coefficients()
        if self._coefficients is None or isinstance(arms, SparseRows):
            # All coefficients of a sparse model would take longer than a prediction.
            with np.errstate(all="ignore"):
                return list(map(float, self._bandit.predict(arms)))
        scores = np.dot(arms, self._coefficients.theta).tolist()  # without variances, unlike `Bandit.predict`
        intercept, mean = self._coefficients.intercept, self._link.mean
        return [score + intercept for score in scores] if self._is_linear else [mean(z + intercept) for z in scores]
