"""Verdicts on synthetic results, so that the expected verdict is known."""

from dataclasses import replace
from pathlib import Path

import pytest
from tools.write_results import claims_page, results_page

from glbandits import InvalidInput
from glbandits.lab.experiments.summary import ExperimentSummary, PolicySummary, ProtocolSummary, write_summary
from glbandits.lab.paper.claims import (
    NOT_REPRODUCED,
    NOT_TESTABLE,
    ONLY_BY_PROTOCOL,
    REPRODUCED,
    Claim,
    check_claims,
)
from glbandits.lab.paper.findings import findings
from glbandits.lab.paper.paper_summary import PaperSummary, read_summary
from glbandits.lab.paper.runtime import PAPER_SECONDS, RuntimeRow, RuntimeTable

WINS = {"sgd-ts": 5.0, "gloc": 15.0, "ucb-glm": 16.0, "glm-tsl": 17.0, "epsilon-greedy": 30.0}
WINS |= {"laplace-ts": 40.0, "supcb-glm": 50.0}
LOSES = WINS | {"sgd-ts": 60.0}
NARROW = WINS | {"epsilon-greedy": 17.5}


def protocol(name: str, regrets: dict[str, float], *, extras: tuple[str, ...] = ()) -> ProtocolSummary:
    policies = tuple(
        PolicySummary(
            label=label,
            is_extra=label in extras,
            tried=1750 if label == "sgd-ts" else 5,
            chosen="a setting",
            regret=regret,
            half_width=1.0,
            behind=regret - min(regrets.values()),
            behind_half_width=2.0,
            difference=regret - regrets["sgd-ts"],
            difference_half_width=2.0,
            reward=None,
            best_arm_pulls=1000.0 - regret,
            equal_grid_regret=regret,
            seconds=0.001,
        )
        for label, regret in regrets.items()
    )
    return ProtocolSummary(name, 10 if name == "paper" else 60, policies)


def experiment(name: str, paper: dict[str, float], fresh: dict[str, float]) -> ExperimentSummary:
    return ExperimentSummary(
        name=name,
        title=f"{name}: a problem",
        horizon=1000,
        measure="regret",
        simulated_data=name == "news",
        best_mean=0.575,
        worst_mean=0.005,
        paper=protocol("paper", paper),
        fresh=protocol("fresh", fresh | {"optimist": 4.0}, extras=("optimist",)),
    )


def summary(paper: dict[str, float], fresh: dict[str, float]) -> PaperSummary:
    names = ("simulation", "forest-1", "forest-2", "forest-2-as-published", "news")
    return PaperSummary("0", "glb paper all", False, tuple(experiment(name, paper, fresh) for name in names))


def verdict_of(claims: list[Claim], words: str) -> str:
    (claim,) = [claim for claim in claims if words in claim.statement]
    return claim.verdict


@pytest.mark.parametrize(
    ("paper", "fresh", "expected"),
    [(WINS, WINS, REPRODUCED), (WINS, LOSES, ONLY_BY_PROTOCOL), (LOSES, LOSES, NOT_REPRODUCED)],
)
def test_verdict_depends_on_both_protocols(paper: dict[str, float], fresh: dict[str, float], expected: str) -> None:
    claims = check_claims(summary(paper, fresh))
    for words in (
        "consistently outperforms",
        "simulation SGD-TS has",
        "Scenario 1: SGD-TS has",
        "Scenario 2: SGD-TS has",
    ):
        assert verdict_of(claims, words) == expected
    assert verdict_of(claims, "Scenario 1: SGD-TS pulls") == expected
    assert verdict_of(claims, "News: SGD-TS is better") == NOT_TESTABLE


def test_extra_policies_do_not_affect_claims() -> None:
    claims = check_claims(summary(WINS, WINS))
    assert verdict_of(claims, "In the simulation SGD-TS has") == REPRODUCED  # optimist has less regret
    assert not any("optimist" in claim.on_fresh_seeds for claim in claims)


