"""HTML reports, charts and static figures of experiments and of off-policy evaluations."""

from glbandits.extras import needed_for

with needed_for("glbandits.reports", "lab"):
    import matplotlib as _matplotlib  # noqa: F401
    import plotly as _plotly  # noqa: F401
