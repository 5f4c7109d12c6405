"""The calls of Personalizer as the OpenAPI description tells of them: what each takes and gives."""

from collections.abc import Callable
from typing import Any, NamedTuple

from glbandits.serving.http.personalizer.config_handlers import Configuring
from glbandits.serving.http.personalizer.config_schemas import (
    Evaluation,
    EvaluationContract,
    LogsProperties,
    ModelProperties,
    PolicyContract,
    PolicyReference,
    ServiceConfiguration,
)
from glbandits.serving.http.personalizer.evaluations import Evaluations
from glbandits.serving.http.personalizer.model_log_handlers import Keeping
from glbandits.serving.http.personalizer.multi_slot import MultiSlot
from glbandits.serving.http.personalizer.rank_handlers import Ranking
from glbandits.serving.http.personalizer.schemas import (
    MultiSlotRankRequest,
    MultiSlotRankResponse,
    MultiSlotRewardRequest,
    RankRequest,
    RankResponse,
    RewardRequest,
)


class DescribedCall(NamedTuple):
    """A call."""

    method: str
    path: str
    handler: Callable[..., Any]
    """Its docstring is the summary."""
    status: int
    takes: Any = None
    """The type of the JSON body; bytes for any; None if there is none."""
    gives: Any = None


STABLE_CALLS = (
    DescribedCall("POST", "/rank", Ranking.rank, 201, RankRequest, RankResponse),
    DescribedCall("POST", "/events/{event}/reward", Ranking.reward, 204, RewardRequest),
    DescribedCall("POST", "/events/{event}/activate", Ranking.activate, 204),
    DescribedCall("GET", "/configurations/service", Configuring.get_service, 200, None, ServiceConfiguration),
    DescribedCall(
        "PUT", "/configurations/service", Configuring.put_service, 200, ServiceConfiguration, ServiceConfiguration
    ),
    DescribedCall("GET", "/configurations/policy", Configuring.get_policy, 200, None, PolicyContract),
    DescribedCall("PUT", "/configurations/policy", Configuring.put_policy, 200, PolicyContract, PolicyContract),
    DescribedCall("DELETE", "/configurations/policy", Configuring.delete_policy, 200, None, PolicyContract),
    DescribedCall("GET", "/model", Keeping.get_model, 200, None, bytes),
    DescribedCall("DELETE", "/model", Keeping.delete_model, 204),
    DescribedCall("GET", "/model/properties", Keeping.model_properties, 200, None, ModelProperties),
    DescribedCall("DELETE", "/logs", Keeping.delete_logs, 204),
    DescribedCall("GET", "/logs/properties", Keeping.logs_properties, 200, None, LogsProperties),
    DescribedCall("GET", "/evaluations", Evaluations.all, 200, None, list[Evaluation]),
    DescribedCall("POST", "/evaluations", Evaluations.create, 201, EvaluationContract, Evaluation),
    DescribedCall("GET", "/evaluations/{evaluation}", Evaluations.get, 200, None, Evaluation),
    DescribedCall("DELETE", "/evaluations/{evaluation}", Evaluations.delete, 204),
)
PREVIEW_CALLS = (
    DescribedCall("POST", "/multislot/rank", MultiSlot.rank, 201, MultiSlotRankRequest, MultiSlotRankResponse),
    DescribedCall("POST", "/multislot/events/{event}/reward", MultiSlot.reward, 204, MultiSlotRewardRequest),
    DescribedCall("POST", "/multislot/events/{event}/activate", Ranking.activate, 204),
    DescribedCall("PUT", "/model", Keeping.put_model, 204, bytes),
    DescribedCall("PUT", "/evaluations/{evaluation}", Evaluations.create_named, 200, EvaluationContract, Evaluation),
    DescribedCall("POST", "/configurations/applyFromEvaluation", Evaluations.apply, 204, PolicyReference),
)
"""Those that only the previews have, besides all of the stable ones."""
