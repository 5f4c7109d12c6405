"""The report of a policy comparison on a log: an HTML page and a JSON file."""

from glbandits.evaluation.report.page import write_evaluation_report

__all__ = ["write_evaluation_report"]
