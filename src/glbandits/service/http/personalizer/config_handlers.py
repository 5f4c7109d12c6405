"""Handlers of the service configuration and the policy, in Personalizer's terms."""

import json
import logging
from typing import Any

import msgspec
from starlette.requests import Request

from glbandits.common.errors import InvalidInput, lookup
from glbandits.policies import POLICIES
from glbandits.policies.contract import settings_of
from glbandits.policies.parsing import split_policy
from glbandits.service.domain.durations import duration_text
from glbandits.service.domain.events import as_datetime
from glbandits.service.domain.loop_config import LoopConfig, check_setting
from glbandits.service.http.endpoint import loop_name
from glbandits.service.http.personalizer.config_schemas import PolicyContract, ServiceConfiguration
from glbandits.service.http.site import Site
from glbandits.service.http.v1.configuration_handlers import relearning_of
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.loops.loop_documents import CONFIGURATION

log = logging.getLogger(__name__)

VW_ARGUMENT = "--"
"""The beginning of a Vowpal Wabbit command line."""
NAMES = {field.name: field.encode_name for field in msgspec.structs.fields(ServiceConfiguration)}
"""Personalizer's names of the fields of `ServiceConfiguration`."""
SHARED = [name for name in LoopConfig.__struct_fields__ if name in NAMES]
"""Fields of `LoopConfig` that `ServiceConfiguration` has too."""
DURATIONS = ("reward_wait", "model_update")
NOT_OFFERED = {
    "log_mirror_enabled": "the log is in the store, and can be exported",
    "is_auto_optimization_enabled": "run `glb evaluate STORE --promote-if-better` regularly",
    "model_retrain_days": "the model continues with a changed configuration",
    "is_inference_explainability_enabled": "rank returns no explanations",
}
"""Fields that are refused if they are set, because ignoring them would mislead the client."""


def get_service(site: Site, request: Request) -> ServiceConfiguration:
    """Return the configuration of the loop."""
    return _as_schema(site, site.service.loop(loop_name(request)))


def put_service(site: Site, request: Request, sent: ServiceConfiguration) -> ServiceConfiguration:
    """Change the configuration of the loop. Omitted fields stay."""
    loop = site.service.loop(loop_name(request))
    try:
        loop.reconfigure(lambda current: _configured(current, sent))
    except InvalidInput as error:
        if error.field in NAMES:
            error.args = (str(error).replace(error.field, NAMES[error.field]),)
        raise
    return _as_schema(site, loop)


def _as_schema(site: Site, loop: Loop) -> ServiceConfiguration:
    document = site.service.store.latest_document(loop.name, CONFIGURATION)
    settings = {name: getattr(loop.configuration, name) for name in SHARED}
    return ServiceConfiguration(
        **settings | {name: duration_text(settings[name]) for name in DURATIONS},
        log_mirror_enabled=False,
        last_configuration_edit_date=as_datetime(document.timestamp if document else 0),
        is_auto_optimization_enabled=False,
        model_retrain_days=0,
        is_inference_explainability_enabled=False,
    )


def _configured(configuration: LoopConfig, sent: ServiceConfiguration) -> LoopConfig:
    """Return the configuration with the fields that were sent. Raises InvalidInput."""
    for field, instead in NOT_OFFERED.items():
        if getattr(sent, field):
            name = NAMES[field]
            raise InvalidInput(f"{name} is not offered: {instead}. Leave it out, or send {name} as false or 0.")
    changed = {name: getattr(sent, name) for name in SHARED if getattr(sent, name) is not None}
    checked = {name: check_setting(name, value, NAMES[name]) for name, value in changed.items()}
    return msgspec.structs.replace(configuration, **checked)


def parse_arguments(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name of a policy and all its settings. The link is the identity if the text gives none.

    User-defined policies are refused, because a client must not have the server import a module.
    """
    name, settings = split_policy(text)
    if "link" in settings_of(lookup("policy", name, POLICIES)()):
        settings = {"link": "identity"} | settings
    return name, settings_of(LoopConfig(policy=name, settings=settings, width=1).build_policy())


def get_policy(site: Site, request: Request) -> PolicyContract:
    """Return the policy of the loop."""
    return _policy_contract(site.service.loop(loop_name(request)))


def put_policy(site: Site, request: Request, sent: PolicyContract) -> PolicyContract:
    """Replace the policy of the loop. Its new model learns the log first.

    A Vowpal Wabbit command line cannot be run, and changes nothing. The response is the policy that runs instead, so
    that programs which send their old policy at every start still work.
    """
    loop = site.service.loop(loop_name(request))
    if sent.arguments.lstrip().startswith(VW_ARGUMENT):
        log.warning("Loop %s keeps its policy: the Vowpal Wabbit policy %r cannot be run.", loop.name, sent.name)
        return _policy_contract(loop)
    return _run_policy(loop, *parse_arguments(sent.arguments), sent.reset_model)


def delete_policy(site: Site, request: Request) -> PolicyContract:
    """Replace the policy of the loop by the default policy."""
    default = LoopConfig()
    return _run_policy(site.service.loop(loop_name(request)), default.policy, default.settings)


def _run_policy(loop: Loop, policy: str, settings: dict[str, Any], reset_model: bool = False) -> PolicyContract:
    loop.reconfigure(
        lambda current: msgspec.structs.replace(current, policy=policy, settings=settings), reset_model=reset_model
    )
    return _policy_contract(loop)


def _policy_contract(loop: Loop) -> PolicyContract:
    """Return the policy of a loop as a text for `parse_arguments`."""
    policy, settings = loop.configuration.policy, json.dumps(loop.configuration.settings)
    return PolicyContract(policy, f"{policy}:{settings}", relearning=relearning_of(loop))
