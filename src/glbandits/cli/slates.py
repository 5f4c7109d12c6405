"""`glb evaluate --slate`: the reward of each slate under other policies, from a log with a row for each slot."""

from collections.abc import Mapping, Sequence

from rich.console import Console

from glbandits.evaluation.evaluate_slates import SLATE_ESTIMATORS, compare_on_slates
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.policy_comparison import Candidate, ComparisonSettings

ASSUMPTIONS = (
    "slate-ips and rips are valid if slots are filled one after the other, as the service does; "
    "iips and pi only if slots are filled independently."
)


def print_slates(
    console: Console,
    log: Log,
    candidates: Mapping[str, Candidate],
    estimators: Sequence[str],
    notes: Sequence[str],
    settings: ComparisonSettings,
) -> None:
    """Print the estimates of each candidate, and verdicts. Without `estimators`, those of all estimators of slates."""
    verdicts = ["Verdict:"]
    results = compare_on_slates(
        log,
        candidates,
        estimators or [*SLATE_ESTIMATORS],
        train_share=settings.train,
        level=settings.level,
        reward_range=settings.reward_range,
        seed=settings.seed,
    )
    for label, evaluation in results:
        verdicts.append(evaluation.verdict(label))
        console.print(f"{label}\n{evaluation}\n", soft_wrap=True, markup=False, highlight=False)
    lines = [*(f"Note: {note}" for note in (*notes, ASSUMPTIONS)), *verdicts]
    console.print("\n".join(lines), soft_wrap=True, markup=False, highlight=False)
