"""Saved routers."""

import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

from glbandits import ModelFileError
from glbandits.routing import PromptRouter
from tests.routing.routers import play, router

pytestmark = pytest.mark.usefixtures("plain_python")


def test_saved_router_continues_exactly(tmp_path: Path) -> None:
    path, trained = tmp_path / "router.zip", router(0.3, floor=0.2, default="small")
    play(trained, 150)
    trained.retire("large")
    pending = trained.route([0.3, 0.3], session="s", event_id="pending")
    trained.save(path)
    loaded = PromptRouter.load(path)
    for each in (trained, loaded):
        each.feedback(pending.event_id, 0.7, 0.1)
    for number, x in enumerate(np.random.default_rng(1).normal(size=(100, 2))):
        one, two = (each.route(x, event_id=str(number), session=f"s{number % 9}") for each in (trained, loaded))
        assert one == two
        for each in (trained, loaded):
            each.feedback(str(number), 0.5, 0.2)
    assert loaded.models == ["small", "medium"]
    assert loaded.budget == trained.budget


def test_files_that_cannot_be_loaded_are_named(tmp_path: Path) -> None:
    path = tmp_path / "router.zip"
    with pytest.raises(ModelFileError, match="there is no file"):
        PromptRouter.load(path)
    router().save(path)
    content = path.read_bytes()
    encrypted = content.replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01")
    assert encrypted != content
    for damaged in (b"", b"text", content[: len(content) // 2], encrypted):
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match="not a complete file"):
            PromptRouter.load(path)
    changes: list[dict[str, Any]] = [
        {"version": 2},
        {"models": {"a": 1.0}},
        {"events": [{}]},
        {"random": 5},
        {"settings": {}},
        {"models": ["small"]},
        {"active": []},
        {"prompts": []},
        {"sessions": 1},
    ]
    for change in changes:
        path.write_bytes(content)
        with ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        parts["router.json"] = json.dumps(json.loads(parts["router.json"]) | change).encode()
        with ZipFile(path, "w") as archive:
            for name, part in parts.items():
                archive.writestr(name, part)
        with pytest.raises(ModelFileError):
            PromptRouter.load(path)
