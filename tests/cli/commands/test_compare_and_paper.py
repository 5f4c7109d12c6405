import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from rich.console import Console

from glbandits.cli.commands.experiments import _resumable
from glbandits.lab.experiments.result_store import ResultStore
from glbandits.lab.experiments.summary import ExperimentSummary
from glbandits.lab.paper.paper_summary import read_summary
from glbandits.lab.paper.whole_paper import paper_parts
from tests.cli.in_process import Run, glb

MINE = """
title = "Mine"
horizon = 50
repeats = 3
fresh = 5
[environment]
dim = 3
arms = 5
[[policy]]
kind = "online-laplace"
grid = { exploration = [0.5, 1.0] }
[[policy]]
kind = "sgd-ts"
grid = { step = [0.5, 1.0], block_factor = [3, 5] }
"""
SIMPLE = """
title = "Simple"
horizon = HORIZON
repeats = 3
fresh = 5
[environment]
dim = 3
arms = 5
[[policy]]
kind = "lin-ucb"
grid = { exploration = [0.5, 1.0, 2.0, 4.0] }
"""


class Finished(NamedTuple):
    """The folder of MINE after `glb compare mine.toml --jobs 1 --out whole`, and the output of the command."""

    folder: Path
    run: Run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("finished")
    (folder / "mine.toml").write_text(MINE)
    return Finished(folder, glb("compare", "mine.toml", "--jobs", "1", "--out", "whole", folder=folder))


