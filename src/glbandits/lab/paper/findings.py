"""The findings about the paper, in at most five sentences."""

from glbandits.lab.experiments.summary import ExperimentSummary, ProtocolSummary
from glbandits.lab.paper.claim_evidence import SGD_TS
from glbandits.lab.paper.claims import VERDICTS, Claim
from glbandits.lab.paper.paper_summary import PaperSummary
from glbandits.lab.paper.runtime import PAPER_SECONDS

DEFAULT_POLICY = "optimist"


def findings(summary: PaperSummary, claims: list[Claim]) -> list[str]:
    """Return sentences on the protocols, the default policy, the cost and the claims."""
    experiments = summary.experiments
    by_paper = [experiment.paper for experiment in experiments if experiment.paper is not None]
    on_fresh = [experiment.fresh for experiment in experiments if experiment.fresh is not None]
    lines = []
    if by_paper:
        lines.append(f"Paper's protocol: {_ranks(by_paper)}{_example(experiments, 'paper')}.")
    if on_fresh:
        lines.append(f"Fresh seeds: {_ranks(on_fresh)}{_example(experiments, 'fresh')}.")
        lines += _default_policy(experiments)
    lines += _cost(summary)
    if claims:
        counts = {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in VERDICTS}
        counted = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
        caution = " (on thin grids; docs/claims.md has the full ones)" * summary.quick
        lines.append(f"Of {len(claims)} claims of the paper: {counted}{caution}.")
    return lines


def _ranks(protocols: list[ProtocolSummary]) -> str:
    ranks = [protocol.rank(SGD_TS) for protocol in protocols]
    rank_list = ", ".join(map(str, ranks))
    return (
        f"among the paper's seven, {SGD_TS} is first in {ranks.count(1)} of {len(ranks)} experiments "
        f"(ranks {rank_list})"
    )


def _example(experiments: tuple[ExperimentSummary, ...], protocol: str) -> str:
    first = getattr(experiments[0], protocol)
    best_other = next(policy for policy in first.compared if policy.label != SGD_TS)
    return f"; {experiments[0].name}: {first[SGD_TS].regret:.1f} against {best_other.regret:.1f} of {best_other.label}"


def _default_policy(experiments: tuple[ExperimentSummary, ...]) -> list[str]:
    ratios = [
        f"{experiment.fresh[DEFAULT_POLICY].regret / experiment.fresh.compared[0].regret:.2f} ({experiment.name})"
        for experiment in experiments
        if experiment.fresh is not None
        and DEFAULT_POLICY in experiment.fresh
        and experiment.fresh.compared[0].regret > 0
    ]
    if not ratios:
        return []
    return [
        f"{DEFAULT_POLICY}, untuned, on fresh seeds: regret relative to the best tuned policy of the seven: "
        f"{', '.join(ratios)}."
    ]


def _cost(summary: PaperSummary) -> list[str]:
    if summary.runtime is None:
        return []
    ratios = [summary.runtime.ratio(name, "simulation") or 0.0 for name in PAPER_SECONDS if name != SGD_TS]
    milliseconds = 1e3 * summary.runtime.row(SGD_TS).simulation
    line = (
        f"Cost: {SGD_TS} takes {milliseconds:.2f} ms for the simulation, the other six {min(ratios):.1f} to "
        f"{max(ratios):.0f} times that"
    )
    if summary.cost is not None:
        over_t, over_d = summary.cost.curve(SGD_TS, "T"), summary.cost.curve(SGD_TS, "d")
        line += f"; its time grows as T^{over_t.time_slope:.2f} and d^{over_d.time_slope:.2f}"
    return [line + "."]
