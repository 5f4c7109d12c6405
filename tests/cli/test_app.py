"""Options that come before a command, the list of commands, and completion."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from glbandits import __version__
from glbandits.cli.app import COMMANDS, GROUPS
from tests.cli.in_process import glb


def test_version_is_printed(tmp_path: Path) -> None:
    assert glb("--version", folder=tmp_path).stdout == f"glbandits {__version__}\n"


def test_help_lists_all_commands_on_whole_lines(tmp_path: Path) -> None:
    for group in ("", *GROUPS):
        run = glb(*group.split(), "--help", folder=tmp_path, environment={"COLUMNS": "80"})
        assert run.returncode == 0
        for words, summary in [*GROUPS.items(), *((words, entry.summary) for words, entry in COMMANDS.items())]:
            parent, _, name = words.rpartition(" ")
            shown = any(line.split() == [name, *summary.split()] for line in run.stdout.splitlines())
            assert shown == (parent == group), (group, words)


@pytest.mark.parametrize("words", COMMANDS)
def test_help_of_a_command_is_plain_text(words: str, tmp_path: Path) -> None:
    run = glb(*words.split(), "--help", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert not set(run.stdout) & set("…─│")
    assert "<bool>" not in run.stdout


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("glb ev", ["evaluate"]),
        ("glb s", ["serve", "simulate", "store"]),
        ("glb simulate --se", ["--seeds"]),
        ("glb store keys r", ["revoke"]),
    ],
)
def test_bash_completes_commands_and_options(words: str, completions: list[str], tmp_path: Path) -> None:
    index = str(len(words.split()) - 1)
    variables = {"_GLB_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": index}
    run = glb(folder=tmp_path, environment=variables)
    assert run.stdout.split() == completions


def test_completion_script_can_be_shown(tmp_path: Path) -> None:
    variables = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    run = glb("--show-completion", "bash", folder=tmp_path, environment=variables)
    assert "complete_bash" in run.stdout


def test_commands_are_imported_only_when_used() -> None:
    """A process of its own, because this one has imported everything."""
    modules = "glbandits.cli.app, glbandits.cli.commands.serve, sys"
    script = f"import {modules}; print({{'numpy', 'numba', 'scipy', 'polars'}} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "set()\n"


def test_import_of_evaluation_names_the_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    monkeypatch.delitem(sys.modules, "glbandits.evaluation", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"needs polars. In a clone of glbandits, run pip install"):
        importlib.import_module("glbandits.evaluation")
