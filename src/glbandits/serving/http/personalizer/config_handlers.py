"""Service configuration and policy: the contract's words for what a loop can be told."""

import json
import logging
from typing import Any

import msgspec

from glbandits.errors import InvalidInput
from glbandits.serving.domain.loop_config import LoopConfig
from glbandits.serving.domain.policy_arguments import parse_arguments
from glbandits.serving.http.http_messages import Request
from glbandits.serving.http.personalizer.config_schemas import PolicyContract, ServiceConfiguration
from glbandits.serving.http.personalizer.iso8601 import as_time, duration_text, parse_duration
from glbandits.serving.http.personalizer.rank_handlers import REWARD_RANGE
from glbandits.serving.http.site import Site
from glbandits.serving.runtime.learning_loop import Loop
from glbandits.serving.runtime.loop_documents import CONFIGURATION

log = logging.getLogger(__name__)

VW_ARGUMENT = "--"
"""How a Vowpal Wabbit command line begins."""
NAMES = {field.name: field.encode_name for field in msgspec.structs.fields(ServiceConfiguration)}
"""Personalizer's names of the fields."""
SHARED = [name for name in LoopConfig.__struct_fields__ if name in NAMES]
DURATIONS = ("reward_wait", "model_update", "optimisation_frequency")
NOT_OFFERED = {
    "log_mirror_enabled": "the log is in the server's own file, and can be exported",
    "model_retrain_days": "a model goes on under another configuration",
    "is_inference_explainability_enabled": "rank explains nothing",
}
"""Fields that are refused if they are set, because the sender would believe that it happens."""


def get_service(site: Site, request: Request) -> ServiceConfiguration:
    """The configuration of the loop."""
    return _described(site, site.service.loop(request.loop_name))


def put_service(site: Site, request: Request, sent: ServiceConfiguration) -> ServiceConfiguration:
    """Tell the loop something else. What is left out stays as it is."""
    loop = site.service.loop(request.loop_name)
    try:
        loop.reconfigure(lambda current: site.check_optimiser(_configured(current, sent)))
    except InvalidInput as error:
        error.name_parameters(lambda parameter: NAMES.get(parameter.name, parameter.in_python()))
        raise
    return _described(site, loop)


def _described(site: Site, loop: Loop) -> ServiceConfiguration:
    document = site.service.store.latest_document(loop.name, CONFIGURATION)
    settings = {name: getattr(loop.configuration, name) for name in SHARED}
    return ServiceConfiguration(
        **settings | {name: duration_text(settings[name]) for name in DURATIONS},
        log_mirror_enabled=False,
        last_configuration_edit_date=as_time(document.timestamp if document else 0),
        model_retrain_days=0,
        is_inference_explainability_enabled=False,
    )


def _configured(configuration: LoopConfig, sent: ServiceConfiguration) -> LoopConfig:
    """A configuration with the fields that were sent. Raises InvalidInput."""
    for field, instead in NOT_OFFERED.items():
        if getattr(sent, field):
            name = NAMES[field]
            raise InvalidInput(f"{name} is not offered: {instead}. Leave it out, or send {name} as false or 0.")
    changed = {name: getattr(sent, name) for name in SHARED if getattr(sent, name) is not None}
    durations = {name: parse_duration(NAMES[name], changed[name]) for name in DURATIONS if name in changed}
    configured = msgspec.structs.replace(configuration, **changed | durations)
    if configured.auto_optimisation and configured.reward_limits() is None:  # which it needs, and this API cannot set
        return msgspec.structs.replace(configured, reward_range=REWARD_RANGE)
    return configured


def get_policy(site: Site, request: Request) -> PolicyContract:
    """The policy that the loop runs."""
    return policy_contract(site.service.loop(request.loop_name).configuration)


def put_policy(site: Site, request: Request, sent: PolicyContract) -> PolicyContract:
    """Run another policy, with a new model.

    A Vowpal Wabbit command line cannot be run. It changes nothing, and the answer is the policy that is run in its
    stead: programs that send their old one when they start go on, and can see it.
    """
    loop = site.service.loop(request.loop_name)
    if sent.arguments.lstrip().startswith(VW_ARGUMENT):
        log.warning("loop %s goes on with its policy: it was sent the Vowpal Wabbit one %r", loop.name, sent.name)
        return policy_contract(loop.configuration)
    return run_policy(loop, *parse_arguments(sent.arguments))


def delete_policy(site: Site, request: Request) -> PolicyContract:
    """Run the default policy."""
    default = LoopConfig()
    return run_policy(site.service.loop(request.loop_name), default.policy, default.settings)


def run_policy(loop: Loop, policy: str, settings: dict[str, Any]) -> PolicyContract:
    """Run another policy, with a new model."""
    changed = loop.reconfigure(lambda current: msgspec.structs.replace(current, policy=policy, settings=settings))
    return policy_contract(changed)


def policy_contract(configuration: LoopConfig) -> PolicyContract:
    """The policy of a configuration, in words that `parse_arguments` reads."""
    return PolicyContract(configuration.policy, f"{configuration.policy}:{json.dumps(configuration.settings)}")
