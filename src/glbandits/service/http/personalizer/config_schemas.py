"""Requests and responses about configurations, policies, logs, models and evaluations."""

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.events import Aggregation, Mode
from glbandits.service.http.personalizer.iso8601 import as_microseconds

MAX_POLICIES = 10

PolicySource: TypeAlias = Literal["Online", "Baseline", "Random", "Custom", "OfflineExperimentation"]


class ServiceConfiguration(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings of a loop, with all fields of v1.0 and of the previews.

    In a request None means no change.
    """

    # Fields of `LoopConfig` have its names here, and Personalizer's in JSON.
    reward_wait: str | None = msgspec.field(name="rewardWaitTime", default=None)
    default_reward: float | None = None
    aggregation: Aggregation | None = msgspec.field(name="rewardAggregation", default=None)
    exploration: float | None = msgspec.field(name="explorationPercentage", default=None)
    model_update: str | None = msgspec.field(name="modelExportFrequency", default=None)
    log_mirror_enabled: bool | None = None
    log_mirror_sas_uri: str | None = None
    retention_days: int | None = msgspec.field(name="logRetentionDays", default=None)
    last_configuration_edit_date: datetime | None = None
    mode: Mode | None = msgspec.field(name="learningMode", default=None)
    is_auto_optimization_enabled: bool | None = None
    model_retrain_days: int | None = None
    is_inference_explainability_enabled: bool | None = None


class PolicyContract(msgspec.Struct, frozen=True):
    """Learning settings: a name, and the policy with its settings, see `parse_arguments`."""

    name: str
    arguments: str


class PolicyReference(msgspec.Struct, frozen=True, rename="camel"):
    """A policy of an evaluation."""

    evaluation_id: str
    policy_name: str


class DateRange(msgspec.Struct, frozen=True, rename={"start": "from", "end": "to"}):
    """A time span."""

    start: datetime
    end: datetime


class LogsProperties(msgspec.Struct, frozen=True, rename="camel"):
    """The time span of the log."""

    date_range: DateRange


class ModelProperties(msgspec.Struct, frozen=True, rename="camel"):
    """When the model was started, and when it last learned."""

    creation_time: datetime
    last_modified_time: datetime


class EvaluationContract(msgspec.Struct, frozen=True, rename="camel"):
    """A request to estimate the rewards of policies from the log."""

    name: str
    start_time: datetime
    end_time: datetime
    policies: list[PolicyContract] = []
    enable_offline_experimentation: bool | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.name) <= 256:
            raise InvalidInput("The name of an evaluation should have between 1 and 256 characters.")
        if not as_microseconds(self.start_time) < as_microseconds(self.end_time):
            raise InvalidInput("The startTime of an evaluation should be before its endTime.")
        if len(self.policies) > MAX_POLICIES:
            raise InvalidInput(f"An evaluation should have at most {MAX_POLICIES} policies; got {len(self.policies)}.")
        if len({policy.name for policy in self.policies}) < len(self.policies):
            raise InvalidInput("The names of the policies of an evaluation must be unique.")
        if self.enable_offline_experimentation:
            raise InvalidInput(
                "enableOfflineExperimentation is not offered: name the policies to compare, or run `glb evaluate`."
            )


class PolicyResultSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The estimated rewards of a policy in a time span."""

    time_stamp: datetime
    ips_estimator_numerator: float
    ips_estimator_denominator: float
    snips_estimator_denominator: float
    aggregate_time_window: str = "PT0S"
    non_zero_probability: float | None = None
    sum_of_squares: float | None = None
    confidence_interval: float | None = None
    average_reward: float


class PolicyResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The estimated rewards of a policy."""

    name: str
    arguments: str
    policy_source: PolicySource
    summary: list[PolicyResultSummary]
    total_summary: PolicyResultSummary


class EvaluationRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An evaluation, as it is stored and sent."""

    id: str
    name: str
    start_time: datetime
    end_time: datetime
    job_id: str
    status: Literal["completed", "pending", "failed"]
    policy_results: list[PolicyResult] = []
    feature_importance: list[list[str]] = []
    evaluation_type: Literal["Manual"] = "Manual"
    optimal_policy: str | None = None
    creation_time: datetime
    failure: str | None = None
    """Why the evaluation failed; None if it did not."""
