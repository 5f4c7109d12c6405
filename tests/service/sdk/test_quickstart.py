"""A program written for Personalizer learns against a real server: the example, run as its reader would."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.service.http.servers.server_process import running

pytestmark = pytest.mark.system

EXAMPLE = Path(__file__).parents[3] / "examples" / "personalizer_quickstart.py"


@pytest.mark.slow
def test_the_example_learns_within_a_few_thousand_events(tmp_path: Path, new_address: Callable[[], str]) -> None:
    """Lines of 250 events. By chance 0.20 of them show the liked dish, at best 0.84, with a deviation of 0.023.

    0.7 is six deviations below the best, and far above chance: a server that learns passes, another one fails.
    """
    with running(tmp_path, store=new_address()) as server:
        command = [sys.executable, str(EXAMPLE), server.address, str(server.key)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    liked = [float(found) for found in re.findall(r"liked (0\.\d+)$", done.stdout, re.MULTILINE)][1:]
    assert len(liked) == 12
    assert min(liked[-4:]) > 0.7
    assert liked[0] < 0.75  # before the first rewards were learned it went by chance
