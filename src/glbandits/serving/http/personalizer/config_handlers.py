"""Service configuration and policy: the contract's words for what a loop can be told."""

import asyncio
import json
import logging
from dataclasses import fields
from typing import Any, cast

import msgspec

from glbandits.errors import InvalidInput, look_up
from glbandits.policies import POLICIES
from glbandits.policy import rebuild, settings_of
from glbandits.serving.domain.loop_config import LoopConfig
from glbandits.serving.http.http_messages import Request, Response
from glbandits.serving.http.personalizer.config_schemas import PolicyContract, ServiceConfiguration
from glbandits.serving.http.personalizer.iso8601 import as_time, duration_text, parse_duration
from glbandits.serving.http.personalizer.schemas import decode
from glbandits.serving.http.site import Site
from glbandits.serving.runtime.learning_loop import CONFIGURATION, Loop

log = logging.getLogger(__name__)

VW_ARGUMENT = "--"
"""How a Vowpal Wabbit command line begins."""

_service_configuration = msgspec.json.Decoder(ServiceConfiguration)
_policy_contract = msgspec.json.Decoder(PolicyContract)


async def get_service(site: Site, request: Request) -> Response:
    """The configuration of the loop."""
    return await _told(site, site.service.loop(request.loop_name))


async def put_service(site: Site, request: Request) -> Response:
    """Tell the loop something else. What is left out stays as it is."""
    loop, sent = site.service.loop(request.loop_name), decode(request.body, _service_configuration)
    await asyncio.to_thread(loop.reconfigure, lambda kept: configured(kept, sent))
    return await _told(site, loop)


async def _told(site: Site, loop: Loop) -> Response:
    kept = await asyncio.to_thread(site.service.store.latest_document, loop.name, CONFIGURATION)
    return Response(200, msgspec.json.encode(described(loop.configuration, kept.timestamp if kept else 0)))


async def get_policy(site: Site, request: Request) -> Response:
    """The policy that the loop runs."""
    return _policy_response(site.service.loop(request.loop_name).configuration)


async def put_policy(site: Site, request: Request) -> Response:
    """Run another policy, with a new model.

    A Vowpal Wabbit command line cannot be run. It changes nothing, and the answer is the policy that is run in its
    stead: programs that send their old one when they start go on, and can see it.
    """
    loop, sent = site.service.loop(request.loop_name), decode(request.body, _policy_contract)
    if sent.arguments.lstrip().startswith(VW_ARGUMENT):
        log.warning("loop %s goes on with its policy: it was sent the Vowpal Wabbit one %r", loop.name, sent.name)
        return _policy_response(loop.configuration)
    return await run_policy(loop, *parse_arguments(sent.arguments))


async def delete_policy(site: Site, request: Request) -> Response:
    """Run the default policy."""
    default = LoopConfig()
    return await run_policy(site.service.loop(request.loop_name), default.policy, default.settings)


async def run_policy(loop: Loop, policy: str, settings: dict[str, Any]) -> Response:
    """Run another policy, with a new model."""
    changed = await asyncio.to_thread(
        loop.reconfigure, lambda kept: msgspec.structs.replace(kept, policy=policy, settings=settings)
    )
    return _policy_response(changed)


FIELDS = {
    "reward_wait": "rewardWaitTime",
    "default_reward": "defaultReward",
    "exploration": "explorationPercentage",
    "model_update": "modelExportFrequency",
    "retention_days": "logRetentionDays",
}
"""Fields of `LoopConfig` by Personalizer's names, for error messages."""


def configured(configuration: LoopConfig, sent: ServiceConfiguration) -> LoopConfig:
    """A configuration with the fields that were sent. Raises InvalidInput that names Personalizer's fields."""
    try:
        return _configured(configuration, sent)
    except InvalidInput as error:
        name, _, rest = str(error).partition(" ")
        raise InvalidInput(f"{FIELDS.get(name, name)} {rest}") from None


