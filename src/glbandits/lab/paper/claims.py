"""The paper's claims, each with our measurements and a verdict.

"Paper's protocol" means the published code: it picks the best setting of each repeat afterwards, and in forest cover 2
the class label is one of the features. A claim about news data cannot be tested on simulated news. Claims about cost
can, because the simulated news have the size of the real data.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from glbandits.lab.experiments.summary import EQUAL_GRID, ExperimentSummary, ProtocolSummary
from glbandits.lab.paper.claim_evidence import (
    SGD_TS,
    count_of_firsts,
    extremes_of,
    format_difference,
    fresh_of,
    has_extremes,
    leaders,
    median_pulls,
    paper_of,
    pulls_of,
    ranks_of,
    ratios_of,
    regrets_of,
)
from glbandits.lab.paper.experiments import SCENARIO_1, SCENARIO_2, SCENARIO_2_LEAKED
from glbandits.lab.paper.paper_summary import PaperSummary
from glbandits.lab.paper.runtime import PAPER_SECONDS, slope
from glbandits.lab.paper.theory import rounded

REPRODUCED = "reproduced"
ONLY_BY_PROTOCOL = "reproduced only by the paper's protocol"
NOT_REPRODUCED = "not reproduced"
NOT_TESTABLE = "not testable without the licensed data"
NOT_COVERED = "not applicable to the experiments"
VERDICTS = (REPRODUCED, ONLY_BY_PROTOCOL, NOT_REPRODUCED, NOT_TESTABLE, NOT_COVERED)


@dataclass(frozen=True)
class Claim:
    """A statement of the paper with our evidence and verdict."""

    where: str
    """The section, table or theorem of the paper."""
    statement: str
    """The statement of the paper, paraphrased."""
    by_protocol: str
    """Evidence from the paper's protocol; "" if there is none."""
    on_fresh_seeds: str
    """Evidence from fresh seeds or a direct measurement; "" if there is none."""
    verdict: str


def check_claims(summary: PaperSummary) -> list[Claim]:
    """Return every claim whose experiments ran under both protocols."""
    return [claim for check in _CHECKS for claim in check(summary)]


def verdict(by_protocol: bool, on_fresh_seeds: bool) -> str:
    """Return the verdict of a claim, given whether it holds under each protocol.

    >>> verdict(by_protocol=True, on_fresh_seeds=False)
    "reproduced only by the paper's protocol"
    """
    if on_fresh_seeds:
        return REPRODUCED
    return ONLY_BY_PROTOCOL if by_protocol else NOT_REPRODUCED


def _outperforms(summary: PaperSummary) -> Iterator[Claim]:
    published, clean = _comparable(summary)
    if len(published) < 2:
        return
    protocol = [run.name for run in published if paper_of(run).rank(SGD_TS) == 1]
    fresh = [run.name for run in clean if fresh_of(run).rank(SGD_TS) == 1]
    yield Claim(
        "abstract, section 7",
        "SGD-TS consistently outperforms existing algorithms on synthetic and real data.",
        count_of_firsts(protocol, len(published)),
        count_of_firsts(fresh, len(clean)),
        verdict(len(protocol) == len(published), len(fresh) == len(clean)),
    )


def _comparable(summary: PaperSummary) -> tuple[list[ExperimentSummary], list[ExperimentSummary]]:
    """Return the experiments on real or synthetic data, as published and without the leaked label."""
    runs = (
        [summary.experiment(name) for name in ("simulation", SCENARIO_1, scenario_2, "news")]
        for scenario_2 in (SCENARIO_2_LEAKED, SCENARIO_2)
    )
    published, clean = ([run for run in group if run is not None and not run.simulated_data] for group in runs)
    return published, clean


