"""All results as a CSV file."""

import csv
from pathlib import Path

import numpy as np

from benchmarks.regret.summary import Results

COLUMNS = (
    "problem", "kind", "role", "horizon", "dim", "policy", "tuned", "setting", "settings_tried", "tuning_seeds",
    "seeds", "mean", "half_width", "median", "quantile_90", "stuck_share", "relative_to_best_tuned",
    "relative_to_best_default", "seconds_per_run", "left_out",
)  # fmt: skip


def write_csv(results: Results, path: Path) -> None:
    """Write a row for each problem, policy and variant, and for each policy that was left out."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for result in results:
            start = (result.problem.name, result.problem.kind, result.problem.role, result.horizon, result.dim)
            for each in result.results:
                numbers = (
                    each.mean,
                    each.half_width,
                    np.median(each.regrets),
                    np.quantile(each.regrets, 0.9),
                    each.stuck_share(result.uniform_mean),
                    result.relative(each, result.to_tuned),
                    result.relative(each, result.to_untuned),
                    each.seconds,
                )
                effort = (int(each.is_tuned), each.setting, each.settings_tried, each.tuning_seeds, len(each.seeds))
                rows.writerow((*start, each.policy, *effort, *(f"{number:.6g}" for number in numbers), ""))
            for policy, reason in result.absent:
                rows.writerow((*start, policy, *[""] * (len(COLUMNS) - len(start) - 2), reason))
