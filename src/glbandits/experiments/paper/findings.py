"""What was found about the paper, in five lines."""

from glbandits.experiments.paper.claim_evidence import OURS, SEVEN
from glbandits.experiments.paper.claims import VERDICTS, Claim
from glbandits.experiments.paper.paper_summary import PaperSummary
from glbandits.experiments.summary import ExperimentSummary, ProtocolSummary

BASELINE = "optimist"


def findings(summary: PaperSummary, claims: list[Claim]) -> list[str]:
    """A sentence each on the two protocols, the default policy, the cost, and the claims; fewer if less was run."""
    run = summary.experiments
    by_paper = [one.paper for one in run if one.paper is not None]
    on_fresh = [one.fresh for one in run if one.fresh is not None]
    lines = []
    if by_paper:
        lines.append(f"Paper's protocol: {_ranks(by_paper)}{_example(run, 'paper')}.")
    if on_fresh:
        lines.append(f"Fresh seeds: {_ranks(on_fresh)}{_example(run, 'fresh')}.")
        lines += _default_policy(run)
    lines += _cost(summary)
    if claims:
        counts = {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in VERDICTS}
        counted = ", ".join(f"{many} {verdict}" for verdict, many in counts.items() if many)
        caution = " (on thin grids; docs/claims.md has the whole ones)" * summary.quick
        lines.append(f"Of {len(claims)} claims of the paper: {counted}{caution}.")
    return lines


def _ranks(protocols: list[ProtocolSummary]) -> str:
    ranks = [one.rank(OURS) for one in protocols]
    shown = ", ".join(map(str, ranks))
    return f"among the paper's seven, {OURS} is first in {ranks.count(1)} of {len(ranks)} experiments (ranks {shown})"


def _example(run: tuple[ExperimentSummary, ...], protocol: str) -> str:
    first = getattr(run[0], protocol)
    rival = next(policy for policy in first.compared if policy.label != OURS)
    return f"; {run[0].name}: {first[OURS].regret:.1f} against {rival.regret:.1f} of {rival.label}"


def _default_policy(run: tuple[ExperimentSummary, ...]) -> list[str]:
    ratios = [
        f"{one.fresh[BASELINE].regret / one.fresh.compared[0].regret:.2f} ({one.name})"
        for one in run
        if one.fresh is not None and BASELINE in one.fresh and one.fresh.compared[0].regret > 0
    ]
    if not ratios:
        return []
    shown = ", ".join(ratios)
    return [f"{BASELINE}, untuned, on fresh seeds: regret in units of the best tuned policy of the seven: {shown}."]


def _cost(summary: PaperSummary) -> list[str]:
    if summary.runtime is None:
        return []
    ratios = [summary.runtime.ratio(name, "simulation") or 0.0 for name in SEVEN if name != OURS]
    milliseconds = 1e3 * summary.runtime.row(OURS).simulation
    line = (
        f"Cost: {OURS} takes {milliseconds:.2f} ms for the simulation, the other six {min(ratios):.1f} to "
        f"{max(ratios):.0f} times that"
    )
    if summary.cost is not None:
        over_t, over_d = summary.cost.curve(OURS, "T"), summary.cost.curve(OURS, "d")
        line += f"; its time grows as T^{over_t.time_slope:.2f} and d^{over_d.time_slope:.2f}"
    return [line + "."]
