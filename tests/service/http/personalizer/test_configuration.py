"""LoopConfig, policy, model and log, as the contract has them."""

from typing import Any

import pytest

from glbandits.service.domain.events import Aggregation
from glbandits.service.domain.loop_config import LoopConfig
from tests.service.http.personalizer.personalizer_site import V1, Site

SERVICE, POLICY = f"{V1}/configurations/service", f"{V1}/configurations/policy"
VW = "--cb_explore_adf --epsilon 0.2 --power_t 0 -l 0.001 --cb_type mtr -q ::"


def configuration(site: Site) -> LoopConfig:
    return site.service.loop("default").configuration


def test_configuration_has_personalizer_names(site: Site) -> None:
    reply = site.ask("GET", SERVICE)
    assert reply.status_code == 200
    assert reply.json() == {
        "rewardWaitTime": "PT10M",
        "defaultReward": 0.0,
        "rewardAggregation": "earliest",
        "explorationPercentage": 0.2,
        "modelExportFrequency": "PT1S",
        "logMirrorEnabled": False,
        "logMirrorSasUri": None,
        "logRetentionDays": -1,
        "lastConfigurationEditDate": "2023-11-14T22:13:20Z",
        "learningMode": "Online",
        "isAutoOptimizationEnabled": False,
        "modelRetrainDays": 0,
        "isInferenceExplainabilityEnabled": False,
    }


def test_put_changes_only_the_fields_sent(site: Site) -> None:
    site.now += 60_000_000
    sent = {
        "rewardWaitTime": "PT4H",
        "defaultReward": -0.5,
        "rewardAggregation": "sum",
        "explorationPercentage": 0.35,
        "modelExportFrequency": "PT0.5S",
        "logRetentionDays": 90,
    }
    reply = site.ask("PUT", SERVICE, sent | {"logMirrorEnabled": False, "logMirrorSasUri": ""})
    assert reply.status_code == 200
    assert sent.items() <= reply.json().items()
    assert reply.json()["lastConfigurationEditDate"] == "2023-11-14T22:14:20Z"
    assert site.ask("GET", SERVICE).json() == reply.json()
    site.ask("PUT", SERVICE, {"defaultReward": 0.25})
    kept = configuration(site)
    assert (kept.reward_wait, kept.default_reward, kept.aggregation) == (14400, 0.25, Aggregation.SUM)
    assert kept.width == 32
    assert configuration(site).policy == "optimist"


def test_a_read_configuration_can_be_put(site: Site) -> None:
    before = configuration(site)
    assert site.ask("PUT", SERVICE, site.ask("GET", SERVICE).json()).status_code == 200
    assert configuration(site) == before


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        ({"rewardWaitTime": "10 minutes"}, "rewardWaitTime must be a duration of at most 60d"),
        ({"rewardWaitTime": "-PT5M"}, "rewardWaitTime must be a duration of at most 60d"),
        ({"rewardWaitTime": [600]}, "Expected `float | str | null`, got `array`"),
        ({"defaultReward": 2}, "defaultReward must be a finite number at least -1 and at most 1"),
        ({"explorationPercentage": 20}, "explorationPercentage must be a finite number at least 0 and at most 1"),
        ({"rewardAggregation": "last"}, "Invalid enum value 'last'"),
        ({"logRetentionDays": 0}, "logRetentionDays must be a whole number of at least 1"),
        ({"learningMode": "Offline"}, "Invalid enum value 'Offline'"),
        ({"logMirrorEnabled": True}, "logMirrorEnabled is not offered"),
        ({"isAutoOptimizationEnabled": True}, "isAutoOptimizationEnabled is not offered: run `glb evaluate STORE"),
        ({"modelRetrainDays": 2}, "modelRetrainDays is not offered"),
        ({"isInferenceExplainabilityEnabled": True}, "isInferenceExplainabilityEnabled is not offered"),
    ],
)
def test_invalid_configurations_are_refused(site: Site, sent: dict[str, Any], wanted: str) -> None:
    before = configuration(site)
    status, code, message = site.refusal("PUT", SERVICE, {"logRetentionDays": 30} | sent)
    assert (status, code) == (400, "InvalidServiceConfiguration")
    assert wanted in message
    assert configuration(site) == before


def test_a_policy_is_put_and_reset(site: Site) -> None:
    first = site.ask("GET", POLICY).json()
    assert (first["name"], first["arguments"][:10]) == ("optimist", "optimist:{")
    put = site.ask("PUT", POLICY, {"name": "mine", "arguments": "sgd-ts:draw=candidates,floor=0.1,link=logistic"})
    assert put.status_code == 200
    assert (configuration(site).policy, configuration(site).settings["floor"]) == ("sgd-ts", 0.1)
    assert site.ask("GET", POLICY).json() == put.json()
    assert site.rank()["modelVersion"].startswith("2.")
    assert site.ask("DELETE", POLICY).json() == first
    assert configuration(site) == LoopConfig(width=32)


def test_another_policy_learns_the_log_first(site: Site) -> None:
    site.rank(eventId="e")
    site.ask("POST", f"{V1}/events/e/reward", {"value": 1})
    site.learn()
    sent = {"name": "mine", "arguments": "optimist:half_life=100"}
    assert "learns the log" in site.ask("PUT", POLICY, sent).json()["relearning"]["sentence"]
    assert site.ask("PUT", POLICY, sent | {"resetModel": True}).json().keys() == {"name", "arguments"}


def test_a_read_policy_can_be_put(site: Site) -> None:
    before, read = configuration(site), site.ask("GET", POLICY).json()
    assert site.ask("PUT", POLICY, read).json() == read
    assert configuration(site) == before


@pytest.mark.parametrize(("arguments", "link"), [("optimist", "identity"), ("sgd-ts:link=logistic", "logistic")])
def test_the_default_link_accepts_negative_rewards(site: Site, arguments: str, link: str) -> None:
    site.ask("PUT", POLICY, {"name": "mine", "arguments": arguments})
    assert configuration(site).settings["link"] == link


def test_a_vowpal_wabbit_policy_changes_nothing(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    before = configuration(site)
    reply = site.ask("PUT", POLICY, {"name": "app", "arguments": VW})
    assert (reply.status_code, reply.json()) == (200, site.ask("GET", POLICY).json())
    assert configuration(site) == before
    assert "Loop default keeps its policy: the Vowpal Wabbit policy 'app' cannot be run" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("optimste", "unknown policy 'optimste'; did you mean 'optimist'"),
        ("optimist:flor=1", "unknown setting of optimist 'flor'"),
        ("optimist:{", "settings are written optimist:name=value,name=value; got '{'"),
        ("optimist:floor=2", "floor must be a finite number at least 0 and at most 1"),
        ("optimist:link=square", "unknown link"),
        ("glm-tsl", "stores all past rewards"),
        ("sgd-ts:draw=decision", "has no exact probabilities of actions"),
        ("lin-ts", "has no exact probabilities of actions"),
        ("", "unknown policy ''"),
        ('optimist:{"a":' + "[" * 50_000 + "]" * 50_000 + "}", "settings are written optimist:name=value"),
        ("optimist:floor=" + "[" * 50_000 + "]" * 50_000, "settings are written optimist:name=value"),
    ],
)
def test_unusable_policies_are_refused(site: Site, arguments: str, wanted: str) -> None:
    before = configuration(site)
    status, code, message = site.refusal("PUT", POLICY, {"name": "mine", "arguments": arguments})
    assert (status, code) == (400, "InvalidPolicyConfiguration")
    assert wanted in message
    assert configuration(site) == before