def test_news_claim_is_testable_with_real_data() -> None:
    whole = summary(WINS, WINS)
    news = replace(whole.experiments[-1], simulated_data=False)
    claims = check_claims(replace(whole, experiments=(*whole.experiments[:-1], news)))
    assert verdict_of(claims, "News: SGD-TS is better") == NOT_REPRODUCED  # gloc is second, not ucb-glm
    second = WINS | {"ucb-glm": 10.0}
    news = replace(experiment("news", second, second), simulated_data=False)
    claims = check_claims(replace(whole, experiments=(*whole.experiments[:-1], news)))
    assert verdict_of(claims, "News: SGD-TS is better") == REPRODUCED


def test_evidence_states_the_difference_of_sgd_ts() -> None:
    second = WINS | {"sgd-ts": 15.5}
    (claim,) = [claim for claim in check_claims(summary(second, second)) if "simulation SGD-TS has" in claim.statement]
    assert claim.on_fresh_seeds == (
        "gloc 15.0 ± 1.0, sgd-ts 15.5 ± 1.0, ucb-glm 16.0 ± 1.0; sgd-ts has rank 2 of the seven, "
        "0.5 ± 2.0 behind the first (paired by seed)."
    )


def test_claims_need_their_experiments() -> None:
    whole = summary(WINS, LOSES)
    assert check_claims(replace(whole, experiments=())) == []
    simulation = replace(whole, experiments=whole.experiments[:1])
    assert {claim.where for claim in check_claims(simulation)} == {"6.1, figure 1", "6.1", "6"}
    assert verdict_of(check_claims(summary(NARROW, NARROW)), "Scenario 1: GLOC, UCB-GLM") == NOT_REPRODUCED
    assert verdict_of(check_claims(summary(WINS, WINS)), "Scenario 1: GLOC, UCB-GLM") == REPRODUCED
    one_protocol = replace(whole.experiments[0], fresh=None)
    assert check_claims(replace(whole, experiments=(one_protocol,))) == []


@pytest.mark.parametrize(("factor", "expected"), [(2.0, REPRODUCED), (0.5, NOT_REPRODUCED)])
def test_runtime_claim_compares_the_seven_policies(factor: float, expected: str) -> None:
    rows = tuple(
        RuntimeRow(
            name, 1.0 if name == "sgd-ts" else factor, 1.0 if name == "sgd-ts" else factor, *PAPER_SECONDS[name], 1, 1
        )
        for name in PAPER_SECONDS
    )
    table = RuntimeTable(rows, 2880, news_is_simulated=True)
    claims = check_claims(replace(summary(WINS, WINS), runtime=table))
    assert verdict_of(claims, "Simulation: SGD-TS needs the least time") == expected
    assert "233" in next(claim for claim in claims if claim.statement.startswith("News (measured")).on_fresh_seeds


def test_findings_have_at_most_five_lines() -> None:
    whole = summary(WINS, LOSES)
    lines = findings(whole, check_claims(whole))
    assert len(lines) <= 5
    assert "first in 5 of 5 experiments" in lines[0]
    assert "first in 0 of 5 experiments (ranks 7, 7, 7, 7, 7)" in lines[1]
    assert results_page(whole, "images").count("![") == 7
    page = claims_page(whole)
    assert "reproduced only by the paper's protocol" in page
    assert page.count("Verdict: **") == len(check_claims(whole))


def test_pages_are_generated_from_the_results_in_the_repository() -> None:
    docs = Path(__file__).parents[3] / "docs"
    stored = read_summary(docs / "results.json")
    assert (docs / "claims.md").read_text(encoding="utf-8") == claims_page(stored)
    assert (docs / "results.md").read_text(encoding="utf-8") == results_page(stored, "images")


def test_greedy_claim_needs_a_significant_difference() -> None:
    words = "significantly outperforms epsilon-greedy"
    assert verdict_of(check_claims(summary(WINS, WINS)), words) == REPRODUCED
    close = WINS | {"epsilon-greedy": WINS["sgd-ts"] + 1.5}
    assert verdict_of(check_claims(summary(close, close)), words) == NOT_REPRODUCED


def test_summary_file_round_trips(tmp_path: Path) -> None:
    whole = summary(WINS, LOSES)
    assert read_summary(write_summary(whole, tmp_path)) == whole
    (tmp_path / "summary.json").write_text("{}")
    with pytest.raises(InvalidInput, match="summary.json is not a summary of the paper's"):
        read_summary(tmp_path / "summary.json")
