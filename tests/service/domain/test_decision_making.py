"""Decisions of loops with a control group: groups, what they get, fallback, predictions."""

import math
from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.decision_making import DecisionMaker, LoopTerms
from glbandits.service.domain.events import Decision, DecisionRequest, Group, Mode
from glbandits.service.domain.groups.experiment import Control, group_of, hashed_unit
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.model_snapshots import PublishedModel, fresh_model
from glbandits.service.domain.request_features import DENSE, encoder_of

pytestmark = pytest.mark.usefixtures("plain_python")

ACTIONS = ("tea", "cola", "milk")
ARMS = np.eye(3)
SALT = "a salt"
LOOP = LoopTerms("shop", SALT, "0.0", 0)


def maker_of(*, policy: str = "optimist", rounds: int = 60, **settings: Any) -> tuple[DecisionMaker, LoopConfig]:
    """A model that has learned that milk is good, and its configuration."""
    configuration = LoopConfig(width=3, exploration=0.3, policy=policy, **settings)
    bandit = fresh_model(configuration)
    for number in range(rounds):
        bandit.learn(ARMS[number % 3], float(number % 3 == 2))
    return DecisionMaker(PublishedModel(0, 0, bandit, encoder_of(bandit))), configuration


def made(maker: tuple[DecisionMaker, LoopConfig], event_id: str, *, fallback: bool = False, **more: Any) -> Decision:
    request = DecisionRequest(event_id=event_id, request=ARMS.tobytes(), encoding=DENSE, actions=ACTIONS, **more)
    return maker[0].make(request, maker[1], LOOP, 1, fallback=fallback)


def control_of(maker: tuple[DecisionMaker, LoopConfig], count: int = 400, **more: Any) -> list[Decision]:
    decisions = [made(maker, f"e{number}", unit=f"u{number}", **more) for number in range(count)]
    return [each for each in decisions if each.group is Group.CONTROL]


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_groups_have_the_declared_share(share: float) -> None:
    """False alarms: 1 in 10,000 for each share, and none with this salt."""
    units, found = 20_000, 0
    for number in range(units):
        found += group_of(SALT, hashed_unit(SALT, f"user {number}"), share) is Group.CONTROL
    assert abs(found - units * share) < 3.9 * math.sqrt(units * share * (1 - share))


def test_groups_of_loops_are_independent() -> None:
    units, share = 4000, 0.3
    groups = np.array(
        [
            [group_of(salt, hashed_unit(salt, str(unit)), share) is Group.CONTROL for unit in range(units)]
            for salt in ("loop a", "loop b")
        ]
    )
    counts = [((groups[0] == a) & (groups[1] == b)).sum() for a, b in product((True, False), repeat=2)]
    expected = units * np.array([share * share, share * (1 - share), share * (1 - share), (1 - share) ** 2])
    assert chisquare(counts, expected).pvalue > 1e-3


def test_a_larger_share_keeps_all_members_of_control() -> None:
    small, large = (
        {unit for unit in map(str, range(3000)) if group_of(SALT, unit, share) is Group.CONTROL} for share in (0.1, 0.2)
    )
    assert small < large
    assert len(large) > 1.5 * len(small)


def test_a_unit_keeps_its_group_in_all_decisions() -> None:
    maker = maker_of(control=Control(share=0.5))
    for unit in map(str, range(20)):
        assert len({made(maker, f"{unit}-{event}", unit=unit).group for event in range(5)}) == 1
    by_event = maker_of(control=Control(share=0.5, by="event"))
    decisions = [made(by_event, str(event), unit="me") for event in range(40)]
    assert {each.group for each in decisions} == {*Group}
    assert all(each.alone and each.unit for each in decisions)
    with pytest.raises(InvalidInput, match="sticky needs a control group by unit"):
        made(by_event, "e", unit="me", sticky=True)


def test_slots_of_an_event_without_unit_have_one_group() -> None:
    maker = maker_of(control=Control(share=0.5))
    groups = [{made(maker, str(event), slot=slot).group for slot in "abc"} for event in range(30)]
    assert {len(each) for each in groups} == {1}
    assert set().union(*groups) == {*Group}


def test_the_log_has_no_unit_but_its_hash() -> None:
    decision = made(maker_of(), "e", unit="ann@example.com")
    assert (decision.group, decision.control_share, decision.predicted) == (None, 0.0, None)
    assert "ann" not in repr(decision)
    assert decision.unit == hashed_unit(f"{SALT}.0.0", "ann@example.com") != hashed_unit(SALT, "ann@example.com")


