"""The time of the paper's simulation on its full grid, compared with the paper's Table 1.

The published code was not run. Table 1 has the seconds of the fastest run of each grid, on another machine. So the
ratio is a lower bound with respect to the grids, and does not account for the different machines.
"""

import tempfile
import time
from pathlib import Path

from glbandits.lab.experiments.outcomes import FRESH, PAPER
from glbandits.lab.experiments.protocols import ExperimentRunner
from glbandits.lab.experiments.result_store import ResultStore
from glbandits.lab.paper.experiments import simulation
from glbandits.lab.paper.runtime import PAPER_SECONDS

PAPER_SETTINGS = {
    "sgd-ts": 1750,
    "ucb-glm": 50,
    "glm-tsl": 50,
    "supcb-glm": 50,
    "gloc": 245,
    "laplace-ts": 7,
    "epsilon-greedy": 5,
}


def report() -> None:
    """Run the grid with an empty store, and print the ratio."""
    experiment = simulation()
    theirs = len(experiment.repeats) * sum(
        settings * PAPER_SECONDS[name][0] for name, settings in PAPER_SETTINGS.items()
    )
    with tempfile.TemporaryDirectory() as folder:
        runner = ExperimentRunner(ResultStore(Path(folder)))
        start = time.perf_counter()
        runner.run([experiment], [PAPER])
        grid = time.perf_counter() - start
        runner.run([experiment], [FRESH])
        whole = time.perf_counter() - start
    print("The simulation on the paper's whole grid, ten repeats (wall seconds on all cores)")
    print(f"  paper's protocol {grid:.0f} s; with fresh seeds {whole:.0f} s (wanted: at most 300)")
    print(f"  Table 1 adds up to {theirs:.0f} s = {theirs / 3600:.1f} h: {theirs / grid:.0f} times as long")
