"""The strategy of `litellm.Router`, with LiteLLM's mock responses and without a network."""

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from glbandits.common.errors import InvalidInput
from glbandits.features import FeatureMap
from glbandits.features.kinds.numeric import Number
from glbandits.routing import PromptRouter
from glbandits.routing.prompt_router import Route

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # the prices in the package: LiteLLM would download newer ones
litellm = pytest.importorskip("litellm")

from glbandits.routing.litellm import Routing, last_user_text, route_with, typical_costs  # noqa: E402

pytestmark = [  # warnings of LiteLLM 1.109
    pytest.mark.filterwarnings("ignore:Router.* is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Item.* using the `ReadOnly` qualifier:UserWarning"),
]

ANSWER = "An answer of five words."
SMALL, LARGE = "openai/gpt-4o-mini", "openai/gpt-4o"
ASKED = [{"role": "user", "content": "Write a haiku about bandits."}]


def deployment(
    model: str, group: str = "chat", answer: Any = "An answer of five words.", **info: Any
) -> dict[str, Any]:
    params = {"model": model, "api_key": "none", "mock_response": answer}
    return {"model_name": group, "litellm_params": params, "model_info": info}


CHAT = [deployment(SMALL), deployment(LARGE)]


@pytest.fixture(autouse=True)
def _callbacks() -> Iterator[None]:
    yield
    litellm.logging_callback_manager._reset_all_callbacks()


def routed(model_list: list[dict[str, Any]], prompts: PromptRouter, **settings: Any) -> tuple[Any, Routing]:
    judge = settings.pop("judge", None)
    router = litellm.Router(model_list, **({"num_retries": 0, "retry_after": 0} | settings))
    return router, route_with(router, prompts, judge)


def decision(routing: Routing, response: Any) -> Route:
    route = routing.route_of(response)
    assert route is not None
    return route


def prompt_router(folder: Path, **settings: Any) -> PromptRouter:
    return PromptRouter({SMALL: 0.0003, LARGE: 0.004}, log=folder, seed=1, floor=1.0, **settings)


def logged(prompts: PromptRouter, folder: Path, *, missing: int = 0) -> pl.DataFrame:
    """The log, once LiteLLM has reported the costs of all answers but some."""
    wait_for(lambda: unpriced(prompts) <= missing)
    prompts.write_log()
    return pl.concat([pl.read_parquet(part) for part in sorted(folder.iterdir())]).sort("timestamp")


def unpriced(prompts: PromptRouter) -> int:
    return sum(event.cost is None for event in list(prompts._decisions.events.values()))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


async def reported(prompts: PromptRouter) -> None:
    """Let LiteLLM report the answers: it does so in the event loop, which ends with the test's coroutine."""
    await asyncio.to_thread(wait_for, lambda: not unpriced(prompts))


def test_a_response_carries_its_decision(tmp_path: Path) -> None:
    prompts = prompt_router(tmp_path)
    router, routing = routed(CHAT, prompts)
    response = router.completion("chat", ASKED)
    route = decision(routing, response)
    assert route.probability == 0.5
    assert response._hidden_params["litellm_call_id"] == route.event_id
    prompts.feedback(route.event_id, quality=0.8)
    log = logged(prompts, tmp_path)
    assert log["event_id"].to_list() == [route.event_id]
    assert log["model"].to_list() == [response._hidden_params["litellm_model_name"]]
    assert log["quality"].to_list() == [0.8]
    assert log["cost"].to_list() == [pytest.approx(response._hidden_params["response_cost"])]


