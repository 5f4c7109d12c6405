"""The results as text: a table for the console, a page in Markdown, and a file of all numbers."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.regret.contestants import SUBJECT, Effort
from benchmarks.regret.play import SLOW, TOO_SLOW
from benchmarks.regret.results import Player, ProblemResult
from glbandits.experiments.run_spec import source_digest
from glbandits.version import __version__

READING = (
    "After +- is half of a 95 % interval of the mean. A ratio is of mean regrets, on the seeds that both policies "
    "played; in brackets is a bootstrap 95 % interval of it, paired by seed. "
    f"Below 1 `{SUBJECT}` is better. The best tuned policy is picked for each problem by the fresh seeds themselves, "
    "among all others: a mark that no single policy has to meet, and that holds some luck."
)


def console_table(result: ProblemResult) -> str:
    """Every policy on one problem, the best first."""
    lines = [f"{result.name}: {result.words}; T={result.horizon}, d={result.dim}"]
    lines.append(f"  {'policy':18s} {'regret':>10s} {'+-':>8s} {'/ best':>7s} {'seeds':>5s} {'s a run':>9s}  setting")
    for player in _in_order(result):
        mark = "*" if player.label == SUBJECT else " "
        lines.append(
            f"{mark} {player.label:18s} {player.mean:10.2f} {player.half_width:8.2f} {result.relative(player):7.2f} "
            f"{len(player.seeds):5d} {player.seconds:9.4f}  {player.chosen}"
        )
    lines += [f"  {label:18s} {why}" for label, why in result.absent]
    ratio, low, high = result.ratio
    lines.append(
        f"  {SUBJECT} / best ({result.best.label}) = {ratio:.3f} [{low:.3f}, {high:.3f}], "
        f"rank {result.rank} of {len(result.players)}"
    )
    return "\n".join(lines)


def markdown(results: Sequence[ProblemResult], full: Effort, less: Effort) -> str:
    """The page: problem by problem, all problems together, and who did not play."""
    code = source_digest("glbandits.policies", "glbandits.simulation.simulate")
    parts = [
        "# Regret",
        _how(full, less),
        READING,
        f"glbandits {__version__}, code {code}; `python -m benchmarks.regret` makes this page.",
        "## Problem by problem",
        _problems(results),
        _headline(results),
        "## All policies",
        "The geometric mean of a policy's regret over that of the best tuned one, over the problems that it played. "
        "Where these are fewer, they are mostly the small ones: such rows do not compare.",
        _league(results),
        "## Who did not play",
        _absent(results),
    ]
    return "\n\n".join(parts) + "\n"


def write_csv(results: Sequence[ProblemResult], path: Path) -> None:
    """A row for each problem and policy, those that did not play too."""
    columns = (
        "problem", "horizon", "dim", "policy", "regret", "half_width", "relative_to_best", "setting", "settings_tried",
        "tuning_seeds", "seeds", "seconds_per_run", "left_out",
    )  # fmt: skip
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(columns)
        for result in results:
            start = (result.name, result.horizon, result.dim)
            for player in _in_order(result):
                regret = (f"{player.mean:.6g}", f"{player.half_width:.6g}", f"{result.relative(player):.6g}")
                effort = (player.chosen, player.tried, player.tuning, len(player.seeds), f"{player.seconds:.6g}")
                rows.writerow((*start, player.label, *regret, *effort, ""))
            for label, why in result.absent:
                rows.writerow((*start, label, *[""] * 8, why))


def geometric_mean(ratios: Sequence[float]) -> float:
    """The mean on a log scale: half of and twice as much cancel.

    >>> geometric_mean([0.5, 2.0])
    1.0
    """
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _how(full: Effort, less: Effort) -> str:
    return (
        f"Every policy is tuned on the seeds {full.tuning[0]} to {full.tuning[-1]} of each problem, by mean regret, "
        f"and judged on the {len(full.fresh)} fresh seeds {full.fresh[0]} to {full.fresh[-1]}; `{SUBJECT}` plays its "
        f"default everywhere. A policy whose run takes over {SLOW:g} s of CPU is tuned on {len(less.tuning)} seeds "
        f"over a thinner grid and judged on {len(less.fresh)}; over {TOO_SLOW:g} s it is left out, and listed below."
    )


def _problems(results: Sequence[ProblemResult]) -> str:
    head = f"| problem | | T | d | best tuned policy | its regret | `{SUBJECT}` | ratio | rank |\n" + "|---" * 9 + "|"
    rows = [head]
    for result in results:
        best, (ratio, low, high) = result.best, result.ratio
        setting = "" if best.chosen == "default" else f" ({best.chosen})"
        fewer = "" if len(best.seeds) == len(result.subject.seeds) else f" ({len(best.seeds)} seeds)"
        cells = (
            result.name,
            result.words,
            str(result.horizon),
            str(result.dim),
            f"`{best.label}`{setting}",
            _regret(best) + fewer,
            _regret(result.subject),
            f"{ratio:.2f} [{low:.2f}, {high:.2f}]",
            f"{result.rank} of {len(result.players)}",
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _headline(results: Sequence[ProblemResult]) -> str:
    mean = geometric_mean([result.ratio[0] for result in results])
    worlds = np.exp(np.mean([np.log(result.resampled) for result in results], axis=0))
    low, high = np.quantile(worlds, [0.025, 0.975])
    return (
        f"**Geometric mean of the ratio over {len(results)} problems: {mean:.3f} [{low:.3f}, {high:.3f}].** "
        "The interval is for these problems; it says nothing of others."
    )


def _league(results: Sequence[ProblemResult]) -> str:
    ratios: dict[str, dict[str, float]] = {}
    for result in results:
        for player in result.players:
            ratios.setdefault(player.label, {})[result.name] = result.relative(player)
    rows = ["| policy | geometric mean | worst | problems |", "|---|---|---|---|"]
    for label, of in sorted(ratios.items(), key=lambda item: geometric_mean(list(item[1].values()))):
        worst = max(of, key=lambda name: of[name])
        mean = geometric_mean(list(of.values()))
        shown = f"**`{label}`**" if label == SUBJECT else f"`{label}`"
        rows.append(f"| {shown} | {mean:.2f} | {of[worst]:.2f} ({worst}) | {len(of)} of {len(results)} |")
    return "\n".join(rows)


def _absent(results: Sequence[ProblemResult]) -> str:
    rows = [f"| {result.name} | `{label}` | {why} |" for result in results for label, why in result.absent]
    return "\n".join(["| problem | policy | why |", "|---|---|---|", *rows]) if rows else "All played everywhere."


def _regret(player: Player) -> str:
    digits = 2 if player.mean < 10 else 1
    return f"{player.mean:.{digits}f} +- {player.half_width:.{digits}f}"


def _in_order(result: ProblemResult) -> list[Player]:
    return sorted(result.players, key=result.relative)
