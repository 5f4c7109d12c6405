"""The programs, the file and the commands of docs/own-environments.md."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glbandits import InvalidInput
from glbandits.lab import NOISES, Rounds, simulate
from tests.cli.in_process import glb

PAGE = (Path(__file__).parents[2] / "docs/own-environments.md").read_text(encoding="utf-8")
MODULE, *PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the page's environment in mine.py."""
    (tmp_path / "mine.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("mine", None)
    yield tmp_path
    sys.modules.pop("mine", None)


def smaller(text: str) -> str:
    """Return a program, file or command with fewer rounds and seeds, in this process."""
    text = re.sub(r"horizon( ?= ?)\d+", r"horizon\g<1>60", text)
    text = text.replace("seeds=20", "seeds=2").replace('out/store")))', 'out/store")), jobs=1)')
    return text.replace('reference="optimist",', 'reference="optimist", repeats=1, fresh=3,')


@pytest.mark.usefixtures("plain_python")
def test_programs_of_the_page_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for program in PROGRAMS:
        exec(smaller(program), names)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 3
    assert any(line.startswith("optimist, half-life auto ") for line in printed)
    assert (folder / "out/store").is_dir()


@pytest.mark.usefixtures("plain_python")
def test_file_and_command_of_the_page_run(folder: Path) -> None:
    [document] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (folder / "drift.toml").write_text("repeats = 1\nfresh = 3\n" + smaller(document))
    run = glb("compare", "drift.toml", "--quick", "--jobs", "1", folder=folder)
    assert run.returncode == 0, run.stderr
    summary = json.loads((folder / "out/compare/summary.json").read_text())
    assert [experiment["name"] for experiment in summary["experiments"]] == ["slow", "fast"]
    assert {experiment["reference"] for experiment in summary["experiments"]} == {"optimist"}
    [command] = re.findall(r"```sh\nglb (.*?)\n```", PAGE, re.DOTALL)
    run = glb(*command.split(), "--horizon", "60", "--seeds", "2", folder=folder)
    assert run.returncode == 0, run.stderr
    assert "minus optimist" in run.stdout


def test_message_of_the_page_is_that_of_a_mean_of_one_and_a_half() -> None:
    names: dict[str, Any] = {}
    exec(MODULE, names)
    base: Any = names["Drift"]

    class Drift(base):  # type: ignore[misc]
        noise = NOISES["bernoulli"]

        def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
            (chunk,) = super().rounds(horizon, seed)
            chunk.expected[6, 2] = 1.5
            yield chunk

    [message] = re.findall(r"```text\n(.*?)\n```", PAGE, re.DOTALL)
    with pytest.raises(InvalidInput, match=re.escape(message)):
        simulate("uniform", Drift(), horizon=20, seeds=1)
