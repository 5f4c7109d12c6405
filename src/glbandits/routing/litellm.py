"""LiteLLM: a `litellm.Router` that asks a PromptRouter which deployment gets a prompt."""

import asyncio
import logging
import random
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from glbandits.common.errors import InvalidInput
from glbandits.common.extras import needed_for
from glbandits.routing.prompt_router import PromptRouter, Route

with needed_for("glbandits.routing.litellm", "litellm"):
    import litellm
    from litellm.router_strategy.lowest_latency import LowestLatencyLoggingHandler

log = logging.getLogger(__name__)
Judge = Callable[[Any, Any], float | None]


def model_of(deployment: Mapping[str, Any]) -> str:
    """Return the name of a deployment's model in the PromptRouter: its `base_model` if given, else its `model`."""
    return str((deployment.get("model_info") or {}).get("base_model") or deployment["litellm_params"]["model"])


def typical_costs(
    model_list: Iterable[Mapping[str, Any]], *, prompt_tokens: int = 500, answer_tokens: int = 300
) -> dict[str, float]:
    """Return what a typical prompt costs for each model of a LiteLLM `model_list`, in dollars, by LiteLLM's prices."""
    costs = {}
    for deployment in model_list:
        model, params = model_of(deployment), deployment["litellm_params"]
        given = {name: params[name] for name in ("input_cost_per_token", "output_cost_per_token") if name in params}
        try:
            prices = litellm.get_model_info(model) | given
        except Exception:  # LiteLLM does not know the model
            prices = given
        costs[model] = sum(
            tokens * (prices.get(f"{kind}_cost_per_token") or 0.0)
            for kind, tokens in (("input", prompt_tokens), ("output", answer_tokens))
        )
        if costs[model] <= 0.0:
            raise InvalidInput(f"LiteLLM has no price for {model}. Give the PromptRouter a cost for each model")
    return costs


def last_user_text(asked: Any) -> str:
    """Return the text of the last user message of a list of messages, or of an `input`."""
    if isinstance(asked, str):
        return asked
    items = list(asked or [])
    for message in reversed(items):
        if isinstance(message, Mapping) and message.get("role") == "user":
            content = message.get("content")
            parts = content if isinstance(content, list) else [{"text": content}]
            texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
            return "\n".join(text for text in texts if isinstance(text, str))
    return "\n".join(item for item in items if isinstance(item, str))


class Routing(LowestLatencyLoggingHandler):  # the strategy to which LiteLLM passes deployments, prompt and metadata
    """What `route_with` returns: it chooses deployments, and learns what the answers cost and how good they are."""

    def __init__(self, prompt_router: PromptRouter, judge: Judge | None, prompt: Callable[[Any], Any]) -> None:
        super().__init__(None, {})
        self.prompt_router, self.judge, self.prompt = prompt_router, judge, prompt
        self.key = secrets.token_hex(8)
        """LiteLLM ignores a logger whose class and public texts and numbers are those of another one."""
        self._routes: OrderedDict[str, Route] = OrderedDict()
        """The latest decision of each call."""
        self._open: OrderedDict[str, Route] = OrderedDict()
        """The decisions of which LiteLLM has reported neither an answer nor a failure, by event."""

    def route_of(self, response: Any) -> Route | None:
        """Return the decision that led to a response or a stream; None if it was not routed, or has failed."""
        return self._routes.get(str(getattr(response, "_hidden_params", {}).get("litellm_call_id")))

    def get_available_deployments(
        self, model_group: str, healthy_deployments: list[Any], messages: Any = None, input: Any = None,  # noqa: A002, ARG002
        request_kwargs: dict[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        """Choose one of the deployments that LiteLLM offers. LiteLLM calls it for each attempt of a request."""
        request = {} if request_kwargs is None else request_kwargs
        known = self.prompt_router.models
        usable = [deployment for deployment in healthy_deployments if model_of(deployment) in known]
        if not usable:
            return random.choice(healthy_deployments)
        session = {**(request.get("litellm_metadata") or {}), **(request.get("metadata") or {})}.get("session_id")
        route = self.prompt_router.route(
            self.prompt(input if messages is None else messages),
            session=str(session) if session else None,
            among={model_of(deployment) for deployment in usable},
        )
        call_id = request.setdefault("litellm_call_id", route.event_id)
        for table, key in ((self._routes, call_id), (self._open, route.event_id)):
            table[key] = route
            if len(table) > self.prompt_router.memory:
                table.popitem(last=False)
        deployment = random.choice([deployment for deployment in usable if model_of(deployment) == route.model])
        return {**deployment, "model_info": {**deployment["model_info"], "route": route._asdict()}}

    async def async_get_available_deployments(self, *args: Any, **kwargs: Any) -> Any:
        """Choose one of the deployments that LiteLLM offers."""
        return self.get_available_deployments(*args, **kwargs)

    def log_success_event(self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:  # noqa: ARG002
        """Learn the cost of an answer, and its quality if there is a judge."""
        event_id = self._close(kwargs)
        if event_id is None:
            return
        try:
            self.prompt_router.feedback(event_id, cost=kwargs.get("response_cost"))
            if self.judge is not None:
                self.prompt_router.feedback(event_id, quality=self.judge(kwargs["messages"], response_obj))
        except Exception as error:
            log.warning("The answer of event %s gave no feedback: %s: %s", event_id, type(error).__name__, error)

    def log_failure_event(self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:  # noqa: ARG002
        """Cancel the decision: the model gave no answer."""
        event_id = self._close(kwargs)
        if event_id is not None:
            self.prompt_router.cancel(event_id)
            latest = self._routes.get(kwargs["litellm_call_id"])
            if latest is not None and latest.event_id == event_id:
                self._routes.pop(kwargs["litellm_call_id"], None)

    async def async_log_success_event(self, *args: Any, **kwargs: Any) -> None:
        """Do the same in a thread, because a judge may take long."""
        await asyncio.to_thread(self.log_success_event, *args, **kwargs)

    async def async_log_failure_event(self, *args: Any, **kwargs: Any) -> None:
        """Cancel the decision."""
        self.log_failure_event(*args, **kwargs)

    def _close(self, kwargs: dict[str, Any]) -> str | None:
        """Return the event that LiteLLM reports; None if it is not ours, or was reported already."""
        noted = (kwargs["litellm_params"].get("model_info") or {}).get("route") or {"event_id": ""}
        route = self._open.pop(noted["event_id"], None)
        return None if route is None else route.event_id


def route_with(
    litellm_router: Any,
    prompt_router: PromptRouter,
    judge: Judge | None = None,
    prompt: Callable[[Any], Any] = last_user_text,
) -> Routing:
    """Let a PromptRouter choose among the deployments of a `litellm.Router`.

    LiteLLM still decides which deployments can be used: none in cooldown, for example. Deployments of the same model
    share its requests equally, and so do those of a group without a model of the PromptRouter.

    Args:
        litellm_router: the `litellm.Router`. Its other settings stay as they are.
        prompt_router: its models are named as `model_of` names deployments.
        judge: returns the quality of an answer, from 0 to 1 or None, given messages and response. Runs in a thread.
        prompt: returns what `PromptRouter.route` takes, given the messages or the `input`. By default the text of the
            last user message.
    """
    routing = Routing(prompt_router, judge, prompt)
    litellm_router.routing_strategy = "latency-based-routing"
    litellm_router.lowestlatency_logger = routing
    litellm.logging_callback_manager.add_litellm_callback(routing)
    return routing
