"""What docs/service.md has people copy: the unit for systemd, and the file for a container."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from glbandits.serving.server_settings import PREFIX, read_settings

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "service.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "glb.service"
    unit.write_text(block("ini").replace("/opt/glb/bin/glb", sys.executable))
    run = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("language", "names"), [("ini", {"durability"}), ("dockerfile", {"host", "store", "log_format"})]
)
def test_their_variables_are_settings(language: str, names: set[str]) -> None:
    given = dict(re.findall(rf"({PREFIX}\w+)=(\S+)", block(language)))
    assert {name.removeprefix(PREFIX).lower() for name in given} == names
    read_settings({}, given)


def test_the_flags_of_the_unit_are_settings() -> None:
    flags = dict(re.findall(r"--(\S+) (\S+)", block("ini")))
    assert set(flags) == {"store", "log-format"}
    read_settings({name.replace("-", "_"): value for name, value in flags.items()})


def test_what_the_container_is_made_of_is_in_a_clone() -> None:
    copied = [line.split()[1:-1] for line in block("dockerfile").splitlines() if line.startswith("COPY ")]
    names = {name for line in copied for name in line}
    assert {"pyproject.toml", "src"} <= names
    assert all((ROOT / name).exists() for name in names)
