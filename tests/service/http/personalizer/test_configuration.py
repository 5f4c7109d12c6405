"""LoopConfig, policy, model and log, as the contract has them."""

from typing import Any

import pytest

from glbandits.service.domain.events import Aggregation
from glbandits.service.domain.loop_config import LoopConfig
from tests.service.http.personalizer.personalizer_site import V1, Site

SERVICE = f"{V1}/configurations/service"
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
