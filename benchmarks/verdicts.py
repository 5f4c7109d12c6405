"""Verdicts on logs whose truth is known: wrong and withheld sentences, and coverage.

`python -m benchmarks verdicts [--kinds "as assumed,two arms"] [--logs 200] [--folder out]`.

Each log compares two or three candidates with the logging policy. A sentence is wrong if it calls a candidate better
or worse than the logging policy, and the true difference from the policy of the last row is not so, or if it names
a best candidate that is not. "Withheld" are candidates that get no sentence because of a doubt or for lack of
evidence. Coverage is that of the fixed-n intervals of the gain over the logging policy on the evaluated rows.

Finished logs are kept in the folder, so that an interrupted run continues.
"""

import argparse
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.verdict_logs import KINDS, TruthfulLog
from glbandits.evaluation.comparison_result import PolicyComparison
from glbandits.evaluation.evaluate_slates import SLATE_ESTIMATORS, compare_on_slates
from glbandits.evaluation.logs.doubts import Withheld, reason_to_withhold
from glbandits.evaluation.policy_comparison import ComparisonSettings, compare_policies
from glbandits.evaluation.policy_verdicts import VerdictKind

LOGS, FOLDER = 200, Path("out/benchmarks/verdicts")
MARGIN = 1e-9
"""Differences in truth below it are rounding errors."""


class Judged(NamedTuple):
    """What the verdicts on one log said, and whether it was true."""

    sentences: int
    """Candidates that were called better or worse, and the best one."""
    wrong: int
    wrong_at_every_n: int
    """Wrong ones that were said to hold however often one looks."""
    withheld: int
    """Candidates without a verdict because of a doubt or of too little evidence."""
    candidates: int
    covered: int
    intervals: int
    doubts: tuple[str, ...]
    """Kinds of the doubts."""


def judge(made: TruthfulLog) -> Judged:
    """Compare the candidates of a log, and judge the verdicts by the truth."""
    if made.are_slates:
        return _judge_slates(made)
    comparison = compare_policies(made.log, made.candidates, ComparisonSettings(estimators=("dr",), **made.settings))
    sentences = wrong = always = 0
    for verdict in comparison.verdicts:
        if verdict.kind in (VerdictKind.BETTER, VerdictKind.WORSE):
            sign = 1.0 if verdict.kind is VerdictKind.BETTER else -1.0
            false = sign * made.gains[verdict.candidate] <= MARGIN
        elif verdict.kind is VerdictKind.BEST:
            false = any(made.gains[verdict.candidate] <= made.gains[rival] + MARGIN for rival in verdict.rivals)
        else:
            continue
        sentences, wrong, always = sentences + 1, wrong + false, always + (false and verdict.always)
    against = [each for each in comparison.verdicts if each.kind is VerdictKind.WITHHELD]
    named = {each.candidate for each in against if each.candidate}
    withheld = len(made.candidates) if any(not each.candidate for each in against) and not named else len(named)
    covered, intervals = _coverage(comparison, made)
    kinds = {doubt.kind.value for policy in comparison.policies for doubt in policy.evaluation.doubts}
    kinds |= {"changed"} if any(policy.outdated_rows for policy in comparison.policies) else set()
    return Judged(sentences, wrong, always, withheld, len(made.candidates), covered, intervals, tuple(sorted(kinds)))


def _judge_slates(made: TruthfulLog) -> Judged:
    """Judge the sentences on slates. Coverage is that of the joint intervals of the gain by the pseudo-inverse."""
    sentences = wrong = withheld = covered = intervals = 0
    for label, found in compare_on_slates(made.log, made.candidates, [*SLATE_ESTIMATORS]):
        text, gain = found.verdict(label), made.gains[label]
        sign = int(f"{label} is better than" in text) - int(f"{label} is worse than" in text)
        sentences, wrong = sentences + (sign != 0), wrong + (sign * gain < MARGIN and sign != 0)
        withheld += text.startswith("No verdict")
        if not found["pi"].no_evidence:
            low, high = found["pi"].joint_gain
            intervals, covered = intervals + 1, covered + (low <= gain <= high)
    return Judged(sentences, wrong, 0, withheld, len(made.candidates), covered, intervals, ())


def _coverage(comparison: PolicyComparison, made: TruthfulLog) -> tuple[int, int]:
    covered = intervals = 0
    for policy in comparison.policies:
        headline, first = policy.evaluation.headline, policy.left_out_rows
        withheld = reason_to_withhold(policy.evaluation.doubts, Withheld.ALL, Withheld.GAIN)
        if headline is None or headline.gain.fixed_n is None or withheld:
            continue
        truth = made.gain_on_rows(policy.label, first)
        intervals, covered = intervals + 1, covered + (headline.gain.fixed_n.low <= truth <= headline.gain.fixed_n.high)
    return covered, intervals


def judged_logs(kind: str, logs: int, folder: Path) -> list[Judged]:
    """Judge the logs of a kind that the folder does not have yet; return all that it has."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{kind}.jsonl"
    done = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    with file.open("a") as output:
        for seed in range(len(done), logs):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                judged = judge(KINDS[kind](np.random.default_rng([51, seed])))
            done.append(judged._asdict())
            print(json.dumps(judged._asdict()), file=output, flush=True)
    return [Judged(**{**each, "doubts": tuple(each["doubts"])}) for each in done]


def report() -> None:
    """Print the table of all kinds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks verdicts")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--logs", type=int, default=LOGS)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options, _ = parser.parse_known_args()
    print(
        "wrong: logs with a wrong sentence; always: with a wrong one 'however often you look'; withheld: of candidates"
    )
    columns = f"{'kind':28s}{'logs':>5s}{'sentences':>10s}{'wrong':>8s}{'always':>8s}{'withheld':>10s}{'coverage':>10s}"
    print(f"{columns}  doubts")
    for kind in options.kinds.split(","):
        judged = judged_logs(kind, options.logs, options.folder)
        total = {name: sum(getattr(each, name) for each in judged) for name in Judged._fields if name != "doubts"}
        doubts = sorted({doubt for each in judged for doubt in each.doubts})
        shares = ", ".join(f"{doubt} {np.mean([doubt in each.doubts for each in judged]):.1%}" for doubt in doubts)
        logs = ([each.wrong for each in judged], [each.wrong_at_every_n for each in judged])
        wrong = [f"{np.mean(np.array(each) > 0):.1%}" for each in logs]
        parts = (("withheld", "candidates"), ("covered", "intervals"))
        columns = f"{wrong[0]:>8s}{wrong[1]:>8s}" + "".join(f"{_share(total, *part):>10s}" for part in parts)
        print(f"{kind:28s}{len(judged):5d}{total['sentences']:10d}{columns}  {shares}", flush=True)


def _share(total: Mapping[str, Any], part: str, whole: str) -> str:
    return f"{total[part] / total[whole]:.1%}" if total[whole] else "-"
