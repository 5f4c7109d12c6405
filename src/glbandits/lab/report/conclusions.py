"""The conclusion of an experiment as text."""

from glbandits.common.display.text_format import join_words, with_half_width
from glbandits.lab.experiments.paired_differences import Difference
from glbandits.lab.experiments.summary import ExperimentSummary, PolicySummary, ProtocolSummary


def conclusion(summary: ExperimentSummary) -> str:
    """Return the conclusion as sentences.

    They name the best policy under each protocol, on fresh seeds also the policies without a significant difference to
    it, the rank of the reference, and which policies are better or worse than the reference.
    """
    sentences = []
    if summary.paper is not None:
        first, *others = summary.paper.ordered
        runner_up = f", ahead of {others[0].label} ({others[0].regret:.1f})" if others else ""
        sentences.append(f"By the paper's protocol {first.label} is first ({first.regret:.1f}){runner_up}.")
    if summary.fresh is not None:
        sentences.append(_on_fresh_seeds(summary.fresh, summary.reference))
        if summary.reference is not None:
            sentences += against_reference(summary.fresh, summary.reference)
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


def against_reference(fresh: ProtocolSummary, reference: str) -> list[str]:
    """Return a sentence with the policies that are better or worse than the reference; none for a single seed."""
    groups: dict[str, list[str]] = {}
    for policy in fresh.ordered:
        if policy.simultaneous_half_width is not None:
            difference = difference_to_reference(policy)
            groups.setdefault(difference.verdict, []).append(policy.label)
    if not groups:
        return []
    parts = []
    for verdict, verb in (("better", "better than"), ("worse", "worse than")):
        labels = groups.get(verdict, [])
        if labels:
            parts.append(f"{join_words(labels)} {'is' if len(labels) == 1 else 'are'} {verb} {reference}")
    undecided = groups.get("no difference shown", [])
    if undecided:
        parts.append(f"no difference between {reference} and {join_words(undecided)} is shown")
    text = "; ".join(parts)
    return [f"{text[0].upper()}{text[1:]} (95 % for all of them at once)."]


def difference_to_reference(policy: PolicySummary) -> Difference:
    """Return the simultaneous interval of a policy that is not the reference."""
    assert policy.difference is not None
    return Difference(policy.difference, policy.simultaneous_half_width)


def _on_fresh_seeds(fresh: ProtocolSummary, reference_label: str | None) -> str:
    first, tied = fresh.ordered[0], tied_with_best(fresh)
    text = f"On fresh seeds {first.label} is first ({with_half_width(first.regret, first.half_width, 1)})"
    if tied:
        text += f", without a significant difference to {join_words([policy.label for policy in tied])}"
    labels = [policy.label for policy in fresh.ordered]
    if reference_label in labels[1:]:
        reference = fresh[reference_label]
        behind = with_half_width(reference.behind, reference.behind_half_width, 1)
        text += f"; {reference_label} is {behind} behind, rank {1 + labels.index(reference_label)} of all {len(labels)}"
    return text + "."
