"""Exports of a loop whose model has a feature map: arms by name, other models, and the same results everywhere."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array

from glbandits import Bandit, InvalidInput, Optimist, UnknownName
from glbandits.common.export_manifest import MANIFEST, ExportedFile, Manifest
from glbandits.evaluation import Columns, evaluate, open_log, read_parquet, train
from glbandits.evaluation.policy_comparison import ComparisonSettings, compare_policies
from glbandits.evaluation.readers.pair_features import RequestFields
from glbandits.evaluation.readers.service_export import FIELDS, ServiceExport, is_export, read_export
from glbandits.evaluation.readers.table_log import TableLog
from glbandits.features import Category, FeatureMap, Number
from glbandits.service.domain.events import DecisionRequest, Reward
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.model_snapshots import FirstModel
from glbandits.service.domain.request_features import DENSE, encode_json_request
from glbandits.service.export.loop_export import export_loop
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.cli.in_process import glb
from tests.service.runtime.loops.loop_helpers import Clock

ROWS, OFFERS = 60, ("coat", "hat", "shoe")
SERVED = FeatureMap(
    arm={"offer": Category(OFFERS, other=False)},
    context={"age": Number(mean=50.0, scale=20.0), "country": Category(("de", "fr"))},
    per_arm_block="offer",
)
OTHER = FeatureMap(arm={"price": "number"}, context={"age": "number"})
ABSENT = FeatureMap(arm={"price": "number"}, context={"height": Number(missing="error")})


def model(features: FeatureMap, *, sparse: bool = False) -> Bandit:
    """A model that has learned a few rewards."""
    bandit = Bandit(Optimist(link="logistic"), features=features, seed=0, sparse=sparse)
    for price, offer in enumerate(OFFERS):
        bandit.learn({"offer": offer, "price": price, "age": 30, "country": "fr"}, float(offer == "hat"))
    return bandit


def write_store(folder: Path, bandit: Bandit) -> Path:
    """The store of a loop that starts with this model. Every fifth request does not offer the coat."""
    bandit.save(folder / "served.safetensors")
    store, clock, rng = SqliteStore(folder / "events.sqlite"), Clock(), np.random.default_rng(0)
    loop = Loop(
        "default",
        store,
        clock,
        first_configuration=LoopConfig(reward_wait=1.0, exploration=0.5),
        first_model=FirstModel.load(str(folder / "served.safetensors")),
    )
    for number in range(ROWS):
        offers = [str(offer) for offer in rng.permutation(OFFERS) if offer != "coat" or number % 5]
        context = {"age": int(rng.integers(18, 80)), "country": str(rng.choice(["de", "fr", "it"]))}
        request = encode_json_request([context], [[{"price": OFFERS.index(offer), "offer": offer}] for offer in offers])
        made = loop.decide(
            DecisionRequest(event_id=f"event {number}", request=request, encoding="json", actions=tuple(offers))
        )
        earned = float(rng.random() < (0.6 if offers[made.shown] == "hat" else 0.2))
        reward = Reward(loop="default", event_id=made.event_id, timestamp=clock(), value=earned)
        store.append_blocking([made, reward])
    clock.wait(2)
    export_loop(store, "default", folder / "log")
    store.close()
    return folder


@pytest.fixture(name="folder", scope="module")
def folder_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLBANDITS_COMPILE", "never")
        folder = write_store(tmp_path_factory.mktemp("service"), model(SERVED))
        model(OTHER).save(folder / "other.safetensors")
        model(OTHER, sparse=True).save(folder / "sparse.safetensors")
        yield folder


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLBANDITS_COMPILE", "never")


@pytest.fixture(name="log")
def log_fixture(folder: Path) -> ServiceExport:
    return read_export(folder / "log", link="logistic")


def changed(folder: Path, copied: Path, **columns: pl.Expr | None) -> Path:
    """A copy of the export with other columns; None drops a column."""
    shutil.copytree(folder / "log", copied)
    (file,) = copied.glob("*.parquet")
    dropped = [name for name, column in columns.items() if column is None]
    expressions = {name: column for name, column in columns.items() if column is not None}
    pl.read_parquet(file).with_columns(**expressions).drop(dropped).write_parquet(file)
    return copied


def as_numbers(evaluation: Any) -> list[Any]:
    """All numbers of an evaluation."""
    return [(each.name, each.value, each.standard_error, each.normal) for each in evaluation.estimates]


def test_export_has_arm_names_and_the_served_features(folder: Path, log: ServiceExport) -> None:
    assert (len(log), log.dim, log.schema.names, log.feature_map) == (ROWS, SERVED.dim, OFFERS, SERVED)
    (block,) = log.blocks()
    (table,) = read_parquet(folder / "log", Columns(features="features"), link="logistic").blocks()
    np.testing.assert_array_equal(block.features(), table.features())
    np.testing.assert_array_equal(block.chosen, table.chosen)
    np.testing.assert_array_equal(block.rewards, table.rewards)
    assert block.probabilities is not None
    assert table.probabilities is not None
    np.testing.assert_array_equal(block.probabilities, table.probabilities)
    actions = pl.read_parquet(folder / "log/*.parquet")["actions"].to_list()
    assert block.row_arm_names is not None
    named = [[block.row_arm_names.names[i] for i in row if i >= 0] for row in block.row_arm_names.indices]
    assert named == actions
    assert [len(part) for part in log.blocks(25)] == [25, 25, 10]


def test_map_encodes_the_fields_as_the_service_did(log: ServiceExport) -> None:
    from_fields = TableLog(log._table, replace(log._layout, pairs=RequestFields(SERVED)))
    for ours, served in zip(from_fields.blocks(50), log.blocks(50), strict=True):
        np.testing.assert_array_equal(ours.features(), served.features())


def test_another_map_encodes_the_fields(folder: Path) -> None:
    (block,) = open_log(folder / "log", features=OTHER).blocks()
    (file,) = (folder / "log").glob("*.parquet")
    for row, written in enumerate(pl.read_parquet(file).to_dicts()[:10]):
        context, fields = json.loads(written["context"])[0], [json.loads(text)[0] for text in written["action_fields"]]
        expected = OTHER.transform([context | own for own in fields])
        np.testing.assert_array_equal(block.features()[row, : len(fields)], expected)
    (sparse,) = open_log(folder / "log", features=OTHER, sparse=True).blocks()
    arms: Any = sparse.arms
    rows, dense = arms.every_arm(), block.features()[block.arm_mask]
    np.testing.assert_array_equal(csr_array((rows.values, rows.indices, rows.indptr), dense.shape).toarray(), dense)


def test_named_arm_decides_as_the_log_where_it_is_not_offered(log: ServiceExport) -> None:
    (block,) = log.blocks()
    assert block.row_arm_names is not None
    assert block.probabilities is not None
    index = block.row_arm_names.find("coat")
    assert (index < 0).sum() == ROWS // 5
    by_hand = np.where((index < 0)[:, np.newaxis], block.probabilities, np.eye(3)[index])
    evaluation, expected = evaluate(log, "coat", ["ips", "snips"]), evaluate(log, by_hand, ["ips", "snips"])
    assert as_numbers(evaluation) == as_numbers(expected)
    note = f"{ROWS // 5} of {ROWS} rows do not offer the arm 'coat': there the target decides as the logging policy did"
    assert note in evaluation.notes
    assert not any("do not offer" in text for text in (*evaluate(log, "arm:hat", "ips").notes, *expected.notes))


@pytest.mark.parametrize(("name", "address"), [("other", "events.sqlite"), ("sparse", "log")])
def test_command_and_python_give_the_same_estimates(folder: Path, name: str, address: str) -> None:
    path = f"{name}.safetensors"
    words = (
        "--policy",
        "arm:coat",
        "--policy",
        "arm:hat",
        "--policy",
        "uniform",
        "--model",
        path,
        "--exploration",
        "0",
    )
    run = glb(
        "evaluate", address, "--link", "logistic", *words, "--estimator", "ips", "--estimator", "dr", folder=folder
    )
    assert run.returncode == 0, run.stderr
    assert f"{ROWS // 5} of {ROWS} rows do not offer the arm 'coat'" in run.stdout
    record = json.loads((folder / "out/evaluate/evaluation.json").read_text())
    bandit = Bandit.load(folder / path)
    log = open_log(folder / "log", link="logistic", features=bandit.features, sparse=bandit.sparse)
    targets: dict[str, Any] = {"arm:coat": "coat", "arm:hat": "arm:hat", "uniform": "uniform", path: bandit}
    comparison = compare_policies(log, targets, ComparisonSettings(estimators=("ips", "dr")))
    for written, compared in zip(record["policies"], comparison.policies, strict=True):
        alone = evaluate(log, targets[compared.label], ["ips", "dr"])
        assert as_numbers(compared.evaluation) == as_numbers(alone)
        values = {each["name"]: each["value"] for each in written["estimates"]}
        assert values == {each.name: each.value for each in alone.estimates}


def test_model_trained_on_the_export_has_its_map(folder: Path, log: ServiceExport) -> None:
    run = glb("train", "log", "--link", "logistic", "--to", "trained.safetensors", folder=folder)
    assert run.returncode == 0, run.stderr
    trained = Bandit.load(folder / "trained.safetensors")
    assert trained.features == SERVED
    np.testing.assert_array_equal(trained.state, train(log, Optimist(link="logistic")).state)


def test_commands_of_the_guide_run(tmp_path: Path) -> None:
    """The commands of docs/evaluate.md on the log of the service, on a store with the same fields."""
    page = (Path(__file__).parents[3] / "docs" / "evaluate.md").read_text(encoding="utf-8")
    section = page.partition("\n## The log of the service\n")[2].partition("\n## ")[0]
    commands = re.findall(r"^glb (.*)$", section, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["store", "evaluate", "train", "evaluate"]
    rng = np.random.default_rng(1)
    past = pl.DataFrame(
        {
            "offer": rng.choice(OFFERS, 300),
            "clicked": rng.integers(0, 2, 300),
            "propensity": np.full(300, 1 / 3),
            "age": rng.integers(18, 80, 300),
            "country": rng.choice(["de", "fr"], 300),
        }
    )
    past.write_csv(tmp_path / "offers.csv")
    write_store(tmp_path, model(SERVED))
    (tmp_path / "events.sqlite").rename(tmp_path / "glb.db")
    shutil.rmtree(tmp_path / "log")
    for command in commands:
        fast = ("--estimator", "ips") if command.startswith("evaluate") else ()
        run = glb(*command.split(), *fast, folder=tmp_path)
        assert run.returncode == 0, run.stderr
    assert f"new.safetensors: evaluated on all {ROWS} rows" in run.stdout


def test_export_without_fields_needs_no_map_but_its_own(folder: Path, tmp_path: Path) -> None:
    old = changed(folder, tmp_path / "old", context=None, action_fields=None)
    assert open_log(old, features=SERVED).dim == SERVED.dim
    with pytest.raises(InvalidInput, match=r"needs the fields of the requests \(price, age\), but .*old has only"):
        open_log(old, features=OTHER)
    shutil.copy(folder / "other.safetensors", tmp_path)
    run = glb("evaluate", "old", "--model", "other.safetensors", folder=tmp_path)
    assert "old has only feature vectors: an earlier version wrote it. Export the log again" in run.stderr
    run = glb("evaluate", "old", "--policy", "arm:hat", "--estimator", "ips", folder=tmp_path)
    assert run.returncode == 0, run.stderr


def test_fields_can_be_left_out(folder: Path, tmp_path: Path) -> None:
    run = glb("store", "export", str(tmp_path / "log"), "--store", "events.sqlite", "--without-fields", folder=folder)
    assert run.returncode == 0, run.stderr
    with_fields, without = (pl.read_parquet(path / "log/*.parquet") for path in (folder, tmp_path))
    assert [without[name].null_count() for name in FIELDS] == [ROWS, ROWS]
    assert without.drop(FIELDS).equals(with_fields.drop(FIELDS))
    assert read_export(tmp_path / "log", link="logistic").schema.rows == ROWS
    with pytest.raises(InvalidInput, match=f"{ROWS} of {ROWS} decisions have none: .* --without-fields"):
        open_log(tmp_path / "log", features=OTHER)


def test_log_must_be_opened_with_the_map_of_the_model(folder: Path, log: ServiceExport) -> None:
    other = Bandit.load(folder / "other.safetensors")
    with pytest.raises(InvalidInput, match="different feature maps"):
        evaluate(log, other, "ips")
    with pytest.raises(
        InvalidInput, match=r"must have .* features, like the bandit; got 18. Open the log with open_log"
    ):
        evaluate(TableLog(log._table, replace(log._layout, features=None)), other, "ips")


def test_columns_of_an_export_are_fixed(folder: Path) -> None:
    for columns in (None, Columns(), Columns(features="features"), Columns(propensity=None)):
        assert isinstance(open_log(folder / "log", columns), ServiceExport)
    clustered = open_log(folder / "log", Columns(cluster="event_id"))
    assert next(iter(clustered.blocks())).clusters is not None
    with pytest.raises(InvalidInput, match="Columns.propensity does not apply to"):
        open_log(folder / "log", Columns(propensity="p"))
    with pytest.raises(UnknownName, match="unknown reward 'click'"):
        open_log(folder / "log", Columns(reward="click"))
    with pytest.raises(InvalidInput, match="has no column 'user'"):
        open_log(folder / "log", Columns(cluster="user"))
    table = open_log(folder / "log", Columns(features="features"), format="parquet")
    assert not isinstance(table, ServiceExport)


def write_manifest(folder: Path, *names: str, rows: int) -> None:
    files = [ExportedFile(name, rows, sha256="") for name in names]
    manifest = Manifest(loop="default", rows=rows, left_out=0, last_sequence=rows, files=files)
    (folder / MANIFEST).write_bytes(msgspec.json.encode(manifest))


def test_other_folders_are_no_exports(tmp_path: Path) -> None:
    assert not is_export(tmp_path)
    pl.DataFrame({"arm": ["a"], "reward": [1.0], "propensity": [0.5]}).write_parquet(tmp_path / "1.parquet")
    write_manifest(tmp_path, "1.parquet", rows=1)
    assert not is_export(tmp_path), "a table of another program"
    assert open_log(tmp_path).arm_names == ("a",)
    (tmp_path / "manifest.json").write_text("[]")
    assert not is_export(tmp_path)
    with pytest.raises(InvalidInput, match="has no complete export"):
        read_export(tmp_path)
    write_manifest(tmp_path, rows=0)
    for read in (read_export, open_log):
        with pytest.raises(InvalidInput, match="has no decision. Export the log again when"):
            read(tmp_path)


def test_arms_of_vectors_have_the_ids_of_the_request(tmp_path: Path) -> None:
    store, clock = SqliteStore(tmp_path / "events.sqlite"), Clock()
    loop = Loop("default", store, clock, first_configuration=LoopConfig(width=2, reward_wait=1.0))
    for number, ids in enumerate([("tea", "milk"), ("cola", "tea")]):
        body = np.eye(2).tobytes()
        request = DecisionRequest(event_id=str(number), request=body, encoding=DENSE, actions=ids)
        store.append_blocking([loop.decide(request)])
    clock.wait(2)
    export_loop(store, "default", tmp_path / "log")
    store.close()
    log = read_export(tmp_path / "log")
    assert (log.schema.names, log.feature_map) == (("cola", "milk", "tea"), None)
    assert "1 of 2 rows do not offer the arm 'milk'" in " ".join(evaluate(log, "milk", "ips").notes)
    with pytest.raises(InvalidInput, match="2 of 2 decisions have none: they were"):
        open_log(tmp_path / "log", features=OTHER)


TWO_ROWS: dict[str, Any] = {
    "event_id": ["1", "2"],
    "actions": [["a", "b"], ["b"]],
    "arm": [0, 0],
    "propensity": [0.5, 1.0],
    "probabilities": [[0.5, 0.5], [1.0]],
    "reward": [1.0, 0.0],
    "features": [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0]]],
}


@pytest.mark.parametrize(
    ("columns", "rows", "message"),
    [
        ({}, 7, "it has 2 rows, and its manifest says 7. Export the log again"),
        ({}, 0, "has no decision"),
        ({"probabilities": [[0.5], [1.0]]}, 2, "its column 'probabilities' does not have a number for each action"),
        ({"features": [[[1.0], [0.0, 1.0]], [[0.0, 1.0]]]}, 2, "its column 'features' does not have a number for each"),
        (
            {"probabilities": [["half", "half"], ["all"]]},
            2,
            "its column 'probabilities' does not have a number for each",
        ),
        ({"actions": [None, ["b"]]}, 2, "a decision has no actions or features"),
    ],
)
def test_damaged_exports_are_refused(tmp_path: Path, columns: Any, rows: int, message: str) -> None:
    pl.DataFrame(TWO_ROWS | columns).write_parquet(tmp_path / "a.parquet")
    write_manifest(tmp_path, "a.parquet", rows=rows)
    with pytest.raises(InvalidInput, match=message):
        next(read_export(tmp_path).blocks())


def test_missing_file_of_an_export_is_named(tmp_path: Path) -> None:
    write_manifest(tmp_path, "a.parquet", rows=2)
    with pytest.raises(InvalidInput, match="the export is damaged: its file a.parquet"):
        read_export(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", '{"loop": "default", "rows": 2, "files": [{"name": 5}]}'])
def test_damaged_manifest_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(InvalidInput, match="has no complete export of `glb store export`"):
        read_export(tmp_path)
