"""What a log says about several policies: a page that needs no network, and the same as JSON."""

from glbandits.experiments.evaluation_report.page import write_evaluation

__all__ = ["write_evaluation"]
