"""Parts of a log on a Ray cluster of two nodes on this machine."""

import os
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from glbandits.evaluation import evaluate, evaluation_parts, open_log
from tests.evaluation.test_evaluation_parts import COLUMNS, ROWS, TARGETS, numbers, table

pytestmark = [pytest.mark.system, pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")]


@pytest.fixture(name="cluster")
def cluster_fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ray: Any = import_module("ray")
    Cluster: Any = import_module("ray.cluster_utils").Cluster

    monkeypatch.setenv("GLBANDITS_COMPILE", "never")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH")])))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    try:
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.mark.usefixtures("cluster")
def test_two_nodes_give_the_same_result_to_the_last_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation_parts, "PART_ROWS", ROWS // 4)
    monkeypatch.setattr(import_module("glbandits.evaluation.evaluate"), "BLOCK", ROWS // 8)
    table().write_parquet(tmp_path / "log.parquet", row_group_size=700)
    log = open_log(tmp_path / "log.parquet", COLUMNS, link="logistic")
    one = evaluate(log, TARGETS, reference="uniform", progress=lambda *_: None)
    two = evaluate(log, TARGETS, reference="uniform", engine="ray", progress=lambda *_: None)
    assert numbers(one) == numbers(two)