def _simulation(summary: PaperSummary) -> Iterator[Claim]:
    experiment = summary.experiment("simulation")
    if experiment is None:
        return
    yield _best_claim("6.1, figure 1", "In the simulation SGD-TS has the least regret.", experiment, experiment)
    worst = ("supcb-glm", "laplace-ts")
    yield _claim(
        "6.1",
        "In the simulation SupCB-GLM and Laplace-TS perform poorly: they are the last two of the seven.",
        experiment,
        experiment,
        lambda protocol: {policy.label for policy in protocol.compared[-len(worst) :]} == set(worst),
        lambda protocol: ranks_of(protocol, worst),
    )
    yield _grid_claim(experiment)


def _grid_claim(experiment: ExperimentSummary) -> Claim:
    paper, fresh = paper_of(experiment), fresh_of(experiment)
    equal = sorted(paper.compared, key=lambda policy: policy.equal_grid_regret)
    sizes = ", ".join(f"{policy.label} {policy.tried}" for policy in sorted(paper.compared, key=lambda p: -p.tried))
    values = ", ".join(f"{policy.label} {policy.equal_grid_regret:.1f}" for policy in equal)
    return Claim(
        "6",
        "A grid search for every algorithm, with the best setting reported, is a fair comparison.",
        f"Settings: {sizes}. With at most {EQUAL_GRID} settings each, drawn at random: {values}.",
        f"One setting each: {leaders(fresh)}.",
        verdict(False, equal[0].label == paper.compared[0].label == fresh.compared[0].label),
    )


def _forest_cover_1(summary: PaperSummary) -> Iterator[Claim]:
    experiment = summary.experiment(SCENARIO_1)
    if experiment is None:
        return
    where, well, poor = "6.3, figure 1", ("gloc", "ucb-glm", "glm-tsl"), ("laplace-ts", "supcb-glm", "epsilon-greedy")
    yield Claim(
        "6.3",
        "Scenario 1: the best cluster's mean is about 0.575, the worst's 0.005.",
        "",
        f"{extremes_of(experiment)}.",
        verdict(by_protocol=False, on_fresh_seeds=has_extremes(experiment, 0.575, 0.005)),
    )
    yield _best_claim(where, "Scenario 1: SGD-TS has the least regret.", experiment, experiment)
    yield _pulls_claim(where, "Scenario 1: SGD-TS pulls the best arm most often.", experiment, experiment)
    yield _claim(
        where,
        "Scenario 1: GLOC, UCB-GLM and GLM-TSL do relatively well; Laplace-TS, SupCB-GLM and epsilon-greedy are stuck "
        "(criterion: intervals that do not overlap).",
        experiment,
        experiment,
        lambda protocol: (
            max(protocol[name].interval[1] for name in well) < min(protocol[name].interval[0] for name in poor)
        ),
        lambda protocol: "; ".join(regrets_of(protocol, names) for names in (well, poor)),
    )


def _forest_cover_2(summary: PaperSummary) -> Iterator[Claim]:
    leaked, clean = summary.experiment(SCENARIO_2_LEAKED), summary.experiment(SCENARIO_2)
    if leaked is None or clean is None:
        return
    where, others = "6.3, figure 1", ("ucb-glm", "glm-tsl", "supcb-glm", "laplace-ts", "epsilon-greedy")
    yield Claim(
        where,
        "Scenario 2: the best cluster's mean is about 0.770, the worst's 0.",
        f"With the class label among the 55 features, as in the published code: {extremes_of(leaked)}.",
        f"With the 54 features and a constant: {extremes_of(clean)}.",
        verdict(has_extremes(leaked, 0.770, 0.0), has_extremes(clean, 0.770, 0.0)),
    )
    yield _best_claim(where, "Scenario 2: SGD-TS has the least regret.", leaked, clean)
    yield _pulls_claim(where, "Scenario 2: SGD-TS pulls the best arm most often.", leaked, clean)
    yield _claim(
        where,
        "Scenario 2: GLOC does relatively well (better than the other five), and pulls the best arm less often than "
        "SGD-TS.",
        leaked,
        clean,
        lambda protocol: (
            protocol["gloc"].regret < min(protocol[name].regret for name in others)
            and median_pulls(protocol, "gloc") < median_pulls(protocol, SGD_TS)
        ),
        lambda protocol: f"{ranks_of(protocol, ('gloc',))}; pulls: {pulls_of(protocol, (SGD_TS, 'gloc'))}",
    )
    yield _claim(
        where,
        "Scenario 2: all other algorithms perform poorly (criterion: twice the regret of SGD-TS).",
        leaked,
        clean,
        lambda protocol: min(protocol[name].regret for name in others) > 2 * protocol[SGD_TS].regret,
        lambda protocol: f"against {regrets_of(protocol, (SGD_TS,))}: {regrets_of(protocol, others)}",
    )
    yield _claim(
        "2",
        "Laplace-TS performs poorly when d > K (scenario 2 has d = 55, K = 32; criterion: one of the last two ranks).",
        leaked,
        clean,
        lambda protocol: protocol.rank("laplace-ts") >= len(protocol.compared) - 1,
        lambda protocol: ranks_of(protocol, ("laplace-ts",)),
    )


