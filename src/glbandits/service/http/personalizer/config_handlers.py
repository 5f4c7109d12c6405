"""Handlers of the service configuration, in Personalizer's terms."""

import msgspec
from starlette.requests import Request

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.durations import duration_text
from glbandits.service.domain.events import as_datetime
from glbandits.service.domain.loop_config import LoopConfig, check_setting
from glbandits.service.http.endpoint import loop_name
from glbandits.service.http.personalizer.config_schemas import ServiceConfiguration
from glbandits.service.http.site import Site
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.loops.loop_documents import CONFIGURATION

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
    loop.reconfigure(lambda current: _configured(current, sent))
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
