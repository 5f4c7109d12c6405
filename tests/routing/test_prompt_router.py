"""PromptRouter: probabilities, feedback, budgets, models that come and go, sessions."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from glbandits import Budget, FeatureMap, InvalidInput, UnknownName
from glbandits.routing import PromptRouter
from tests.routing.routers import MODELS, QUALITY, play, router

pytestmark = pytest.mark.usefixtures("plain_python")


def test_route_draws_models_with_the_logged_probability() -> None:
    trained = router(floor=0.3)
    play(trained, 100)
    seen: Counter[str] = Counter()
    for number in range(600):
        route = trained.route([0.0, 0.0], event_id=str(number))
        trained.budget = Budget(0.3, price=0.1)  # the same decision again
        seen[route.model] += 1
    probabilities = {route.model: route.probability for route in (trained.route([0.0, 0.0]) for _ in range(60))}
    for name, count in seen.items():
        p = probabilities[name]
        assert abs(count / 600 - p) < 4 * math.sqrt(p * (1 - p) / 600) + 1e-9


@pytest.mark.statistics
def test_mean_cost_stays_at_the_limit_after_1000_prompts() -> None:
    for limit in (0.1, 2.0):
        trained, names = router(limit, floor=0.02), []
        names = [route.model for route in play(trained, 1200)]
        costs = np.cumsum([MODELS[name] for name in names]) / np.arange(1, 1201)
        assert costs[1000:].max() <= 1.02 * limit


def test_money_goes_to_the_prompts_that_need_it() -> None:
    trained = router(0.25)
    play(trained, 800)
    rng, spent = np.random.default_rng(5), {True: 0, False: 0}
    for x in rng.normal(size=(300, 2)):
        spent[bool(x[0] > 0)] += trained.route(x).model != "small"
    assert spent[False] > 3 * spent[True]


def test_first_decisions_are_cheap_and_random_only_by_the_floor() -> None:
    new = router(0.3, floor=0.1)
    routes = [new.route([0.0, 0.0]) for _ in range(50)]
    assert all(route.probability == pytest.approx(0.95) for route in routes if route.model == "small")
    assert all(route.model != "large" for route in routes)  # it costs 50 times the limit


def test_without_budget_the_best_model_wins() -> None:
    trained = router(None)
    names = [route.model for route in play(trained, 600, quality=QUALITY | {"large": 1.0})]
    assert Counter(names[300:]).most_common(1)[0][0] == "large"


def test_default_answers_until_others_are_known() -> None:
    careful = router(0.6, default="medium", floor=0.0)
    assert {careful.route([0.0, 0.0]).model for _ in range(20)} == {"medium"}
    play(careful, 50)
    assert {careful.route([0.0, 0.0]).model for _ in range(20)} == {"medium"}
    careful.warm_start(
        np.random.default_rng(0).normal(size=(120, 2)), np.full((120, 3), 0.9), np.tile([0.03, 0.5, 15.0], (120, 1))
    )
    assert careful.route([0.0, 0.0]).model == "small"
    with pytest.raises(UnknownName, match="unknown model 'tiny'"):
        router(default="tiny")


def test_quality_and_cost_may_come_apart_late_or_never() -> None:
    new = router()
    first, second, third = (new.route([0.1, 0.2]).event_id for _ in range(3))
    new.feedback(third, cost=0.02)
    new.feedback(first, quality=0.9)
    new.feedback(third, quality=0.5)
    with pytest.raises(InvalidInput, match="without complete feedback"):
        new.feedback(third, quality=0.5)
    with pytest.raises(InvalidInput, match=r"has the quality 0\.9 already"):
        new.feedback(first, quality=0.8, cost=0.1)
    new.feedback(first, cost=0.1)
    assert second


@pytest.mark.parametrize(
    ("quality", "cost", "words"),
    [
        (1.2, None, "quality must be a finite number"),
        (math.nan, None, "quality"),
        (0.5, math.nan, "cost must be a finite number"),
        (0.5, -1.0, "cost"),
        ("good", None, "quality"),
    ],
)
def test_bad_feedback_changes_nothing(quality: Any, cost: Any, words: str) -> None:
    new, same = router(), router()
    event = new.route([0.1, 0.2], event_id="e")
    same.route([0.1, 0.2], event_id="e")
    with pytest.raises(InvalidInput, match=words):
        new.feedback(event.event_id, quality, cost)
    for each in (new, same):
        each.feedback("e", 0.5, 0.1)
    assert [new.route([1.0, 0.0], event_id=str(i)) for i in range(20)] == [
        same.route([1.0, 0.0], event_id=str(i)) for i in range(20)
    ]


def test_unknown_and_old_events_are_refused() -> None:
    new = router(memory=3)
    events = [new.route([0.0, 0.0]).event_id for _ in range(5)]
    for event_id in ("never", events[0], events[1]):
        with pytest.raises(InvalidInput, match="one of the last 3 decisions"):
            new.feedback(event_id, 0.5)
    new.feedback(events[2], 0.5, 0.1)
    with pytest.raises(InvalidInput, match="event_id must be new"):
        new.route([0.0, 0.0], event_id=events[4])


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ([1.0], "must be 2 numbers"),
        ([math.nan, 0.0], "prompt"),
        ("text", "prompt"),
        (None, "prompt"),
        ([[1.0, 2.0]], "prompt"),
    ],
)
def test_bad_prompts_are_refused(prompt: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        router().route(prompt)


def test_text_prompts_and_fields() -> None:
    text = PromptRouter(MODELS, 0.3, seed=1)
    assert text.route("a question")
    assert text.route("")
    assert text.route("é" * 10_000)
    with pytest.raises(InvalidInput):
        text.route(5)
    fields = PromptRouter(MODELS, 0.3, features=FeatureMap(context={"kind": "text", "tokens": "number"}), seed=1)
    assert fields.route({"kind": "code", "tokens": 50}).model in MODELS


def test_a_new_model_is_tried_and_a_retired_one_is_not() -> None:
    trained = PromptRouter({"small": 0.03}, 0.6, features=2, seed=3)
    play(trained, 200)
    trained.add("medium", 0.4)
    names = [route.model for route in play(trained, 300)]
    assert Counter(names)["medium"] > 60
    pending = next(route for route in (trained.route([-1.0, 0.0]) for _ in range(50)) if route.model == "medium")
    trained.retire("medium")
    assert trained.models == ["small"]
    assert {trained.route([-1.0, 0.0]).model for _ in range(50)} == {"small"}
    trained.feedback(pending.event_id, 0.9, 0.4)
    trained.add("medium", 0.4)
    assert trained.models == ["small", "medium"]


def test_models_that_cannot_be_changed_are_named() -> None:
    new = router(default="small", room=3)
    for call, words in (
        (lambda: new.add("small", 1.0), "already"),
        (lambda: router(room=4).add("", 1.0), "model must be a text"),
        (lambda: new.add("x", math.nan), "cost"),
        (lambda: new.retire("small"), "default"),
        (lambda: new.retire("none"), "unknown model"),
        (lambda: new.set_cost("large", 0.0), "above 0"),
        (lambda: new.route([0.0, 0.0], among=[]), "among must have a model"),
        (lambda: new.add("x", 1.0), "room for 3 models"),
    ):
        with pytest.raises((InvalidInput, UnknownName), match=words):
            call()


def test_expected_costs_follow_prices_at_once() -> None:
    trained = router(0.6)
    play(trained, 300)
    before = trained.predict([0.0, 0.0])["medium"][1]
    trained.set_cost("medium", 1.0)
    assert trained.predict([0.0, 0.0])["medium"][1] == pytest.approx(2 * before)


def test_sessions_keep_their_model(tmp_path: Path) -> None:
    trained = router(0.3, floor=0.5, log=tmp_path)
    play(trained, 100)
    first = {str(i): trained.route([0.0, 0.0], session=str(i)).model for i in range(30)}
    again = {str(i): trained.route([1.0, 1.0], session=str(i)) for i in range(30)}
    assert {name: route.model for name, route in again.items()} == first
    assert {route.probability for route in again.values()} == {1.0}
    trained.write_log()
    log = pl.read_parquet(tmp_path / "*.parquet")
    assert log["drawn"].sum() == 130
    assert len(log) == 160
    trained.retire("medium")
    moved = [name for name, model in first.items() if model == "medium"]
    assert moved
    assert all(trained.route([0.0, 0.0], session=name).model != "medium" for name in moved)


@pytest.mark.statistics
def test_benchmark_sets_a_price_that_meets_the_budget() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    quality = np.column_stack([np.where(X[:, 0] > 0, 0.9, 0.6), np.full(150, 0.9), np.full(150, 0.92)])
    costs = np.tile([0.03, 0.5, 15.0], (150, 1))
    quality[::7, 1] = math.nan
    warm = router(0.3, floor=0.0)
    warm.warm_start(X, quality, costs)
    names = [warm.route(x).model for x in X]
    spent = np.mean([MODELS[name] for name in names])
    assert spent == pytest.approx(0.3, rel=0.1)
    for bad in (quality[:, :2], quality + 1.0):
        with pytest.raises(InvalidInput, match="quality"):
            warm.warm_start(X, bad, costs)


def test_absurd_costs_do_not_rule_for_long() -> None:
    trained = router(0.3)
    play(trained, 300)
    event = trained.route([0.0, 0.0])
    trained.feedback(event.event_id, 0.5, 1e40)
    names = [route.model for route in play(trained, 400)]
    assert set(names) <= set(MODELS)
    assert names.count("large") == 0
    assert all(math.isfinite(cost) for _, cost in trained.predict([0.0, 0.0]).values())


@pytest.mark.parametrize("cost", [100.0, 1e40])
def test_a_budget_far_below_the_cheapest_model_takes_the_best_of_these(cost: float) -> None:
    poor = PromptRouter({"a": cost, "b": cost}, 1e-30, features=1, floor=0.1, seed=1)
    for _ in range(100):
        route = poor.route([0.0])
        poor.feedback(route.event_id, 0.9 if route.model == "b" else 0.1, cost)
    assert poor.route([0.0], event_id="x", among=["a", "b"]).model == "b"


@pytest.mark.statistics
def test_benchmark_price_meets_a_budget_between_two_close_costs() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    quality = np.column_stack([np.full(300, 0.1), np.where(X[:, 0] > 0, 0.95, 0.9)])
    warm = PromptRouter({"a": 0.9, "b": 1.5}, 1.0, features=1, floor=0.0, seed=1)
    warm.warm_start(X, quality, np.tile([0.9, 1.5], (300, 1)))
    assert np.mean([warm.predict(x)[warm.route(x).model][1] for x in X]) < 1.1


def test_benchmark_above_the_budget_sets_a_price_that_falls_again() -> None:
    X, quality = np.zeros((50, 1)), np.tile([0.3, 0.9], (50, 1))
    warm = PromptRouter({"a": 1.0, "b": 2.0}, 0.5, features=1, seed=1)
    warm.warm_start(X, quality, np.tile([1.0, 2.0], (50, 1)))
    assert warm.budget is not None
    assert 0.4 < warm.budget.price < 0.8  # b is better by 0.6 and costs 1 more


@pytest.mark.parametrize("wrong", ["", 5, b"a", ["a"], ("a",), math.nan])
def test_ids_and_names_are_texts(wrong: Any) -> None:
    new = router()
    for call in (
        lambda: new.route([0.0, 0.0], event_id=wrong),
        lambda: new.route([0.0, 0.0], session=wrong),
        lambda: new.add(wrong, 1.0),
        lambda: new.feedback(wrong, 0.5),
        lambda: new.cancel(wrong),
    ):
        with pytest.raises(InvalidInput, match="must be (a text|one of the last)"):
            call()


@pytest.mark.parametrize("models", [{}, [], ["a"], None, "a"])
def test_a_router_needs_models_with_costs(models: Any) -> None:
    with pytest.raises(InvalidInput, match="models must be a dict with the cost of at least one model"):
        PromptRouter(models)


def test_a_benchmark_without_a_measurement_is_refused() -> None:
    unknown = np.full((1, 3), math.nan)
    for prompts, values in ((np.zeros((0, 2)), np.zeros((0, 3))), ([[0.0, 0.0]], unknown)):
        with pytest.raises(InvalidInput, match="at least one prompt"):
            router().warm_start(prompts, values, values)
    words: Any = [["x", "y", "z"]]
    with pytest.raises(InvalidInput, match="quality must hold plain numbers"):
        router().warm_start([[0.0, 0.0]], words, np.ones((1, 3)))
    partly = router()
    partly.warm_start(np.zeros((300, 2)), [[0.9, math.nan, math.nan]] + [[math.nan] * 3] * 299, np.ones((300, 3)))
    assert partly.route([0.0, 0.0])


def test_a_fixed_price_has_no_limit() -> None:
    fixed = PromptRouter({"small": 0.1, "large": 1.0}, Budget(0.02, step=0.0, price=0.1), features=1, seed=1)
    for _ in range(150):
        route = fixed.route([0.0])
        fixed.feedback(route.event_id, 0.9 if route.model == "large" else 0.3, 1.0 if route.model == "large" else 0.1)
    assert Counter(fixed.route([0.0]).model for _ in range(50))["large"] > 40


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", [1e-300, 1e50])
def test_costs_may_have_any_unit(unit: float) -> None:
    new = PromptRouter({"a": unit, "b": 0.9 * unit}, min(max(1e-50, unit), 1e50), features=1, seed=1)
    for x in np.random.default_rng(0).normal(size=30):
        new.feedback(new.route([x]).event_id, 0.5, 1e50)
    for x in (1e6, -1e6):
        assert new.route([x], among=["a"])
        assert all(cost <= 1e50 for _, cost in new.predict([x]).values())