def test_control_gets_the_baseline_and_the_draw_is_logged() -> None:
    maker = maker_of(control=Control(share=0.2))
    control = control_of(maker)
    assert control
    for decision in control:
        without = made(maker_of(), decision.event_id)
        assert (decision.chosen, decision.probabilities) == (without.chosen, without.probabilities)
        assert (decision.shown, decision.probability, decision.is_drawn) == (0, 1.0, False)
    assert len({decision.chosen for decision in control}) == 3
    assert {each.shown for each in control_of(maker, excluded=(0,))} == {1}
    assert {each.shown for each in control_of(maker, baseline=2)} == {2}


def test_control_may_get_a_fixed_action() -> None:
    maker = maker_of(control=Control(share=0.2, show="arm:cola"))
    assert {(each.shown, each.probability) for each in control_of(maker)} == {(1, 1.0)}
    assert {each.shown for each in control_of(maker, excluded=(1,))} == {0}
    assert {each.shown for each in control_of(maker_of(control=Control(share=0.2, show="arm:rum")))} == {0}


def test_control_may_get_a_random_action() -> None:
    control = control_of(maker_of(control=Control(share=0.5, show="uniform")), 1200, excluded=(1,))
    assert {each.probability for each in control} == {0.5}
    assert {each.shown for each in control} == {0, 2}
    # independent of the draw of the model
    shown_and_chosen = Counter((each.shown, each.chosen) for each in control)
    pairs = [shown_and_chosen[shown, chosen] for shown in (0, 2) for chosen in (0, 2)]
    drawn = np.array([sum(each.chosen == chosen for each in control) for chosen in (0, 2)] * 2)
    assert chisquare(pairs, drawn / 2 * sum(pairs) / (drawn.sum() / 2)).pvalue > 1e-3
    assert control[0].shown_probabilities() == [0.5, 0.0, 0.5]


def test_logged_probabilities_of_treatment_are_those_of_draws() -> None:
    maker = maker_of(control=Control(share=0.3))
    decisions = [made(maker, f"e{number}", unit=f"u{number}") for number in range(4000)]
    treated = [each for each in decisions if each.is_drawn]
    assert {each.group for each in treated} == {Group.TREATMENT}
    assert all(each.shown == each.chosen and each.probability == each.probabilities[each.shown] for each in treated)
    counts = [sum(each.shown == arm for each in treated) for arm in range(3)]
    assert chisquare(counts, len(treated) * np.array(treated[0].probabilities)).pvalue > 1e-3


@pytest.mark.parametrize("show", ["baseline", "uniform", "arm:cola"])
def test_fallback_shows_the_baseline_to_both_groups(show: str) -> None:
    maker = maker_of(control=Control(share=0.5, show=show))
    for number in range(30):
        before, after = (made(maker, f"e{number}", unit=str(number), fallback=stopped) for stopped in (False, True))
        assert (after.shown, after.probability, after.fallback) == (0, 1.0, True)
        assert (after.group, after.chosen, after.predicted) == (before.group, before.chosen, before.predicted)
        assert not after.is_drawn
        assert after.shown_probabilities() == [1.0, 0.0, 0.0]


def test_other_modes_log_groups_and_show_the_baseline() -> None:
    maker = maker_of(control=Control(share=0.5, show="arm:cola"), mode=Mode.APPRENTICE)
    decisions = [made(maker, f"e{number}") for number in range(30)]
    assert {each.group for each in decisions} == {*Group}
    assert {(each.shown, each.probability, each.is_drawn) for each in decisions} == {(0, 1.0, False)}


@pytest.mark.parametrize("settings", [{}, {"sparse": True}, {"settings": {"link": "logistic"}}])
def test_predictions_are_those_of_the_model(settings: dict[str, Any]) -> None:
    maker = maker_of(control=Control(share=0.5), **settings)
    decision = made(maker, "e", baseline=2)
    rewards = maker[0].model.bandit.predict(ARMS)
    assert decision.predicted is not None
    assert decision.predicted == pytest.approx((rewards[2], rewards @ decision.probabilities), rel=1e-9)
    assert decision.predicted[0] > decision.predicted[1]


def test_a_policy_without_estimate_predicts_nothing() -> None:
    maker = maker_of(policy="uniform", settings={"link": "identity"}, control=Control(share=0.5), rounds=0)
    assert made(maker, "e").predicted is None


def test_predictions_that_are_not_finite_are_left_out() -> None:
    configuration = LoopConfig(width=1, control=Control(share=0.5), settings={"link": "log"})
    bandit = fresh_model(configuration)
    for _ in range(20):
        bandit.learn([1.0], 50.0)
    maker = DecisionMaker(PublishedModel(0, 0, bandit, encoder_of(bandit))), configuration
    features = np.array([[1e49], [1.0], [0.0]])
    request = DecisionRequest(event_id="e", request=features.tobytes(), encoding=DENSE, actions=ACTIONS)
    decision = maker[0].make(request, configuration, LOOP, 1, fallback=False)
    assert decision.predicted is None or all(map(math.isfinite, decision.predicted))