def _news(summary: PaperSummary) -> Iterator[Claim]:
    experiment = summary.experiment("news")
    if experiment is None:
        return
    is_real = not experiment.simulated_data

    def holds(protocol: ProtocolSummary) -> bool:
        return protocol.rank(SGD_TS) == 1 and protocol.rank("ucb-glm") == 2

    def evidence(protocol: ProtocolSummary) -> str:
        return ("" if is_real else "On simulated news: ") + leaders(protocol)

    claim = _claim(
        "6.2, figure 1",
        "News: SGD-TS is better than UCB-GLM on most days and similar on the others; all others perform poorly.",
        experiment,
        experiment,
        holds,
        evidence,
    )
    yield claim if is_real else replace(claim, verdict=NOT_TESTABLE)


def _runtimes(summary: PaperSummary) -> Iterator[Claim]:
    table = summary.runtime
    if table is None:
        return
    for column in ("simulation", "news"):
        cheapest = all((table.ratio(name, column) or 0) >= 1 for name in PAPER_SECONDS)
        is_simulated = column == "news" and table.news_is_simulated
        data = column.capitalize() + " (measured on simulated news of the same size)" * is_simulated
        here = f"{1e3 * getattr(table.row(SGD_TS), column):.2f} ms per run"
        yield Claim(
            "table 1, section 6.4",
            f"{data}: SGD-TS needs the least time of the seven.",
            "",
            f"Times SGD-TS in the paper: {ratios_of(table, f'paper_{column}')}. "
            f"Here ({here}): {ratios_of(table, column)}.",
            verdict(by_protocol=False, on_fresh_seeds=cheapest),
        )


def _costs(summary: PaperSummary) -> Iterator[Claim]:
    cost = summary.cost
    if cost is None:
        return
    over_t, over_d = cost.curve(SGD_TS, "T"), cost.curve(SGD_TS, "d")
    slopes = over_t.time_slope, over_d.time_slope
    yield Claim(
        "abstract, table 1",
        "The time of SGD-TS is linear in T and in d.",
        "",
        f"Time grows as T^{slopes[0]:.2f} up to T = {over_t.points[-1].size:,} and as d^{slopes[1]:.2f} up to "
        f"d = {over_d.points[-1].size:,}.",
        verdict(by_protocol=False, on_fresh_seeds=all(slope < 1.15 for slope in slopes)),
    )
    sizes = {name: cost.curve(name, "T").points for name in (SGD_TS, "ucb-glm", "glm-tsl")}
    flat = sizes[SGD_TS][-1].state_bytes <= sizes[SGD_TS][0].state_bytes
    memory = {name: cost.curve(name, "T").memory_slope for name in ("ucb-glm", "glm-tsl")}
    yield Claim(
        "5.3",
        "The memory of SGD-TS does not grow with T; that of algorithms that fit all rewards grows linearly.",
        "",
        f"SGD-TS keeps {sizes[SGD_TS][-1].state_bytes:,} bytes at T = {sizes[SGD_TS][-1].size:,}; memory grows as "
        + ", ".join(f"T^{slope:.2f} ({name})" for name, slope in memory.items())
        + ".",
        verdict(by_protocol=False, on_fresh_seeds=flat and all(0.8 < slope < 1.2 for slope in memory.values())),
    )
    quadratic = {name: cost.curve(name, "T").time_slope for name in ("ucb-glm", "glm-tsl")}
    yield Claim(
        "table 1",
        "UCB-GLM and GLM-TSL need time quadratic in T (criterion: exponents within 0.3).",
        "",
        "Time grows as " + ", ".join(f"T^{slope:.2f} ({name})" for name, slope in quadratic.items()) + ".",
        verdict(by_protocol=False, on_fresh_seeds=all(1.7 < slope < 2.3 for slope in quadratic.values())),
    )


