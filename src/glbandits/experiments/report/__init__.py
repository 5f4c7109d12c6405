"""The report of experiments: a page that needs no network, and static figures beside it."""

from glbandits.experiments.report.page import write_report

__all__ = ["write_report"]