def _configured(configuration: LoopConfig, sent: ServiceConfiguration) -> LoopConfig:
    _check_offered(sent)
    changed = {
        "reward_wait": _seconds("rewardWaitTime", sent.reward_wait_time),
        "default_reward": sent.default_reward,
        "aggregation": sent.reward_aggregation,
        "exploration": sent.exploration_percentage,
        "mode": sent.learning_mode,
        "model_update": _seconds("modelExportFrequency", sent.model_export_frequency),
        "retention_days": sent.log_retention_days,
    }
    return msgspec.structs.replace(
        configuration, **{name: value for name, value in changed.items() if value is not None}
    )


def described(configuration: LoopConfig, edited_at: int) -> ServiceConfiguration:
    """A configuration in the contract's words."""
    return ServiceConfiguration(
        reward_wait_time=duration_text(configuration.reward_wait),
        default_reward=configuration.default_reward,
        reward_aggregation=configuration.aggregation,
        exploration_percentage=configuration.exploration,
        model_export_frequency=duration_text(configuration.model_update),
        log_mirror_enabled=False,
        log_retention_days=configuration.retention_days,
        last_configuration_edit_date=as_time(edited_at),
        learning_mode=configuration.mode,
        is_auto_optimization_enabled=False,
        model_retrain_days=0,
        is_inference_explainability_enabled=False,
    )


def _seconds(name: str, text: str | None) -> float | None:
    return None if text is None else parse_duration(name, text)


def _check_offered(sent: ServiceConfiguration) -> None:
    """Refuse what would otherwise be believed to happen."""
    asked = {
        "logMirrorEnabled": (sent.log_mirror_enabled, "the log is in the server's own file, and can be exported"),
        "isAutoOptimizationEnabled": (sent.is_auto_optimization_enabled, "the default policy tunes itself"),
        "modelRetrainDays": (sent.model_retrain_days, "a model goes on under another configuration"),
        "isInferenceExplainabilityEnabled": (sent.is_inference_explainability_enabled, "rank explains nothing"),
    }
    for name, (wanted, instead) in asked.items():
        if wanted:
            raise InvalidInput(f"{name} is not offered: {instead}. Leave it out, or send {name} as false or 0.")


def policy_contract(configuration: LoopConfig) -> PolicyContract:
    """The policy of a configuration, in words that `parse_arguments` reads."""
    return PolicyContract(configuration.policy, f"{configuration.policy}:{json.dumps(configuration.settings)}")


def _policy_response(configuration: LoopConfig) -> Response:
    return Response(200, msgspec.json.encode(policy_contract(configuration)))


def parse_arguments(text: str) -> tuple[str, dict[str, Any]]:
    """A policy's name and all its settings, from `name`, `name:setting=value,setting=value` or `name:{JSON}`.

    Rewards may be negative here, so the link is the identity unless another one is named.

    >>> name, settings = parse_arguments("optimist:link=logistic,floor=0.1")
    >>> name, settings["link"], settings["floor"]
    ('optimist', 'logistic', 0.1)
    """
    name, _, listed = text.strip().partition(":")
    kind = look_up("policy", name, POLICIES)
    try:
        settings = msgspec.json.decode(listed, type=dict[str, Any]) if listed.startswith("{") else _listed(listed)
        if "link" in {field.name for field in fields(cast(Any, kind))}:
            settings = {"link": "identity"} | settings
        return name, settings_of(rebuild(kind, settings))
    except (msgspec.DecodeError, TypeError) as error:
        raise InvalidInput(
            f"arguments are a policy, as {name}, {name}:setting=value or {name}:{{JSON}}; got {text[:80]!r}: {error}"
        ) from None


def _listed(text: str) -> dict[str, Any]:
    pairs = [part.partition("=") for part in text.split(",") if part]
    return {name.strip(): _value(value.strip()) for name, _, value in pairs}


def _value(text: str) -> Any:
    """A JSON value; any other text is a word."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
