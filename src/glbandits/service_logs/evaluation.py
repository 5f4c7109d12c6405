"""Evaluations that Personalizer's API asks for: the log of a loop, and the estimators of `glb evaluate`."""

from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

from glbandits.errors import InvalidInput
from glbandits.policies import POLICIES
from glbandits.policy import rebuild
from glbandits.service_logs.loop_export import export_loop
from glbandits.serving.domain.loop_config import LoopConfig
from glbandits.serving.domain.policy_arguments import parse_arguments
from glbandits.serving.http.personalizer.config_handlers import policy_contract
from glbandits.serving.http.personalizer.config_schemas import (
    PolicyContract,
    PolicyResult,
    PolicyResultSummary,
    PolicySource,
)
from glbandits.serving.http.personalizer.iso8601 import as_time
from glbandits.serving.runtime.loop_documents import CONFIGURATION
from glbandits.serving.storage.event_store import EventStore

if TYPE_CHECKING:
    from glbandits.evaluation import Evaluation
    from glbandits.evaluation.policy_comparison import Candidate, PolicyComparison

ONLINE, FIRST, RANDOM = "Online", "Baseline1", "BaselineRand"
"""What Personalizer calls the policy that decided, the first action, and any action."""


def evaluate_log(
    store: EventStore, loop: str, *, start: int, end: int, policies: Sequence[PolicyContract]
) -> list[PolicyResult]:
    """What policies would have earned, as `EvaluateLog` has it.

    A policy learns the first half of the events and is evaluated on the rest, and so are the others, for comparison;
    without any such policy all events count. `averageReward` and its interval are those of inverse propensity scores.
    """
    kept = store.latest_document(loop, CONFIGURATION)
    configuration = msgspec.json.decode(kept.body, type=LoopConfig) if kept else LoopConfig()
    studied = _studied(store, loop, (start, end), policies)
    sources: dict[str, tuple[PolicySource, str]] = {FIRST: ("Baseline", ""), RANDOM: ("Random", "uniform")}
    sources |= {policy.name: ("Custom", policy.arguments) for policy in policies}
    log_itself = studied.policies[0].evaluation
    online = _result(ONLINE, "Online", policy_contract(configuration).arguments, _logged(log_itself, end))
    return [
        online,
        *(_result(one.label, *sources[one.label], _estimated(one.evaluation, end)) for one in studied.policies),
    ]


def _studied(
    store: EventStore, loop: str, span: tuple[int, int], policies: Sequence[PolicyContract]
) -> "PolicyComparison":
    from glbandits.evaluation.estimators.targets import (  # of the extra [lab], which a server may lack
        AlwaysTarget,
        UniformTarget,
    )
    from glbandits.evaluation.policy_comparison import ComparisonSettings, compare_policies
    from glbandits.service_logs.exported_log import open_export

    candidates: dict[str, Candidate] = {FIRST: AlwaysTarget(0), RANDOM: UniformTarget()}
    candidates |= {policy.name: _policy(policy) for policy in policies}
    with TemporaryDirectory() as place:
        folder = Path(place) / "log"
        written = export_loop(store, loop, folder, span)
        if not written.rows:
            raise InvalidInput(f"no event between {as_time(span[0])} and {as_time(span[1])} has been learned yet")
        log = open_export(folder)
        return compare_policies(log, candidates, ComparisonSettings(estimators=("ips", "snips")), source=loop)


def _policy(policy: PolicyContract) -> Any:
    name, settings = parse_arguments(policy.arguments)
    return rebuild(POLICIES[name], settings)


def _result(name: str, source: PolicySource, arguments: str, total: PolicyResultSummary) -> PolicyResult:
    return PolicyResult(name=name, arguments=arguments, policy_source=source, summary=[total], total_summary=total)


def _logged(evaluation: "Evaluation", end: int) -> PolicyResultSummary:
    """What the log itself earned."""
    half = NormalDist().inv_cdf((1.0 + evaluation.level) / 2) * evaluation.logged_error
    return _summary(end, evaluation.support.rows, evaluation.logged, 1.0, evaluation.support.rows, half)


def _estimated(evaluation: "Evaluation", end: int) -> PolicyResultSummary:
    support, ips = evaluation.support, evaluation["ips"]
    used = support.rows * (1.0 - support.unused)
    return _summary(end, support.rows, ips.value, support.mean_weight, used, (ips.normal.high - ips.normal.low) / 2)


def _summary(end: int, rows: int, value: float, mean_weight: float, used: float, half: float) -> PolicyResultSummary:
    return PolicyResultSummary(
        time_stamp=as_time(end),
        ips_estimator_numerator=value * rows,
        ips_estimator_denominator=rows,
        snips_estimator_denominator=mean_weight * rows,
        non_zero_probability=used,
        confidence_interval=half,
        average_reward=value,
    )