def _growth_with_d(summary: PaperSummary) -> Iterator[Claim]:
    if summary.runtime is None or summary.cost is None:
        return
    curves = {name: summary.cost.curve(name, "d") for name in ("ucb-glm", "glm-tsl")}
    gloc = summary.runtime.row("gloc").growth_d
    exponents = [
        f"d^{curve.time_slope:.2f} ({name}, d = {curve.fitted[0].size:,} to {curve.fitted[-1].size:,})"
        for name, curve in curves.items()
    ]
    yield Claim(
        "table 1",
        "The time of UCB-GLM grows like d, that of GLOC and GLM-TSL like d^2 (criterion: exponents within 0.3).",
        "",
        ", ".join(exponents) + f", d^{gloc:.2f} (gloc, d = 6 to 24).",
        verdict(
            by_protocol=False,
            on_fresh_seeds=abs(curves["ucb-glm"].time_slope - 1) < 0.3
            and abs(curves["glm-tsl"].time_slope - 2) < 0.3
            and abs(gloc - 2) < 0.3,
        ),
    )


def _theory(summary: PaperSummary) -> Iterator[Claim]:
    theory = summary.theory
    if theory is None:
        return
    yield Claim(
        "lemma 2, theorem 1",
        "With a warm-up of tau rounds the regret of SGD-TS is at most O~(sqrt T). (This is proven, not measured.)",
        "The experiments do not use the theory's settings: tau is 6 to 69 rounds there.",
        f"On the paper's simulation tau is about {rounded(theory.tau)} rounds ({rounded(theory.tau_1)} even without "
        f"its part for lambda_f), against T = {theory.horizon:,}: the algorithm of the theorem plays at random only. "
        f"The smallest power of ten above its own tau is T = {theory.covered_horizon:,}, and there the bound is "
        f"{theory.covered_bound:.1e}.",
        REPRODUCED if theory.tau < theory.horizon else NOT_COVERED,
    )
    sgd_ts = theory.growth[0]
    reference = slope(sgd_ts.horizons, [math.sqrt(size) * math.log(size) ** 2 for size in sgd_ts.horizons])
    regrets = ", ".join(f"{mean:.0f} at T = {size:,}" for size, mean in zip(sgd_ts.horizons, sgd_ts.mean, strict=True))
    yield Claim(
        "theorem 1",
        "The regret of SGD-TS grows like sqrt T, up to logarithms (measured with the default settings of the "
        "experiments, for which nothing is proven).",
        "",
        f"Mean regret {regrets}: growth like T^{sgd_ts.slope:.2f} (95 % interval {sgd_ts.slope_low:.2f} to "
        f"{sgd_ts.slope_high:.2f}); sqrt(T) log(T)^2 grows like T^{reference:.2f} over these horizons.",
        verdict(by_protocol=False, on_fresh_seeds=sgd_ts.slope_low <= reference),
    )
    balls = {(ball.block_factor, ball.ridge): ball for ball in theory.balls}
    longest = balls[max(balls)[0], 0.0], balls[max(balls)[0], 1.0]
    yield Claim(
        "lemma 1, algorithm 1",
        "The warm-up estimate is within 1 of theta*, so the ball of radius 2 around it contains theta*. (Proven for "
        "the theory's tau.)",
        "",
        f"With the longest warm-up of the experiments ({longest[0].block_length} rounds) the ball contains theta* in "
        f"{longest[0].share:.0%} of {longest[0].runs:,} runs; with ridge 1 in {longest[1].share:.0%}.",
        REPRODUCED if longest[0].share >= 0.95 else NOT_COVERED,
    )


