"""Read the data out of a chart."""

import json
from typing import Any


def chart_rows(chart: Any, field: str = "series") -> list[dict[str, Any]]:
    """The rows of all data sets of a chart that have this field."""
    datasets = chart.to_dict()["datasets"].values()
    return [row for rows in datasets for row in json.loads(rows) if field in row]


def last_values(chart: Any) -> dict[str, float]:
    """The last mean of each curve."""
    return {row["series"]: row["mean"] for row in chart_rows(chart)}
