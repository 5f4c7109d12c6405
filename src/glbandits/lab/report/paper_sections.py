"""Sections on the paper as a whole: findings, claims, Table 1, cost and theory."""

from collections import Counter
from collections.abc import Mapping
from html import escape
from typing import Any

from glbandits.common.display.charts import chart_html
from glbandits.common.display.data_table import DataTable
from glbandits.common.display.html_page import Section, paragraph
from glbandits.common.display.text_format import NO_VALUE, join_words
from glbandits.lab.paper.claims import VERDICTS, Claim, check_claims
from glbandits.lab.paper.findings import findings
from glbandits.lab.paper.paper_summary import PaperSummary
from glbandits.lab.paper.runtime import DIMENSIONS, HORIZONS, RuntimeTable
from glbandits.lab.report import tables
from glbandits.maths.posteriors.block_covariance import LARGEST_BLOCK

COST_FIGURE = "cost"
RUNTIME_TITLE, COST_TITLE, THEORY_TITLE = "Table 1: runtime", "Cost against T and d", "The theory on the simulation"
CLAIMS_TITLE = "The paper's claims"
COST_CAPTION = (
    "Straight lines on logarithmic axes are powers; the table has their exponents. A line ends early where "
    "the next run would exceed the time budget; dots extrapolate it. "
    f"optimist has a d x d matrix up to d={LARGEST_BLOCK}, and blocks of it beyond."
)


def finding_lines(paper: PaperSummary) -> list[str]:
    """Return the findings, at most five sentences."""
    return findings(paper, check_claims(paper))


def claims_table(claims: list[Claim]) -> DataTable:
    """Return every claim with its evidence and verdict."""
    columns = ("claim", "in the paper", "paper's protocol", "fresh seeds, or measured", "verdict")
    rows = [
        [claim.statement, claim.where, claim.by_protocol or NO_VALUE, claim.on_fresh_seeds or NO_VALUE, claim.verdict]
        for claim in claims
    ]
    return DataTable(columns, rows, columns)


def claims_section(paper: PaperSummary) -> list[Section]:
    """Return the section of claims; no section if no claim could be checked."""
    claims = check_claims(paper)
    if not claims:
        return []
    counts = Counter(claim.verdict for claim in claims)
    counted = paragraph("; ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]) + ".")
    if paper.quick:
        counted += paragraph("Thin grids and few seeds: verdicts may differ from those on the whole grids.", "warning")
    return [Section("claims", CLAIMS_TITLE, f'{counted}\n<div class="claims">{claims_table(claims).to_html()}</div>')]


def measured_sections(paper: PaperSummary, figures: Mapping[str, Any]) -> list[Section]:
    """Return the sections of Table 1, cost and theory, as far as they were measured."""
    sections = []
    if paper.runtime is not None:
        content = f"{paragraph(runtime_description(paper.runtime))}\n{tables.runtime_table(paper.runtime).to_html()}"
        sections.append(Section("runtime-table", RUNTIME_TITLE, content))
    if paper.cost is not None:
        chart = chart_html(figures[COST_FIGURE], "chart-cost")
        figure = f"<figure>{chart}<figcaption>{COST_CAPTION}</figcaption></figure>"
        sections.append(Section("cost", COST_TITLE, f"{figure}\n{tables.cost_table(paper.cost).to_html()}"))
    if paper.theory is not None:
        lines = "\n".join(f"<li>{escape(line)}</li>" for line in paper.theory.sentences)
        sections.append(Section("theory", THEORY_TITLE, f"<ul>{lines}</ul>"))
    return sections


def runtime_description(runtime: RuntimeTable) -> str:
    """Return how Table 1 was measured."""
    horizons, dimensions = (join_words([str(size) for size in sizes]) for sizes in (HORIZONS, DIMENSIONS))
    data = "simulated news" if runtime.news_is_simulated else "the news"
    return (
        "Seconds are the least CPU time of the policy in a run, at its default settings, on the "
        f"simulation (T = 1000, K = 100, d = 6) and on {data} (T = {runtime.news_horizon}). The paper's were measured "
        "on another machine with other code, so compare the ratios. Its SupCB-GLM is another algorithm than ours. "
        f"Growth is the exponent p of seconds ~ size^p, fitted for T = {horizons} and for d = {dimensions}."
    )
