"""Decisions among the models that can answer now, and decisions without an answer."""

from pathlib import Path

import polars as pl
import pytest

from glbandits.common.errors import InvalidInput, UnknownName
from glbandits.routing import PromptRouter

MODELS = {"small": 0.1, "middle": 0.3, "large": 0.9}


def test_only_usable_models_have_a_probability(tmp_path: Path) -> None:
    router = PromptRouter(MODELS, floor=1.0, log=tmp_path, seed=1)
    routes = [router.route("a prompt", among=["large", "small"]) for _ in range(30)]
    assert {route.model for route in routes} == {"large", "small"}
    assert {route.probability for route in routes} == {0.5}
    router.write_log()
    log = pl.read_parquet(tmp_path)
    assert log["probabilities"].to_list() == [[0.5, 0.0, 0.5]] * 30


def test_the_cheapest_usable_model_is_offered_above_the_budget() -> None:
    router = PromptRouter(MODELS, budget=0.01, seed=1)
    assert router.route("a prompt", among=["large", "middle"])[:2] == ("middle", 1.0)


def test_another_model_answers_while_the_default_cannot() -> None:
    router = PromptRouter(MODELS, default="large", seed=1)
    route = router.route("a prompt", among=["small"])
    assert (route.model, route.probability) == ("small", 1.0)


def test_a_session_leaves_a_model_that_cannot_answer() -> None:
    router = PromptRouter(MODELS, seed=1)
    first = router.route("a prompt", session="s").model
    others = [name for name in MODELS if name != first]
    assert router.route("a prompt", session="s", among=[first]).probability == 1.0
    assert router.route("a prompt", session="s", among=others).model in others


def test_retired_models_are_not_usable_and_unknown_ones_are_refused() -> None:
    router = PromptRouter(MODELS, seed=1)
    router.retire("large")
    assert router.route("a prompt", among=["large", "small"]).model == "small"
    with pytest.raises(InvalidInput, match="among must have a model of small, middle"):
        router.route("a prompt", among=["large"])
    with pytest.raises(UnknownName, match="did you mean 'small'"):
        router.route("a prompt", among=["smal"])


def test_a_cancelled_decision_costs_and_teaches_nothing(tmp_path: Path) -> None:
    router = PromptRouter(MODELS, budget=0.3, log=tmp_path, seed=1)
    assert router.budget is not None
    before, price = router.predict("a prompt"), router.budget.price
    route = router.route("a prompt", among=["large"])
    router.cancel(route.event_id)
    assert router.predict("a prompt") == before
    assert router.budget.price == pytest.approx(price)
    with pytest.raises(InvalidInput, match="without complete feedback"):
        router.feedback(route.event_id, quality=1.0)
    router.write_log()
    assert pl.read_parquet(tmp_path).select("event_id", "cost", "quality").rows() == [(route.event_id, 0.0, None)]
