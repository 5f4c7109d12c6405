"""JavaScript of the tests of SDKs, with the SDKs that npm installs beside it."""

import shutil
import subprocess
from pathlib import Path

import pytest


def installed_scripts(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of a folder of scripts with its SDKs. Skips the test without node, npm or a registry."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("the JavaScript SDKs need node and npm")
    folder = tmp_path_factory.mktemp(name) / "sdks"
    shutil.copytree(Path(__file__).parent / name, folder)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-timeout=20000"]
    try:
        installed = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=50, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("the npm registry does not answer")
    if installed.returncode:
        pytest.skip(f"the SDKs could not be installed from the npm registry: {installed.stderr[-300:]}")
    return folder
