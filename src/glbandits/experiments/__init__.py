"""Comparing policies: runs, result files and figures."""

from glbandits.experiments.comparison import Comparison, compare
from glbandits.experiments.regret_figure import draw_regret
from glbandits.experiments.result_files import FORMATS, results_table

__all__ = ["FORMATS", "Comparison", "compare", "draw_regret", "results_table"]