def test_several_problems_share_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLBANDITS_COMPILE", "never")
    text = SIMPLE.replace("HORIZON", "20").replace("[environment]", '[[environment]]\nname = "small"')
    (tmp_path / "two.toml").write_text(
        text + '[[policy]]\nkind = "uniform"\n[[environment]]\nname = "large"\narms = 30\n'
    )
    (tmp_path / "one.toml").write_text(SIMPLE.replace("HORIZON", "20"))
    run = glb("compare", "two.toml", "one.toml", "--jobs", "1", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    for title in ("Simple, small: final", "Simple, large: final", "Simple: final", "All problems: final regret"):
        assert title in run.stdout
    assert re.search(r"policy +mean rank +small +large +one\n", run.stdout)
    assert re.search(r"uniform +2.0 .* -\n", run.stdout)
    page = (tmp_path / "out/compare/report.html").read_text(encoding="utf-8")
    assert page.count("mean rank") >= 1
    assert all(f'id="experiment-{name}"' in page for name in ("small", "large", "one"))
    run = glb("compare", "one.toml", "one.toml", folder=tmp_path)
    assert run.returncode == 2
    assert "experiments of a report must have different names; got one, one" in run.stderr


def without_times(page: Path) -> str:
    """The page without the milliseconds of a run, the cell before the chosen setting, and without the command."""
    text = re.sub(r'<td>[\d.e-]+</td>(<td class="w">[^<]*</td></tr>)', r"\1", page.read_text(encoding="utf-8"))
    return re.sub(r"glb compare[^<]*", "COMMAND", text)


def test_second_run_computes_nothing_and_repeats_the_report(finished: Finished) -> None:
    folder, first = finished
    assert first.returncode == 0, first.stderr
    assert "Report: whole/report.html" in first.stdout
    assert re.search(r"sgd-ts\s+4\s", first.stdout)
    summary = json.loads((folder / "whole/summary.json").read_text())
    policies = summary["experiments"][0]["fresh"]["policies"]
    assert [policy["label"] for policy in policies] == ["online-laplace", "sgd-ts"]
    assert (folder / "whole/figures/mine.pdf").read_bytes().startswith(b"%PDF")
    files, page = set((folder / "whole/store").iterdir()), (folder / "whole/report.html").read_bytes()
    assert glb("compare", "mine.toml", "--jobs", "1", "--out", "whole", folder=folder).returncode == 0
    assert set((folder / "whole/store").iterdir()) == files
    assert (folder / "whole/report.html").read_bytes() == page


@pytest.mark.system
def test_killed_command_continues_to_the_same_report(finished: Finished, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    words = ["compare", "mine.toml", "--jobs", "1", "--out", "killed"]
    command = [sys.executable, "-c", "from glbandits.cli.main import main; main()", *words]
    for moment in (0, 2, 5):  # killed when so many result files are there
        process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True, stdout=subprocess.DEVNULL)
        while process.poll() is None and len(list((tmp_path / "killed/store").glob("*.parquet"))) < moment:
            time.sleep(0.002)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert glb(*words, folder=tmp_path).returncode == 0
    assert without_times(tmp_path / "killed/report.html") == without_times(finished.folder / "whole/report.html")


@pytest.mark.system
def test_ctrl_c_prints_how_to_continue(tmp_path: Path) -> None:
    (tmp_path / "simple.toml").write_text(SIMPLE.replace("HORIZON", "1000"))
    words, plain = ["compare", "simple.toml", "--jobs", "2", "--out", "out"], {"GLBANDITS_COMPILE": "never"}
    command = [sys.executable, "-c", "from glbandits.cli.main import main; main()", *words]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=os.environ | plain,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not list((tmp_path / "out/store").glob("*.parquet")):
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stop with Ctrl-C at any time; the same command continues." in printed
    assert "finished runs are stored in out/store. To continue, run: glb" in printed
    assert "Traceback" not in errors  # a slow machine prints progress
    stored = set((tmp_path / "out/store").iterdir())
    words[3] = "1"  # the number of processes does not matter, and this one is already there
    assert glb(*words, folder=tmp_path, environment=plain).returncode == 0
    assert stored <= set((tmp_path / "out/store").iterdir())


@pytest.mark.parametrize("link", ["__cause__", "__context__"])
def test_system_error_caused_by_ctrl_c_counts_as_ctrl_c(link: str, tmp_path: Path) -> None:
    interrupted = SystemError("CPUDispatcher returned a result with an exception set")
    setattr(interrupted, link, KeyboardInterrupt())
    with pytest.raises(typer.Exit), _resumable(ResultStore(tmp_path), Console(quiet=True)):
        raise interrupted
    with pytest.raises(SystemError), _resumable(ResultStore(tmp_path), Console(quiet=True)):
        raise SystemError("another reason")


def test_all_names_every_part_of_the_paper() -> None:
    assert paper_parts(["all"]) == ["simulation", "forest-1", "forest-2", "news", "runtime", "cost", "theory"]
    assert paper_parts(["news", "cost", "news"]) == ["news", "cost"]


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_now")
def test_ray_on_two_nodes_gives_the_same_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster_utils = pytest.importorskip("ray.cluster_utils", reason="Ray is in the extra [ray]")
    words = ["paper", "simulation", "forest-1", "--quick", "--out"]
    assert glb(*words, "local", folder=tmp_path).returncode == 0
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=1)
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        run = glb(*words, "ray", "--jobs", "ray", folder=tmp_path)
    finally:
        cluster.shutdown()
    assert run.returncode == 0, run.stderr
    local, on_ray = (read_summary(tmp_path / name / "summary.json").experiments for name in ("local", "ray"))
    assert list(map(_regrets, local)) == list(map(_regrets, on_ray))


def _regrets(experiment: ExperimentSummary) -> list[tuple[str, float, str]]:
    assert experiment.paper is not None
    assert experiment.fresh is not None
    policies = (*experiment.paper.policies, *experiment.fresh.policies)
    return [(policy.label, policy.regret, policy.chosen) for policy in policies]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("paper", "simulatoin"), "unknown experiment 'simulatoin'; did you mean 'simulation'"),
        (("paper", "simulation", "--protocol", "fress"), "unknown protocol 'fress'; did you mean 'fresh'"),
        (("paper", "cost", "--jobs", "rayy"), "-1 for one per core, or ray; got 'rayy'"),
        (("paper", "cost", "--out", "mine.toml"), "--out needs a writable folder; got mine.toml"),
        (("paper", "simulation", "--data", "."), "covtype.data or a folder of them; . has neither"),
        (("compare", "nowhere.toml"), "nowhere.toml could not be read (No such file or directory)"),
    ],
)
def test_invalid_option_is_an_error_and_writes_nothing(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    run = glb(*words, folder=tmp_path)
    assert run.returncode == 2
    assert message in run.stderr
    assert "Traceback" not in run.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]
