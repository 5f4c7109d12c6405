"""The conclusion of an experiment as text."""

from glbandits.common.display.text_format import join_words, with_half_width
from glbandits.lab.experiments.summary import REFERENCE, ExperimentSummary, PolicySummary, ProtocolSummary


def conclusion(summary: ExperimentSummary) -> str:
    """Return the conclusion as sentences.

    They name the best policy under each protocol, on fresh seeds also the policies without a significant difference to
    it and the rank of SGD-TS.
    """
    sentences = []
    if summary.paper is not None:
        first, *others = summary.paper.ordered
        runner_up = f", ahead of {others[0].label} ({others[0].regret:.1f})" if others else ""
        sentences.append(f"By the paper's protocol {first.label} is first ({first.regret:.1f}){runner_up}.")
    if summary.fresh is not None:
        sentences.append(_on_fresh_seeds(summary.fresh))
    if summary.simulated_data:
        sentences.append("The data are simulated.")
    return " ".join(sentences)


def tied_with_best(protocol: ProtocolSummary) -> list[PolicySummary]:
    """Return the policies whose 95 % interval of the difference to the best contains 0."""
    return [
        policy
        for policy in protocol.ordered[1:]
        if policy.behind_half_width is None or policy.behind <= policy.behind_half_width
    ]


def _on_fresh_seeds(fresh: ProtocolSummary) -> str:
    first, tied = fresh.ordered[0], tied_with_best(fresh)
    text = f"On fresh seeds {first.label} is first ({with_half_width(first.regret, first.half_width, 1)})"
    if tied:
        text += f", without a significant difference to {join_words([policy.label for policy in tied])}"
    labels = [policy.label for policy in fresh.ordered]
    if REFERENCE in labels[1:]:
        reference = fresh[REFERENCE]
        behind = with_half_width(reference.behind, reference.behind_half_width, 1)
        text += f"; {REFERENCE} is {behind} behind, rank {1 + labels.index(REFERENCE)} of all {len(labels)}"
    return text + "."
