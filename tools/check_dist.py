"""Build wheel and sdist, report their sizes, and try the wheel on every supported Python that is there.

    python tools/check_dist.py out/dist

Each Python gets a new environment with the wheel and its extras. There a bandit learns, saves and loads, `glb simulate`
and `glb evaluate` write their pages, and `glb serve` decides. Fails if the wheel is larger than 2 MB or anything else
fails.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LARGEST_WHEEL = 2e6
OLDEST, NEWEST = 11, 20
TRIAL = """
import tempfile, pathlib, numpy as np, polars as pl
from glbandits import Bandit, Optimist
bandit, arms = Bandit(Optimist(link="logistic"), dim=2, seed=1), np.eye(2)
for _ in range(200):
    arm = bandit.choose(arms)
    bandit.learn(arms[arm], float(arm == 1))
path = pathlib.Path(tempfile.mkdtemp()) / "model"
bandit.save(path)
assert Bandit.load(path).choose(arms) == 1
clicks = (np.random.default_rng(0).random(400) < np.tile([0.2, 0.5], 200)).astype(float)
pl.DataFrame({"arm": ["old", "new"] * 200, "reward": clicks, "propensity": [0.5] * 400}).write_parquet("log.parquet")
"""
COMMANDS = {
    "glb simulate --policy optimist --policy uniform --horizon 50 --seeds 2 --jobs 1": "out/simulate/regret.svg",
    "glb evaluate log.parquet --policy uniform --policy arm:new": "out/evaluate/evaluation.html",
}
"""Commands, and a file that each writes."""


def main(folder: Path) -> None:
    """Build, measure, install, try."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([Path(sys.executable).parent / "hatchling", "build", "-d", folder.resolve()], cwd=ROOT, check=True)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    for file in (wheel, sdist):
        say(f"{file.name}: {file.stat().st_size / 1e6:.2f} MB")
    if wheel.stat().st_size > LARGEST_WHEEL:
        sys.exit(f"the wheel must have at most {LARGEST_WHEEL / 1e6:.0f} MB")
    for python in pythons():
        try_wheel(python, wheel.resolve())


def pythons() -> list[Path]:
    """Return one interpreter of each version from 3.11, on PATH or of pyenv, with that of this process."""
    found = {sys.version_info.minor: Path(sys.executable)}
    homes = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))
    for minor in range(OLDEST, NEWEST):
        on_path = shutil.which(f"python3.{minor}")
        candidates = [home for home in homes if home.parts[-3].startswith(f"3.{minor}.")]
        candidates += [Path(on_path)] if on_path else []
        for python in filter(runs, candidates):
            found.setdefault(minor, python)
    return [found[minor] for minor in sorted(found)]


def runs(python: Path) -> bool:
    """Whether this interpreter starts. A shim of pyenv may not."""
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def try_wheel(python: Path, wheel: Path) -> None:
    """Install the wheel in a new environment and use it. Dependencies have the locked versions."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        scripts, constraints = Path(folder) / "bin", Path(folder) / "constraints.txt"
        locked = (ROOT / "requirements" / "run.txt").read_text(encoding="utf-8")
        constraints.write_text("\n".join(re.findall(r"^[\w.-]+==\S+", locked, re.MULTILINE)), encoding="utf-8")
        options = ["--quiet", "--disable-pip-version-check", "--constraint", str(constraints)]
        subprocess.run([scripts / "pip", "install", "--no-compile", *options, f"{wheel}[lab,serve]"], check=True)
        version = subprocess.check_output([scripts / "python", "--version"], text=True).strip()
        variables = os.environ | {"GLBANDITS_COMPILE": "never", "NO_COLOR": "1"}
        subprocess.run([scripts / "python", "-W", "error", "-c", TRIAL], check=True, cwd=folder, env=variables)
        for command, page in COMMANDS.items():
            words = command.split()
            done = subprocess.run([scripts / words[0], *words[1:]], cwd=folder, env=variables, capture_output=True)
            if done.returncode or not (Path(folder) / page).is_file():
                sys.exit(f"{version}: {command} failed:\n{(done.stdout + done.stderr).decode()}")
        serve(scripts, folder, variables)
        say(f"{version}: installed; simulate, evaluate and serve work.")


def serve(scripts: Path, folder: str, variables: dict[str, str]) -> None:
    """Start `glb serve` and try it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    create = [str(scripts / "glb"), "store", "keys", "create", "trial"]
    key = subprocess.check_output(create, text=True, cwd=folder, env=variables).strip()
    with subprocess.Popen([scripts / "glb", "serve", "--port", str(port)], cwd=folder, env=variables) as server:
        try:
            program = ROOT / "tools" / "try_service.py"
            subprocess.run([scripts / "python", program, f"http://127.0.0.1:{port}", key], check=True, env=variables)
        finally:
            server.terminate()


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
