"""Budget: a price for costs, such that the mean cost of decisions stays at a limit."""

from dataclasses import dataclass

from glbandits.common.errors import MAX_ABS, check_float

LEAST_BUDGET = 1e-50
CREDIT, LARGEST_DEBT = 100.0, 10_000.0
"""`debt` is kept between -CREDIT and LARGEST_DEBT, and a cost counts as at most LARGEST_DEBT budgets of a decision, so
that neither old savings nor one absurd cost rule for long."""


@dataclass(slots=True)
class Budget:
    """A price for costs that rises while decisions cost more than a budget, and falls while they cost less.

    Online primal-dual pricing: after a decision of cost c, the price becomes max(0, price + s (c - B)), where B is the
    budget per decision and s = step / B^2. So after n decisions the mean cost is at most B + (price - first price) /
    (s n). Proof: each decision raises the price by at least s (c - B), so the price is at least its first value plus
    s (sum of costs - n B). This holds for all choices, and for costs of at most 10,000 B: larger ones count as that.
    The mean cost approaches B or less if the price stays bounded, and it does if every decision has an arm that costs
    less than B: a high price makes the bandit prefer it.

    Args:
        per_decision: B, in the unit of the costs.
        step: how much the price of the whole budget of a decision, price * B, rises after a decision that costs 2 B.
            Good values are near 0.005 of a typical payoff. A larger step keeps to the budget sooner, and a smaller one
            makes better decisions.
        price: the first price: the payoff that one unit of cost must bring.
        debt: the number of decisions' budgets that were overspent, negative if money was saved.

    Assign a budget to `bandit.budget` to save it with the model.

    >>> from glbandits import Bandit, Budget
    >>> bandit, budget = Bandit("optimist", dim=1, seed=7), Budget(per_decision=0.3)
    >>> arms, costs = [[0.0], [1.0]], [0.1, 0.9]
    >>> budget.spend(costs[1])
    >>> round(budget.price, 3), round(budget.debt, 3)
    (0.033, 2.0)
    """

    per_decision: float
    step: float = 0.005
    price: float = 0.0
    debt: float = 0.0

    def __setattr__(self, name: str, value: float) -> None:
        least = {"per_decision": LEAST_BUDGET, "debt": -CREDIT}.get(name, 0.0)
        object.__setattr__(self, name, check_float(name, value, at_least=least))

    def spend(self, cost: float) -> None:
        """Record the cost of a decision, and change the price. Raises InvalidInput if it is not a finite number."""
        self._add(self._counted("cost", cost) - 1.0)

    def correct(self, expected: float, cost: float) -> None:
        """Replace the expected cost of an earlier decision, which `spend` recorded, by its real cost."""
        self._add(self._counted("cost", cost) - self._counted("expected", expected))

    def _counted(self, name: str, cost: float) -> float:
        return min(check_float(name, cost) / self.per_decision, LARGEST_DEBT)

    def _add(self, excess: float) -> None:
        self.price = min(max(0.0, self.price + self.step / self.per_decision * excess), MAX_ABS)
        self.debt = min(max(-CREDIT, self.debt + excess), LARGEST_DEBT)
