"""Evaluations of the Personalizer API: the estimators of `glb evaluate` on the log of a loop."""

from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import msgspec

from glbandits.common.errors import InvalidInput
from glbandits.policies import POLICIES
from glbandits.policies.contract import rebuild
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.policy_arguments import parse_arguments
from glbandits.service.export.loop_export import export_loop
from glbandits.service.http.http_messages import as_datetime
from glbandits.service.http.personalizer.config_handlers import policy_contract
from glbandits.service.http.personalizer.config_schemas import (
    PolicyContract,
    PolicyResult,
    PolicyResultSummary,
    PolicySource,
)
from glbandits.service.runtime.loops.loop_documents import CONFIGURATION
from glbandits.service.storage.event_store import EventStore

if TYPE_CHECKING:
    from glbandits.evaluation import Evaluation
    from glbandits.evaluation.policy_comparison import Candidate, PolicyComparison

ONLINE, FIRST, RANDOM = "Online", "Baseline1", "BaselineRand"
"""Personalizer's names of the logging policy, of always the first action, and of a random action."""


def evaluate_log(
    store: EventStore, loop: str, *, start: int, end: int, policies: Sequence[PolicyContract]
) -> list[PolicyResult]:
    """Estimate the mean rewards of policies. Implements `EvaluateLog`.

    A policy learns the first half of the events. It and the baselines are evaluated on the second half. Without any
    policy the baselines are evaluated on all events. `averageReward` and its interval are estimates by inverse
    propensity scoring.
    """
    document = store.latest_document(loop, CONFIGURATION)
    configuration = msgspec.json.decode(document.body, type=LoopConfig) if document else LoopConfig()
    comparison = _compare(store, loop, (start, end), policies)
    sources: dict[str, tuple[PolicySource, str]] = {FIRST: ("Baseline", ""), RANDOM: ("Random", "uniform")}
    sources |= {policy.name: ("Custom", policy.arguments) for policy in policies}
    log_itself = comparison.policies[0].evaluation
    online = _result(ONLINE, "Online", policy_contract(configuration).arguments, _logged(log_itself, end))
    return [
        online,
        *(
            _result(policy.label, *sources[policy.label], _estimated(policy.evaluation, end))
            for policy in comparison.policies
        ),
    ]


def _compare(
    store: EventStore, loop: str, span: tuple[int, int], policies: Sequence[PolicyContract]
) -> "PolicyComparison":
    # These modules need the extra [lab], which a server may lack.
    from glbandits.evaluation import read_export
    from glbandits.evaluation.estimators.targets import AlwaysTarget, UniformTarget
    from glbandits.evaluation.policy_comparison import ComparisonSettings, compare_policies

    candidates: dict[str, Candidate] = {FIRST: AlwaysTarget(0), RANDOM: UniformTarget()}
    candidates |= {policy.name: _policy(policy) for policy in policies}
    with TemporaryDirectory() as place:
        folder = Path(place) / "log"
        if not export_loop(store, loop, folder, span).rows:
            raise InvalidInput(f"no event between {as_datetime(span[0])} and {as_datetime(span[1])} is settled")
        log = read_export(folder)
        return compare_policies(log, candidates, ComparisonSettings(estimators=("ips", "snips")), source=loop)


def _policy(policy: PolicyContract) -> Any:
    name, settings = parse_arguments(policy.arguments)
    return rebuild(POLICIES[name], settings)


def _result(name: str, source: PolicySource, arguments: str, total: PolicyResultSummary) -> PolicyResult:
    return PolicyResult(name=name, arguments=arguments, policy_source=source, summary=[total], total_summary=total)


def _logged(evaluation: "Evaluation", end: int) -> PolicyResultSummary:
    """Return the mean reward of the log itself."""
    half_width = NormalDist().inv_cdf((1.0 + evaluation.level) / 2) * evaluation.logged_error
    return _summary(end, evaluation.support.rows, evaluation.logged, 1.0, evaluation.support.rows, half_width)


def _estimated(evaluation: "Evaluation", end: int) -> PolicyResultSummary:
    support, ips = evaluation.support, evaluation["ips"]
    used = support.rows * (1.0 - support.unused)
    return _summary(end, support.rows, ips.value, support.mean_weight, used, (ips.normal.high - ips.normal.low) / 2)


def _summary(
    end: int, rows: int, value: float, mean_weight: float, used: float, half_width: float
) -> PolicyResultSummary:
    return PolicyResultSummary(
        time_stamp=as_datetime(end),
        ips_estimator_numerator=value * rows,
        ips_estimator_denominator=rows,
        snips_estimator_denominator=mean_weight * rows,
        non_zero_probability=used,
        confidence_interval=half_width,
        average_reward=value,
    )
