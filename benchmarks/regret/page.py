"""The page in Markdown."""

from collections.abc import Iterable, Sequence

import numpy as np

from benchmarks.code_version import code_version
from benchmarks.regret.candidates import FULL, LESS, SLOW, STUCK_SEEDS, SUBJECT, TABLE_SEEDS, TOO_SLOW
from benchmarks.regret.problem import NEW, OTHERS, SEEN, STUCK, TABLES
from benchmarks.regret.results import PolicyResult, Ratio
from benchmarks.regret.summary import Results, mean_ratio, overview, record_against
from benchmarks.regret.vowpal import EXPLORERS
from glbandits.policies import POLICIES

METHOD = f"""\
Every policy runs with its default and with a tuned setting, the one with the least mean regret on {len(FULL.tuning)} \
seeds. All results are of fresh seeds: {len(TABLE_SEEDS)} on tables, {len(STUCK_SEEDS)} on stuck problems for fast \
policies, {len(FULL.fresh)} elsewhere. Policies whose run takes more than {SLOW:g} s of CPU have thinner grids, \
{len(LESS.tuning)} and {len(LESS.fresh)} seeds; above {TOO_SLOW:g} s they are left out. `{SUBJECT}` runs with its \
default only.

Policies know the link, the horizon and the number of features. Explorers of Vowpal Wabbit have their defaults, and \
see the same rows in the same order. A round of a table shows a random row; the reward is 1 for the right class."""
READING = f"""\
A ratio divides the mean regret of `{SUBJECT}` by that of a reference, on the seeds that both ran; below 1, \
`{SUBJECT}` is better. Brackets hold a bootstrap 95 % interval, paired by seed. References are the best tuned \
policy, the best default, and the best explorer of Vowpal Wabbit (tables only), each chosen on every problem in \
hindsight, so no single policy reaches all of them.

A run is stuck if its regret exceeds 5 times the median of the policy's runs, or 60 % of the mean regret of uniform \
choices (which says nothing where even the best policies exceed it, such as `marketing`). Development problems guided \
the design of `{SUBJECT}`; an earlier version of it was run on the reporting problems of the kind "others"."""


def markdown(results: Results) -> str:
    """The page of all results. Each problem must have results of the subject."""
    parts = [
        "<!-- Written by `make regret`. Do not edit. -->\n# Regret",
        METHOD,
        READING,
        f"Version {code_version()}; `make regret` writes this page.",
        "![Regret of every policy on every problem, relative to the best tuned one](images/regret.png)",
        "## Summary",
        _summary(results),
        "## Results by problem",
        f":::{{dropdown}} {len(results)} problems\n"
        "```{csv-table}\n:file: regret-problems.csv\n:header-rows: 1\n```\n:::",
        "## Wins and losses on tables",
        f"Significant differences between `{SUBJECT}` and other policies with their defaults, by the Z-test of the "
        "contextual bandit bake-off (Bietti, Agarwal and Langford, 2021) at the level 0.05. Policies of this package "
        "without a row win on no table.",
        _records(results),
        "## Which policy when",
        "Geometric means of regret relative to the best default (last column: of tuned settings, relative to the best "
        "tuned policy). A policy that ran on fewer problems ran on the small ones, or does not support the link.",
        _overviews(results),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _summary(results: Results) -> str:
    groups = [("all", list(results))]
    groups += [(role, [r for r in results if r.problem.role == role]) for role in (SEEN, NEW)]
    groups += [(kind, [r for r in results if r.problem.kind == kind]) for kind in (TABLES, STUCK, OTHERS)]
    rows = []
    for name, group in groups:
        if group:
            means = [mean_ratio(group, lambda r: r.to_tuned), mean_ratio(group, lambda r: r.to_untuned)]
            means.append(mean_ratio(group, lambda r: r.to_vowpal))
            worst = max(group, key=lambda r: r.to_untuned.value)
            shown = f"{worst.to_untuned.value:.2f} ({worst.problem.name})"
            rows.append((name, len(group), *(_interval(*mean) for mean in means), shown))
    return _table(("problems", "number", "/ best tuned", "/ best default", "/ best VW", "worst / best default"), rows)


def problem_rows(results: Results) -> list[tuple[object, ...]]:
    """The heads and the rows of regret-problems.csv, which the page shows."""
    heads = ("problem", "kind", "role", "T", "d", f"`{SUBJECT}`", "median", "90 %", "stuck")
    rows: list[tuple[object, ...]] = [(*heads, "/ best tuned", "/ best default", "/ best VW", "description")]
    for result in results:
        problem, subject = result.problem, result.subject
        cells = subject_cells(subject)
        cells.append(f"{subject.stuck_share(result.uniform_mean):.1%}")
        cells += map(_ratio, (result.to_tuned, result.to_untuned, result.to_vowpal))
        rows.append((problem.name, problem.kind, problem.role, result.horizon, result.dim, *cells, problem.description))
    return rows


def subject_cells(subject: PolicyResult) -> list[str]:
    """The cells of the mean, the median and the 90 % quantile of the regret."""
    numbers = (np.median(subject.regrets), np.quantile(subject.regrets, 0.9))
    return [f"{subject.mean:.4g} +- {subject.half_width:.2g}", *(f"{number:.4g}" for number in numbers)]


def _records(results: Results) -> str:
    records = [record_against(name, results) for name in (*EXPLORERS, *POLICIES) if name != SUBJECT]
    rows = [
        (f"`{r.opponent}`", len(r.wins), r.tables - len(r.wins) - len(r.losses), len(r.losses), ", ".join(r.losses))
        for r in records
        if r.tables and (r.opponent in EXPLORERS or r.losses)
    ]
    return _table(("opponent", "wins", "ties", "losses", "lost on"), rows)


def _overviews(results: Results) -> str:
    names = {each.policy for result in results for each in result.untuned}
    rows = []
    for each in sorted((overview(name, results) for name in names), key=lambda each: each.default):
        name = f"**`{each.policy}`**" if each.policy == SUBJECT else f"`{each.policy}`"
        means = [_number(mean) for mean in (each.default, *each.by_kind.values())]
        worst = f"{each.worst:.2f} ({each.worst_problem})"
        rows.append((name, *means, worst, _share(each.stuck_share), each.problems, _number(each.tuned)))
    heads = ("policy", "all", TABLES, STUCK, OTHERS, "worst", "stuck runs on stuck problems", "problems", "tuned")
    return _table(heads, rows)


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _ratio(ratio: Ratio | None) -> str:
    return "" if ratio is None else f"{_interval(ratio.value, *ratio.interval)} `{ratio.reference.policy}`"


def _interval(value: float, low: float, high: float) -> str:
    return "" if np.isnan(value) else f"{value:.2f} [{low:.2f}, {high:.2f}]"


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.2f}"


def _share(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.1%}"
