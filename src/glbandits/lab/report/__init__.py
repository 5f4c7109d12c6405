"""The report of experiments: an HTML page and static figures."""

from glbandits.lab.report.page import write_experiment_report

__all__ = ["write_experiment_report"]
