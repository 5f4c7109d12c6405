"""docs/results.md and docs/claims.md match docs/results.json, and their images exist."""

import re
from pathlib import Path

import pytest

from glbandits.lab.paper.claims import VERDICTS, check_claims
from glbandits.lab.paper.paper_summary import read_summary
from glbandits.lab.report.markdown_pages import claims_page, results_page

DOCS = Path(__file__).parent.parent / "docs"
DISAGREE = "the page and docs/results.json disagree; run `make results`"


def test_results_page_matches_the_summary() -> None:
    summary = read_summary(DOCS / "results.json")
    assert (DOCS / "results.md").read_text(encoding="utf-8") == results_page(summary, "images"), DISAGREE


def test_claims_page_matches_the_summary() -> None:
    summary = read_summary(DOCS / "results.json")
    assert (DOCS / "claims.md").read_text(encoding="utf-8") == claims_page(summary), DISAGREE


@pytest.mark.parametrize("page", ["results.md", "claims.md"])
def test_images_and_links_of_a_page_exist(page: str) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", (DOCS / page).read_text(encoding="utf-8"))
    assert targets
    assert all((DOCS / target).is_file() for target in targets)


def test_published_results_are_complete() -> None:
    summary = read_summary(DOCS / "results.json")
    assert not summary.quick
    assert [one.name for one in summary.experiments] == [
        "simulation",
        "forest-1",
        "forest-2",
        "forest-2-as-published",
        "news",
    ]
    for experiment in summary.experiments:
        assert experiment.paper is not None
        assert experiment.fresh is not None
        assert experiment.paper.seeds == 10
        assert experiment.fresh.seeds >= 50
        assert len(experiment.paper.policies) == 7
        assert len(experiment.fresh.policies) == 10
    assert summary.runtime is not None
    assert summary.cost is not None
    assert summary.theory is not None
    assert {claim.verdict for claim in check_claims(summary)} == set(VERDICTS)


def test_simulation_agrees_with_independent_implementations() -> None:
    """Ranges that two independent implementations of both protocols gave, widened by half of our 95 % intervals."""
    (simulation,) = [one for one in read_summary(DOCS / "results.json").experiments if one.name == "simulation"]
    assert simulation.paper is not None
    assert simulation.fresh is not None
    ranges = {
        simulation.paper: {"sgd-ts": (5.8, 6.2), "ucb-glm": (16.3, 17.0), "glm-tsl": (17.0, 20.3)}
        | {"epsilon-greedy": (17.9, 27.5)},
        simulation.fresh: {"sgd-ts": (47.0, 56.0), "ucb-glm": (36.0, 44.0), "glm-tsl": (35.0, 49.0)},
    }
    for protocol, expected in ranges.items():
        for label, (low, high) in expected.items():
            ours = protocol[label]
            assert ours.half_width is not None
            assert low - ours.half_width <= ours.regret <= high + ours.half_width, (protocol.protocol, label)
