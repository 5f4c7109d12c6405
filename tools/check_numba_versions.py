"""Run the fast tests of `compilation` and `policies` with the oldest and the newest Numba that pyproject.toml allows.

    python tools/check_numba_versions.py

The version of this environment is not tried again: `make test` runs its tests. Another version is installed with its
NumPy into a folder of its own, which comes before this environment on the path. If no package index is reachable, one
line says so, and nothing fails.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import numba

ROOT = Path(__file__).resolve().parent.parent
TESTS = "tests/compilation", "tests/policies"
SECONDS = 900
"""Seconds after which an installation or the tests of a version fail."""


def main() -> None:
    """Install and try each version that this environment does not have. Exits with 1 if a test fails."""
    for minor in allowed_minors():
        if f"{numba.__version__}.".startswith(f"{minor}."):
            say(f"Numba {minor}: this environment has {numba.__version__}, which `make test` tries.")
        elif not index_is_reachable():
            say(f"Numba {minor}: not tried, because no package index is reachable.")
        else:
            try_version(minor)


def allowed_minors() -> list[str]:
    """Return the oldest and the newest minor version that pyproject.toml allows."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    bounds = re.fullmatch(r"numba>=0\.(\d+),<0\.(\d+)", next(each for each in dependencies if "numba" in each))
    assert bounds is not None
    return [f"0.{minor}" for minor in sorted({int(bounds[1]), int(bounds[2]) - 1})]


def index_is_reachable() -> bool:
    """Whether pip finds versions of Numba."""
    pip = [sys.executable, "-m", "pip", "index", "versions", "numba", "--retries", "0", "--timeout", "10"]
    return subprocess.run(pip, capture_output=True, check=False, timeout=SECONDS).returncode == 0


def try_version(minor: str) -> None:
    """Install the last patch of a minor version, and run the tests with it. Exits with 1 if one fails."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", folder]
        wanted = [f"numba=={minor}.*", "numpy>=2.0", "--only-binary", ":all:"]
        subprocess.run([*pip, *wanted], check=True, timeout=SECONDS)
        variables = os.environ | {
            "PYTHONPATH": os.pathsep.join([folder, str(ROOT / "src")]),
            "NUMBA_CACHE_DIR": str(Path(folder) / "cache"),
        }
        version = [
            sys.executable,
            "-c",
            "import numba, numpy; print('Numba', numba.__version__, 'with NumPy', numpy.__version__)",
        ]
        say(subprocess.check_output(version, text=True, env=variables).strip())
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "logical", "--dist=loadgroup"]
        done = subprocess.run([*pytest, *TESTS], cwd=ROOT, env=variables, check=False, timeout=SECONDS)
        if done.returncode != 0:
            sys.exit(
                f"Numba {minor}: a test failed. Correct it, or raise the lower bound in pyproject.toml and TESTED."
            )


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