def _greedy(summary: PaperSummary) -> Iterator[Claim]:
    published, clean = _comparable(summary)
    if len(published) < 2:
        return

    def outperformed(protocol: ProtocolSummary) -> bool:
        greedy = protocol["epsilon-greedy"]
        return (greedy.difference or 0.0) > (greedy.difference_half_width or 0.0)

    def evidence(runs: list[ExperimentSummary], of: Callable[[ExperimentSummary], ProtocolSummary]) -> str:
        better = [run.name for run in runs if outperformed(of(run))]
        differences = ", ".join(f"{run.name} {format_difference(of(run)['epsilon-greedy'])}" for run in runs)
        count = f"SGD-TS has significantly less regret in {len(better)} of {len(runs)}."
        return f"{count} Regret of epsilon-greedy less that of SGD-TS (paired by seed): {differences}."

    yield Claim(
        "remark 1",
        "SGD-TS significantly outperforms epsilon-greedy.",
        evidence(published, paper_of),
        evidence(clean, fresh_of),
        verdict(
            all(outperformed(paper_of(run)) for run in published), all(outperformed(fresh_of(run)) for run in clean)
        ),
    )


_CHECKS: tuple[Callable[[PaperSummary], Iterator[Claim]], ...] = (
    _outperforms,
    _simulation,
    _forest_cover_1,
    _forest_cover_2,
    _news,
    _runtimes,
    _growth_with_d,
    _costs,
    _theory,
    _greedy,
)


def _claim(
    where: str,
    statement: str,
    published: ExperimentSummary,
    clean: ExperimentSummary,
    holds: Callable[[ProtocolSummary], bool],
    evidence: Callable[[ProtocolSummary], str],
) -> Claim:
    """Return a claim that one rule decides for both protocols.

    The paper's protocol uses the experiment `published`, fresh seeds use `clean`. They differ if the label is leaked in
    the published data.
    """
    paper, fresh = paper_of(published), fresh_of(clean)
    paper_evidence = f"{evidence(paper)}."
    if published is not clean:
        paper_evidence = f"Label leaked: {paper_evidence} Without the leak: {evidence(paper_of(clean))}."
    return Claim(where, statement, paper_evidence, f"{evidence(fresh)}.", verdict(holds(paper), holds(fresh)))


def _best_claim(where: str, statement: str, published: ExperimentSummary, clean: ExperimentSummary) -> Claim:
    return _claim(where, statement, published, clean, lambda protocol: protocol.rank(SGD_TS) == 1, leaders)


def _pulls_claim(where: str, statement: str, published: ExperimentSummary, clean: ExperimentSummary) -> Claim:
    def most(protocol: ProtocolSummary) -> bool:
        return median_pulls(protocol, SGD_TS) >= max(
            median_pulls(protocol, policy.label) for policy in protocol.compared
        )

    def evidence(protocol: ProtocolSummary) -> str:
        ordered = sorted(protocol.compared, key=lambda policy: -median_pulls(protocol, policy.label))
        return "median pulls: " + pulls_of(protocol, [policy.label for policy in ordered])

    return _claim(where, statement, published, clean, most, evidence)
