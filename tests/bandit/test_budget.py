import copy
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, Budget, InvalidInput, ModelFileError
from tests.bandit.model_files import forged


@pytest.mark.parametrize("seed", range(5))
def test_mean_cost_is_bounded_by_the_price(seed: int) -> None:
    rng = np.random.default_rng(seed)
    budget = Budget(per_decision=rng.lognormal(), step=rng.lognormal(), price=rng.lognormal())
    first, costs = budget.price, rng.lognormal(sigma=2.0, size=300)
    for cost in costs:
        budget.spend(cost)
    B, s = budget.per_decision, budget.step / budget.per_decision**2
    assert costs.mean() <= (B + (budget.price - first) / (s * len(costs))) * (1 + 1e-12)


def test_price_follows_the_costs() -> None:
    budget = Budget(per_decision=0.5, step=0.1)
    budget.spend(0.25)
    assert budget.price == 0.0
    budget.spend(1.0)
    assert budget.price == pytest.approx(0.2)
    budget.spend(0.0)
    assert budget.price == pytest.approx(0.0)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_unit_of_the_costs_changes_only_the_unit_of_the_price(unit: float) -> None:
    budgets = Budget(per_decision=0.3), Budget(per_decision=0.3 * unit)
    for cost in (0.9, 0.1, 2.0):
        budgets[0].spend(cost)
        budgets[1].spend(cost * unit)
    assert budgets[1].price * unit == pytest.approx(budgets[0].price)


@pytest.mark.parametrize("cost", [math.nan, math.inf, "1", None, True, [1.0]])
def test_invalid_cost_changes_nothing(cost: Any) -> None:
    budget = Budget(per_decision=1.0, price=0.5)
    with pytest.raises(InvalidInput, match="cost must be a finite number"):
        budget.spend(cost)
    assert budget == Budget(per_decision=1.0, price=0.5)


@pytest.mark.parametrize("settings", [{"per_decision": 0}, {"per_decision": -1.0}, {"step": -1}, {"price": math.nan}])
def test_invalid_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="must be a finite number"):
        Budget(**{"per_decision": 1.0, **settings})


def test_price_stays_finite() -> None:
    budget = Budget(per_decision=1e-50, step=1e50)
    budget.spend(1e50)
    assert math.isfinite(budget.price)


def test_budget_is_saved_copied_and_pickled_with_the_model(tmp_path: Path) -> None:
    bandit = Bandit("optimist", dim=2, seed=1)
    assert Bandit.from_bytes(bandit.to_bytes()).budget is None
    bandit.budget = Budget(per_decision=0.3, step=0.01)
    bandit.budget.spend(0.7)
    bandit.save(tmp_path / "model.safetensors")
    copies = [Bandit.load(tmp_path / "model.safetensors"), copy.deepcopy(bandit), pickle.loads(pickle.dumps(bandit))]
    bandit.budget.spend(0.7)
    expected = Budget(per_decision=0.3, step=0.01)
    expected.spend(0.7)
    assert [each.budget for each in copies] == [expected] * 3


@pytest.mark.parametrize(
    "budget", ['{"per_decision": -1}', '{"per_decision": 1, "more": 2}', "{}", "3", '"text"', "[1]"]
)
def test_damaged_budget_is_refused(budget: str) -> None:
    content = forged(Bandit("optimist", dim=2, seed=1).to_bytes(), {"budget": budget})
    with pytest.raises(ModelFileError, match="is damaged"):
        Bandit.from_bytes(content)


@pytest.mark.parametrize(("name", "value"), [("per_decision", 0), ("price", float("nan")), ("step", None)])
def test_budget_cannot_become_invalid(name: str, value: Any) -> None:
    budget = Budget(per_decision=1.0)
    with pytest.raises(InvalidInput, match=name):
        setattr(budget, name, value)
    assert budget == Budget(per_decision=1.0)


def test_other_objects_are_no_budgets() -> None:
    bandit = Bandit("uniform", dim=1)
    with pytest.raises(InvalidInput, match="must be a Budget"):
        bandit.budget = "x"  # type: ignore[assignment]


def test_one_absurd_cost_counts_as_10000_budgets() -> None:
    absurd, large = Budget(per_decision=0.3), Budget(per_decision=0.3)
    for budget, cost in ((absurd, 1e40), (large, 3000.0)):
        budget.spend(0.6)
        budget.correct(0.6, cost)
    assert absurd.price == pytest.approx(large.price)
    absurd.correct(1e40, 0.6)
    assert absurd.price == pytest.approx(0.005 / 0.3)
