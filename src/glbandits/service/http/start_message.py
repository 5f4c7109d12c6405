"""The lines that `glb serve` prints when the server has started."""

import json
import shlex
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec

from glbandits.service.server_settings import Settings

if TYPE_CHECKING:
    from glbandits.bandit import Bandit

EXAMPLE: dict[str, Any] = {
    "contextFeatures": [{"hour": "morning"}],
    "actions": [
        {"id": "tea", "features": [{"hot": True, "price": 2.5}]},
        {"id": "cola", "features": [{"hot": False, "price": 2.0}]},
    ],
}
WIDEST_EXAMPLE = 20
"""The largest width of a model without a feature map whose example has vectors. Wider loops hash named features."""
KEY_VARIABLE = '"$GLB_KEY"'
"""Printed in place of a key that is not known, because only its hash is stored."""


def curl_line(address: str, key: str | None, example: Mapping[str, Any] = EXAMPLE) -> str:
    """Return a shell command that requests a decision. `key` is None if the key is not known."""
    path, body = "/v1/decide" if "arms" in example else "/personalizer/v1.0/rank", shlex.quote(json.dumps(example))
    return (
        f"curl -s {address}{path} -H Ocp-Apim-Subscription-Key:{KEY_VARIABLE if key is None else key} "
        f"-H Content-Type:application/json -d {body}"
    )


def loop_address(address: str, loop_name: str) -> str:
    """Return the address of a loop, to which the paths of Personalizer's API are appended."""
    return address if loop_name == "default" else f"{address}/loops/{loop_name}"


def example_request(settings: Settings) -> dict[str, Any]:
    """Return a request for the model of the first loop: with its fields, or with vectors if it is narrow."""
    from glbandits.features import Category, FeatureMap

    model = _first_model(settings)
    features = None if model is None else model.features
    if not isinstance(features, FeatureMap):
        if model is None or model.dim > WIDEST_EXAMPLE:
            return EXAMPLE
        return {"arms": [[float(index % 2 == arm) for index in range(model.dim)] for arm in (0, 1)]}
    block = features.per_arm_block
    arm_kind = features.kinds[block] if block is not None else None
    ids = arm_kind.values[:2] if isinstance(arm_kind, Category) else ("one", "two")
    columns = {name: features.examples(name) for name in (*features.arm.kinds, *features.own.kinds)}
    if block is not None:
        columns[block] = (ids[0], ids[-1])
    actions = [{name: values[index] for name, values in columns.items()} for index in range(len(ids))]
    return {
        "contextFeatures": [{name: features.examples(name)[0] for name in features.context.kinds}],
        "actions": [{"id": name, "features": [fields]} for name, fields in zip(ids, actions, strict=True)],
    }


def _first_model(settings: Settings) -> "Bandit | None":
    """Return the model of the first loop: its stored model, or else that of the setting `model`; None without both."""
    from glbandits.bandit import Bandit  # imported late: `glb serve` prints its first line before NumPy is loaded
    from glbandits.service.runtime.loops.loop_documents import latest_base
    from glbandits.service.storage.open_store import open_store

    with closing(open_store(settings.store, durability=settings.durability)) as store:
        model = latest_base(store, settings.loops[0])
    return Bandit.load(settings.model) if model is None and settings.model else model


def no_key_line(store: str) -> str:
    """Return the line for a start that creates no key. It omits a database address, which may have a password."""
    address = "ADDRESS" if "://" in store else shlex.quote(store)
    return (
        "No key is created or shown, because this store already had one. Create another with "
        f"`glb store keys create NAME --store {address}`."
    )


def start_lines(settings: Settings) -> list[str]:
    """Return lines on the model and the reward window of the first loop.

    If the loop is in the store already, its stored configuration applies instead of the settings.
    """
    from glbandits.service.domain.loop_config import LoopConfig
    from glbandits.service.runtime.loops.loop_documents import CONFIGURATION
    from glbandits.service.storage.open_store import open_store

    name, window = settings.loops[0], settings.reward_window_seconds
    with closing(open_store(settings.store, durability=settings.durability)) as store:
        stored = store.latest_document(name, CONFIGURATION)
    model = f"Loops start with the model of {settings.model}."
    if stored is not None:
        window = msgspec.json.decode(stored.body, type=LoopConfig).reward_wait
        model = f"Loop {name} is in the store and continues with its own model: --model applies to new loops."
    line = f"Rewards are accepted for {f'{window / 60:g} min' if window >= 60 else f'{window:g} s'}, then learned."
    if window != settings.reward_window_seconds:
        line += (
            f" Loop {name} is in the store with this reward window, not {settings.reward_window}: "
            "--reward-window applies to new loops. Change it with PATCH /v1/configuration."
        )
    elif window >= 60:
        line += " For a trial: glb serve --reward-window 5s"
    return [model, line] if settings.model else [line]
