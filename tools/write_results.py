"""Write docs/results.md, docs/claims.md and their images from results of the paper.

    glb paper all --out out/paper && python -m tools.write_results out/paper docs

`make results` does both.
"""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
from benchmarks.code_version import code_version

from glbandits.common.display.data_table import DataTable
from glbandits.lab.experiments.summary import FILE, ExperimentSummary
from glbandits.lab.paper.claims import VERDICTS, check_claims
from glbandits.lab.paper.paper_summary import PaperSummary, read_summary
from glbandits.lab.report import tables
from glbandits.lab.report.charts import PROTOCOL_TITLES, slug
from glbandits.lab.report.paper_sections import (
    COST_CAPTION,
    COST_TITLE,
    RUNTIME_TITLE,
    runtime_description,
)

IMAGES = "images"
FIGURES = ("paper-figure-paper", "paper-figure-fresh", "cost")
OLDER_CURVES = (
    "The curves of `optimist` in the figures are older than its "
    "[confidence factor](theory/optimist.md#the-confidence-factor). Its rows in the tables have been played again, "
    "but for the news."
)
"""Delete this when `make results` has been run with the present `optimist`."""
GENERATED = "<!-- Written by `make results` from the results of `glb paper all`. Do not edit. -->"


def main(results: Path, docs: Path) -> None:
    """Write the pages, the summary from which they are generated, and their images."""
    summary = replace(read_summary(results / FILE), version=code_version())
    (docs / "results.json").write_bytes(msgspec.json.format(msgspec.json.encode(summary)) + b"\n")
    (docs / "results.md").write_text(results_page(summary, IMAGES), encoding="utf-8")
    (docs / "claims.md").write_text(claims_page(summary), encoding="utf-8")
    for name in (*FIGURES, *(experiment.name for experiment in summary.experiments)):
        shutil.copyfile(results / "figures" / f"{name}.png", docs / IMAGES / f"{name}.png")


def results_page(summary: PaperSummary, images: str) -> str:
    """Return docs/results.md: every experiment, Table 1, cost and theory.

    `images` is the folder of the images, relative to the page.
    """
    parts = [
        GENERATED,
        "# Results",
        f"Final regrets with 95 % intervals from `{summary.command}` (version {summary.version}). By the *paper's "
        "protocol* each of ten repeats picks its own best setting afterwards. On *fresh seeds* one setting, chosen on "
        f"other seeds, plays {_fresh_seeds(summary)} seeds. [Claims](claims.md) says what follows for the paper.",
        OLDER_CURVES,
    ]
    for protocol, title in PROTOCOL_TITLES.items():
        parts.append(f"![{title}: the experiments in the paper's arrangement]({images}/paper-figure-{protocol}.png)")
    parts.append(
        f"*The experiments in the paper's arrangement, by both protocols, with the same axes. {tables.EXTRA_NOTE}*"
    )
    for experiment in summary.experiments:
        parts += _experiment(experiment, images)
    if summary.runtime is not None:
        shown = {each.label for run in summary.experiments if run.fresh is not None for each in run.fresh.policies}
        runtime = replace(summary.runtime, rows=tuple(row for row in summary.runtime.rows if row.label in shown))
        parts += [f"## {RUNTIME_TITLE}", runtime_description(runtime), tables.runtime_table(runtime).to_markdown()]
    if summary.cost is not None:
        parts += [f"## {COST_TITLE}", f"![{COST_TITLE}]({images}/cost.png)", f"*{COST_CAPTION}*"]
        parts.append(tables.cost_table(summary.cost).to_markdown())
    return "\n\n".join(parts) + "\n"


def claims_page(summary: PaperSummary) -> str:
    """Return docs/claims.md: the verdicts, then each claim of the paper with its evidence."""
    claims = check_claims(summary)
    rows = []
    for verdict in VERDICTS:
        numbers = [number for number, claim in enumerate(claims, 1) if claim.verdict == verdict]
        if numbers:
            rows.append([f"{len(numbers)} {verdict}", ", ".join(f"[{number}](#claim-{number})" for number in numbers)])
    verdicts = DataTable((f"of {len(claims)} claims", "numbers"), rows, ("numbers",))
    parts = [
        GENERATED,
        "# The claims of the paper",
        "Each empirical statement of the [SGD-TS paper](paper.md), what we measured, and a verdict. Numbers are final "
        "regrets (less is better) with 95 % intervals unless they say otherwise; [results](results.md) has all.",
        "- The two protocols are in [Comparing policies](comparing.md). By the paper's protocol the class label is one "
        f"of the features of forest cover 2; on {_fresh_seeds(summary)} fresh seeds it is left out.\n"
        "- A claim is *reproduced* if it holds on fresh seeds or by direct measurement, and *reproduced only by the "
        "paper's protocol* if it holds that way alone. \"First\" means least mean regret among the paper's seven; a "
        "difference whose interval contains 0 is not significant.\n"
        "- A statement that is proven for conditions which the experiments do not meet is *not applicable to the "
        "experiments*.",
        verdicts.to_markdown(),
        "## The claims",
        "*Measured* means on fresh seeds, or directly.",
    ]
    for number, claim in enumerate(claims, 1):
        lines = [f"### Claim {number}", "", f"**{claim.statement}** ({claim.where})", ""]
        lines += [f"- Paper's protocol: {claim.by_protocol}"] if claim.by_protocol else []
        lines += [f"- Measured: {claim.on_fresh_seeds}"] if claim.on_fresh_seeds else []
        lines.append(f"- Verdict: **{claim.verdict}**")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _experiment(experiment: ExperimentSummary, images: str) -> list[str]:
    name = slug(experiment.name)
    return [
        f"## {experiment.title}",
        tables.conclusion_table(experiment).to_markdown(),
        f"![{experiment.title}: curves by both protocols]({images}/{name}.png)",
    ]


def _fresh_seeds(summary: PaperSummary) -> int:
    return max((run.fresh.seeds for run in summary.experiments if run.fresh is not None), default=0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