def test_a_stream_carries_its_decision_and_is_priced_at_its_end(tmp_path: Path) -> None:
    prompts = prompt_router(tmp_path)
    router, routing = routed(CHAT, prompts)
    stream = router.completion("chat", ASKED, stream=True)
    route = decision(routing, stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == ANSWER
    log = logged(prompts, tmp_path)
    assert log["event_id"].to_list() == [route.event_id]
    assert log["cost"][0] > 0.0


def test_async_streams_too_and_abandoned_ones_have_no_cost(tmp_path: Path) -> None:
    prompts = prompt_router(tmp_path)
    router, routing = routed(CHAT, prompts)

    async def main() -> list[str]:
        ids = []
        for whole in (True, False):
            stream = await router.acompletion("chat", ASKED, stream=True)
            ids.append(decision(routing, stream).event_id)
            async for _ in stream:
                if not whole:
                    break
            await stream.aclose()
            if whole:
                await reported(prompts)
        return ids

    ids = asyncio.run(main())
    log = logged(prompts, tmp_path, missing=1)
    assert log["event_id"].to_list() == ids
    assert log["cost"].is_null().to_list() == [False, True]


def test_concurrent_requests_keep_their_own_events(tmp_path: Path) -> None:
    prompts = prompt_router(tmp_path)
    router, routing = routed(CHAT, prompts, judge=lambda _, answer: 1.0 if "gpt-4o-mini" in answer.model else 0.0)
    shared = {"tags": ["a"]}

    async def main() -> list[Any]:
        answers = await asyncio.gather(*(router.acompletion("chat", ASKED, metadata=shared) for _ in range(40)))
        await reported(prompts)
        return answers

    answers = asyncio.run(main())
    with ThreadPoolExecutor(4) as pool:
        answers += pool.map(lambda _: router.completion("chat", ASKED), range(40))
    wait_for(lambda: not prompts._decisions.events)
    log = logged(prompts, tmp_path)
    assert not routing._open
    chosen = {decision(routing, answer).event_id: answer._hidden_params["litellm_model_name"] for answer in answers}
    assert chosen == dict(zip(log["event_id"], log["model"], strict=True))
    assert (log["quality"] == (log["model"] == SMALL)).all()
    assert log["cost"].null_count() == 0


@pytest.mark.parametrize("asynchronous", [False, True])
def test_each_retry_and_fallback_is_a_decision(tmp_path: Path, *, asynchronous: bool) -> None:
    prompts = prompt_router(tmp_path)
    broken = [deployment(model, "broken", "litellm.InternalServerError") for model in (SMALL, LARGE)]
    router, routing = routed([*broken, *CHAT], prompts, num_retries=1, fallbacks=[{"broken": ["chat"]}])

    async def main() -> Any:
        response = await router.acompletion("broken", ASKED, litellm_call_id="mine")
        await reported(prompts)
        return response

    response = asyncio.run(main()) if asynchronous else router.completion("broken", ASKED, litellm_call_id="mine")
    log = logged(prompts, tmp_path)
    assert log.height == 3
    assert log["cost"].to_list()[:2] == [0.0, 0.0]
    assert log["quality"].null_count() == 3
    assert decision(routing, response).event_id == log["event_id"][2]
    assert log["cost"][2] > 0.0
    assert not routing._open


def test_failures_give_the_budget_back(tmp_path: Path) -> None:
    prompts = prompt_router(tmp_path, budget=0.001)
    router, _ = routed([deployment(LARGE, answer="litellm.InternalServerError")], prompts, disable_cooldowns=True)
    for _ in range(5):
        with pytest.raises(litellm.InternalServerError):
            router.completion("chat", ASKED)
    assert prompts.budget is not None
    assert prompts.budget.debt <= 0.0
    assert not prompts._decisions.events


def test_a_stream_that_fails_loses_its_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = prompt_router(tmp_path)
    router, routing = routed(CHAT, prompts)
    cut = litellm.APIConnectionError(message="cut", model=SMALL, llm_provider="openai")
    monkeypatch.setattr(litellm.CustomStreamWrapper, "chunk_creator", lambda *_, **__: (_ for _ in ()).throw(cut))

    async def main() -> None:
        with pytest.raises(litellm.APIConnectionError):
            async for _ in await router.acompletion("chat", ASKED, stream=True):
                pass
        await reported(prompts)

    asyncio.run(main())
    assert not routing._routes
    assert not routing._open
    log = logged(prompts, tmp_path)
    assert log.select("cost", "quality").rows() == [(0.0, None)]


def test_a_deployment_in_cooldown_has_probability_0(tmp_path: Path) -> None:
    prompts = prompt_router(tmp_path)
    broken = deployment(LARGE, answer="litellm.RateLimitError")
    router, routing = routed([deployment(SMALL), broken], prompts, num_retries=5, cooldown_time=60, allowed_fails=0)
    responses = [router.completion("chat", ASKED) for _ in range(12)]
    last = decision(routing, responses[-1])
    assert (last.model, last.probability) == (SMALL, 1.0)
    log = logged(prompts, tmp_path)
    assert log.filter(pl.col("model") == LARGE).height == 1


def test_a_session_keeps_its_model(tmp_path: Path) -> None:
    prompts = prompt_router(tmp_path)
    router, routing = routed(CHAT, prompts)
    routes = [decision(routing, router.completion("chat", ASKED, metadata={"session_id": 7})) for _ in range(5)]
    assert len({route.model for route in routes}) == 1
    assert [route.probability for route in routes] == [0.5, 1.0, 1.0, 1.0, 1.0]


def test_two_routers_learn_from_their_own_answers(tmp_path: Path) -> None:
    folders = tmp_path / "a", tmp_path / "b"
    both = [prompt_router(folder) for folder in folders]
    routers = [routed(CHAT, prompts)[0] for prompts in both]
    for router in [routers[0], *routers]:
        router.completion("chat", ASKED)
    assert [logged(prompts, folder).height for prompts, folder in zip(both, folders, strict=True)] == [2, 1]


def test_groups_without_its_models_are_not_routed(tmp_path: Path) -> None:
    prompts = prompt_router(tmp_path)
    other = deployment("openai/text-embedding-3-small", "vectors", [0.1, 0.2])
    router, routing = routed([*CHAT, other], prompts)
    assert routing.route_of(router.embedding("vectors", input=["a text"])) is None
    assert not prompts._decisions.events


def test_the_responses_api_is_priced_and_judged_once(tmp_path: Path) -> None:
    prompts, judged = prompt_router(tmp_path), []
    router, routing = routed(CHAT, prompts, judge=lambda asked, _: judged.append(asked))

    async def main() -> Any:
        response = await router.aresponses(model="chat", input="Which bandit?")
        await reported(prompts)
        return response

    assert routing.route_of(asyncio.run(main())) is not None
    wait_for(lambda: bool(judged))
    log = logged(prompts, tmp_path)
    assert log["cost"].null_count() == 0
    assert len(judged) == 1


def test_a_judge_that_raises_breaks_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def judge(*_: Any) -> float:
        raise RuntimeError("no judge today")

    prompts = prompt_router(tmp_path)
    router, _ = routed(CHAT, prompts, judge=judge)
    with caplog.at_level(logging.WARNING, "glbandits"):
        assert router.completion("chat", ASKED).choices[0].message.content == ANSWER
        wait_for(lambda: any("feedback" in message for message in caplog.messages))
        log = logged(prompts, tmp_path)
    assert log["quality"].null_count() == 1
    assert caplog.messages[-1].endswith("gave no feedback: RuntimeError: no judge today")


def test_other_features_come_from_a_function(tmp_path: Path) -> None:
    turns = FeatureMap(context={"turns": Number(mean=3.0, scale=2.0)})
    prompts = prompt_router(tmp_path, features=turns)
    router = litellm.Router(CHAT)
    routing = route_with(router, prompts, prompt=lambda messages: {"turns": len(messages)})
    assert routing.route_of(router.completion("chat", ASKED)) is not None


def test_the_prompt_is_the_text_of_the_last_user_message() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "image_url", "image_url": {}}, {"type": "text", "text": "two"}]
    assert last_user_text([*ASKED, {"role": "assistant", "content": "Yes"}]) == ASKED[0]["content"]
    assert last_user_text([{"role": "user", "content": parts}]) == "one\ntwo"
    assert last_user_text("an input") == "an input"
    assert last_user_text(["first", "second"]) == "first\nsecond"
    assert last_user_text(None) == ""
    contents: list[Any] = [None, 5, {}, [None, 5, {"text": None}]]
    for odd in contents:
        assert last_user_text([{"role": "user", "content": odd}]) == ""


def test_typical_costs_are_the_prices_of_litellm() -> None:
    own = deployment("azure/mine")
    own["litellm_params"] |= {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6}
    models = [*CHAT, own, deployment("azure/other", base_model="azure/gpt-4o")]
    costs = typical_costs(models, prompt_tokens=1000, answer_tokens=100)
    assert list(costs) == [SMALL, LARGE, "azure/mine", "azure/gpt-4o"]
    assert costs[SMALL] == pytest.approx(1000 * 0.15e-6 + 100 * 0.6e-6)
    assert costs["azure/mine"] == pytest.approx(1.2e-3)
    with pytest.raises(InvalidInput, match="no price for openai/local"):
        typical_costs([deployment("openai/local")])


@pytest.mark.system
def test_only_the_strategy_needs_litellm() -> None:
    code = "import sys; sys.modules['litellm'] = None; import glbandits.routing; import glbandits.routing.litellm"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stderr.rstrip().endswith(
        "MissingExtra: glbandits.routing.litellm needs litellm. In a clone of glbandits, run pip install '.[litellm]'."
    )
    assert result.stderr.count("Traceback") == 1
