"""Comparing policies: runs, result files and figures."""

from glbandits.experiments.comparison import Comparison, compare
from glbandits.experiments.regret_figure import draw_regret
from glbandits.experiments.result_files import write_results

__all__ = ["Comparison", "compare", "draw_regret", "write_results"]
