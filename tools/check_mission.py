"""Do what README tells a new user to do: in a copy of the tree, with an empty home and no package installed.

    python tools/check_mission.py

Runs `make run`, opens the page that it writes in headless Chromium, if it is there, and runs the shell blocks of README
as printed, in the environment that `make run` made. Fails if a command or a chart does. Takes about six minutes.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = re.compile(r"PATH|LANG|(PIP|SSL|REQUESTS|PYENV)_.*|https?_proxy|no_proxy", re.IGNORECASE)
"""Variables of the environment that a new user may have too."""
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
LOG = """
import numpy as np, polars as pl
rng = np.random.default_rng(0)
arm, age = rng.integers(2, size=2000), rng.random(2000)
sold = rng.random(2000) < np.where(arm == 1, 0.2 + 0.5 * age, 0.4)
pl.DataFrame(
    {"arm": np.array(["old", "new"])[arm], "reward": sold.astype(float), "propensity": [0.5] * 2000, "age": age}
).write_parquet("log.parquet")
"""
"""Writes the log that README's commands read."""
SECONDS = 1500
"""Seconds after which one command fails."""


def main() -> None:
    """Copy, then try each promise."""
    with tempfile.TemporaryDirectory() as folder:
        clone, variables = copy_tree(Path(folder)), environment(Path(folder))
        say("make run", run(["make", "run"], clone, variables))
        open_in_browser(clone / "out" / "quick" / "report.html", Path(folder))
        variables["PATH"] = f"{clone / '.venv' / 'bin'}{os.pathsep}{variables['PATH']}"
        run(["python", "-c", LOG], clone, variables)
        for block in BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8")):
            say(block.splitlines()[-1], run(["sh", "-ec", block], clone, variables))


def copy_tree(folder: Path) -> Path:
    """Return a copy of all files that git has or would add."""
    listed = subprocess.check_output(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, text=True)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            target = folder / "clone" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
    return folder / "clone"


def environment(folder: Path) -> dict[str, str]:
    """Return the variables of a new user, whose browser does nothing."""
    (folder / "home").mkdir()
    kept = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name)}
    return kept | {"HOME": str(folder / "home"), "BROWSER": "true"}


def run(command: list[str], clone: Path, variables: dict[str, str]) -> float:
    """Run a command, end the servers that it leaves, and return its seconds. Exits with its output if it fails."""
    start, log = time.monotonic(), clone.parent / "log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            command, cwd=clone, env=variables, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        ) as process,
    ):
        try:
            code = process.wait(SECONDS)
        finally:
            with suppress(ProcessLookupError):  # nothing is left
                os.killpg(process.pid, signal.SIGTERM)
    if code != 0:
        sys.exit(f"{' '.join(command)} ended with {code}:\n{log.read_text()}")
    return time.monotonic() - start


def open_in_browser(page: Path, folder: Path) -> None:
    """Open the page. Exits if it reports an error, or if a chart is empty."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        say("The page is not opened, because Chromium or its driver is missing")
        return
    sys.path.insert(0, str(ROOT))
    from tests.browser import CHARTS_READY, DRAWN_CHARTS, WIDE, chromium, open_page

    with chromium(folder / "chromium") as browser:
        opened = open_page(browser, page.as_uri(), WIDE, CHARTS_READY)
        errors, drawn = opened.get_log("browser"), opened.execute_script(DRAWN_CHARTS)
    empty = [chart["id"] for chart in drawn if chart["inked"] < 1000]
    if errors or empty or not drawn:
        sys.exit(f"{page.name}: {len(drawn)} charts, empty: {empty}, errors: {errors}")
    say(f"{page.name} has {len(drawn)} charts and no error")


def say(line: str, seconds: float | None = None) -> None:
    """Print a line at once."""
    sys.stdout.write(line + (f": {seconds:.0f} s\n" if seconds is not None else ".\n"))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
