"""Handlers of the configuration of a loop, in the names that clients use."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request

from glbandits.common.errors import InvalidInput, lookup, value_text
from glbandits.policies import POLICIES, Optimist
from glbandits.policies.contract import settings_of
from glbandits.service.domain.groups.experiment import MetricSettings
from glbandits.service.domain.loop_config import DECLARED, SECONDS, LoopConfig, check_setting
from glbandits.service.http.body_errors import body_error_text
from glbandits.service.http.endpoint import loop_name
from glbandits.service.http.site import Site
from glbandits.service.http.v1.schemas import ApiStruct, Relearning
from glbandits.service.runtime.loops.learning_loop import Loop

SENTENCE = (
    "A new model learns the log under the changed settings. The present model decides, and goes on learning, until the "
    "new one has learned all."
)
RESET = Meta(description="In a request: whether a model that has learned nothing replaces the present one at once.")
RELEARNING = Meta(description="In a response: the progress of a model that learns the log under changed settings.")


def _sent_type(name: str, kind: Any) -> Any:
    """Return the type of a setting in requests: a duration may be a text."""
    meta = DECLARED[name]
    if meta.extra != SECONDS:
        return kind
    number = Annotated[float, Meta(ge=meta.ge, le=meta.le)]
    return Annotated[number | str, Meta(description=f"{meta.description} Seconds, or a text such as 5s, 2m or PT5M.")]


LoopConfiguration: Any = msgspec.defstruct(
    "LoopConfiguration",
    [
        (
            field.name,
            _sent_type(field.name, field.type),
            msgspec.field(default=field.default, default_factory=field.default_factory),  # type: ignore[call-overload]
        )
        for field in msgspec.structs.fields(LoopConfig)
    ]
    + [
        ("reset_model", Annotated[bool, RESET], False),
        ("relearning", Annotated[Relearning | None, RELEARNING], None),
    ],
    bases=(ApiStruct,),
    namespace={"__doc__": "Settings of a loop. With PUT, omitted settings get their defaults; with PATCH they stay."},
    frozen=True,
    kw_only=True,
)
"""`LoopConfig` in camelCase, with `resetModel` for requests and `relearning` for responses."""
SETTINGS = {field.encode_name: field.name for field in msgspec.structs.fields(LoopConfiguration)}
"""Settings by the names that clients send."""


def configuration(site: Site, request: Request) -> LoopConfiguration:
    """Return the configuration of a loop."""
    return _as_schema(site.service.loop(loop_name(request)))


def configure(site: Site, request: Request, sent: dict[str, Any]) -> LoopConfiguration:
    """Replace the configuration of a loop. Omitted settings get their defaults."""
    return _configure(site, request, sent, keep=False)


def change(site: Site, request: Request, sent: dict[str, Any]) -> LoopConfiguration:
    """Change the settings of a loop that are sent. Others stay, also those of its policy."""
    return _configure(site, request, sent, keep=True)


def _configure(site: Site, request: Request, sent: dict[str, Any], *, keep: bool) -> LoopConfiguration:
    loop = site.service.loop(loop_name(request))
    loop.reconfigure(
        lambda current: changed_configuration(current, sent, keep=keep), reset_model=sent.get("resetModel") is True
    )
    return _as_schema(loop)


def changed_configuration(current: LoopConfig, sent: Mapping[str, Any], *, keep: bool = True) -> LoopConfig:
    """Return a configuration with the settings that a client sent.

    Others stay, or get their defaults if `keep` is False. Raises InvalidInput or UnknownName.
    """
    policy = settings_of(POLICIES.get(str(sent.get("policy", current.policy)), Optimist)())
    for name in sent.keys() - SETTINGS.keys():
        if name in policy:
            raise InvalidInput(f'{name} belongs into settings: send {{"settings": {{"{name}": ...}}}}')
        lookup("setting", name, SETTINGS)
    nested = sent.get("settings")
    for name in nested.keys() & SETTINGS.keys() - policy.keys() if isinstance(nested, dict) else ():
        raise InvalidInput(f'{name} is a setting of the loop, not of its policy: send {{"{name}": ...}}')
    checked = {
        name: check_setting(SETTINGS[name], value) if SETTINGS[name] in DECLARED else value
        for name, value in sent.items()
    }
    present = current if keep else LoopConfig()
    kept = msgspec.to_builtins(LoopConfiguration(**msgspec.structs.asdict(present))) | _policy_settings(present, sent)
    if isinstance(nested, dict):
        checked["settings"] = kept["settings"] | nested
    metrics = sent.get("metrics")
    for name, metric in metrics.items() if isinstance(metrics, dict) else ():  # an error should have the name
        _converted(metric, MetricSettings, f"metric {value_text(name)}")
    settings = _converted(kept | checked, LoopConfiguration, "the configuration")
    return LoopConfig(**{name: getattr(settings, name) for name in DECLARED})


def _converted(sent: Any, schema: Any, what: str) -> Any:
    try:
        return msgspec.convert(sent, schema)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{what} is invalid: {body_error_text(error, schema)}") from None


def _policy_settings(current: LoopConfig, sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with which another policy starts: its defaults, with the present link."""
    name = sent.get("policy")
    if not isinstance(name, str) or name == current.policy or name not in POLICIES:
        return {}
    has_link = "link" in settings_of(POLICIES[name]()) and "link" in current.settings
    return {"settings": {"link": current.settings["link"]} if has_link else {}}


def _as_schema(loop: Loop) -> LoopConfiguration:
    return LoopConfiguration(**msgspec.structs.asdict(loop.configuration), relearning=relearning_of(loop))


def relearning_of(loop: Loop) -> Relearning | None:
    """Return the progress of a model that learns the log again; None if there is none."""
    progress = loop.relearning_progress()
    return None if progress is None else Relearning(sentence=SENTENCE, learned_to=progress[0], of=progress[1])
