"""The evidence of claims, as text: regrets, ranks, pulls and CPU time."""

from collections.abc import Sequence

from glbandits.lab.experiments.outcomes import FRESH
from glbandits.lab.experiments.summary import ExperimentSummary, PolicySummary, ProtocolSummary
from glbandits.lab.paper.runtime import PAPER_SECONDS, RuntimeTable

SGD_TS = "sgd-ts"
"""The policy that the paper proposes."""


def paper_of(experiment: ExperimentSummary) -> ProtocolSummary:
    """Return the result under the paper's protocol."""
    assert experiment.paper is not None  # PaperSummary.experiment gives only experiments with both protocols
    return experiment.paper


def fresh_of(experiment: ExperimentSummary) -> ProtocolSummary:
    """Return the result on fresh seeds."""
    assert experiment.fresh is not None
    return experiment.fresh


def count_of_firsts(names: list[str], total: int) -> str:
    """Return in how many experiments SGD-TS is first, with their names."""
    return f"SGD-TS is first in {len(names)} of {total}" + (f": {', '.join(names)}." if names else ".")


def format_regret(policy: PolicySummary) -> str:
    """Return a policy with its regret and the half-width of the 95 % interval."""
    width = "" if policy.half_width is None else f" \u00b1 {policy.half_width:.1f}"
    return f"{policy.label} {policy.regret:.1f}{width}"


def format_difference(policy: PolicySummary) -> str:
    """Return the paired difference of a policy to SGD-TS with the half-width of its 95 % interval."""
    width = "" if policy.difference_half_width is None else f" \u00b1 {policy.difference_half_width:.1f}"
    return f"{policy.difference or 0.0:+.1f}{width}"


def leaders(protocol: ProtocolSummary) -> str:
    """Return the three best policies of the paper, and the rank of SGD-TS."""
    ordered = protocol.compared
    text = ", ".join(format_regret(policy) for policy in ordered[:3])
    first, sgd_ts = ordered[0], protocol[SGD_TS]
    if first is sgd_ts:
        return text
    text += (
        "; "
        + (SGD_TS if sgd_ts in ordered[:3] else format_regret(sgd_ts))
        + f" has rank {protocol.rank(SGD_TS)} of the seven"
    )
    if protocol.protocol == FRESH and first.difference is not None and first.difference_half_width is not None:
        text += f", {-first.difference:.1f} \u00b1 {first.difference_half_width:.1f} behind the first (paired by seed)"
    return text


def regrets_of(protocol: ProtocolSummary, names: tuple[str, ...]) -> str:
    """Return policies with their regrets."""
    return ", ".join(format_regret(protocol[name]) for name in names)


def ranks_of(protocol: ProtocolSummary, names: tuple[str, ...]) -> str:
    """Return policies with their regrets and ranks."""
    total = len(protocol.compared)
    return ", ".join(
        f"{format_regret(protocol[name])} with rank {protocol.rank(name)} of the {total}" for name in names
    )


def median_pulls(protocol: ProtocolSummary, label: str) -> float:
    """Return the median pulls of the best arm."""
    return protocol[label].best_arm_pulls or 0.0


def pulls_of(protocol: ProtocolSummary, labels: Sequence[str]) -> str:
    """Return policies with their median pulls of the best arm."""
    return ", ".join(f"{label} {median_pulls(protocol, label):.0f}" for label in labels)


def extremes_of(experiment: ExperimentSummary) -> str:
    """Return the largest and the smallest mean reward of an arm."""
    return f"best {experiment.best_mean:.3f}, worst {experiment.worst_mean:.3f}"


def has_extremes(experiment: ExperimentSummary, best: float, worst: float) -> bool:
    """Return whether the largest and the smallest mean reward are these, within 0.002."""
    if experiment.best_mean is None or experiment.worst_mean is None:
        return False
    return abs(experiment.best_mean - best) < 0.002 and abs(experiment.worst_mean - worst) < 0.002


def ratios_of(table: RuntimeTable, column: str) -> str:
    """Return the CPU time of the other six relative to SGD-TS, the smallest first."""
    ratios = {name: table.ratio(name, column) for name in PAPER_SECONDS if name != SGD_TS}
    ordered = sorted((ratio, name) for name, ratio in ratios.items() if ratio is not None)
    return ", ".join(f"{name} {ratio:.3g}" for ratio, name in ordered)
