"""The service configuration as a request and as a response."""

from datetime import datetime

import msgspec

from glbandits.service.domain.events import Aggregation, Mode


class ServiceConfiguration(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings of a loop, with the fields of v1.0, and those of previews for settings that loops have.

    In a request None means no change.
    """

    # Fields of `LoopConfig` have its names here, and Personalizer's in JSON.
    reward_wait: str | float | None = msgspec.field(name="rewardWaitTime", default=None)
    default_reward: float | None = None
    aggregation: Aggregation | None = msgspec.field(name="rewardAggregation", default=None)
    exploration: float | None = msgspec.field(name="explorationPercentage", default=None)
    model_update: str | float | None = msgspec.field(name="modelExportFrequency", default=None)
    log_mirror_enabled: bool | None = None
    log_mirror_sas_uri: str | None = None
    retention_days: int | None = msgspec.field(name="logRetentionDays", default=None)
    last_configuration_edit_date: datetime | None = None
    mode: Mode | None = msgspec.field(name="learningMode", default=None)
    is_auto_optimization_enabled: bool | None = None
    model_retrain_days: int | None = None
    is_inference_explainability_enabled: bool | None = None
