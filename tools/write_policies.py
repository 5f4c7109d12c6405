"""Write docs/policies.md, the costs and settings of all policies: `python tools/write_policies.py`."""

from pathlib import Path
from typing import Any

from glbandits.cli.commands.policies import default_settings
from glbandits.common.display.data_table import DataTable
from glbandits.maths.links import LINKS
from glbandits.policies import POLICIES
from glbandits.policies.contract.policy_checks import accepted_links

PAGE = Path(__file__).parent.parent / "docs/policies.md"
HEAD = """# Policies

`python tools/write_policies.py` generates this page from the code, and a test checks that it is up to date.

- **Costs** are orders of growth in K (arms), d (features) and t (distinct arms pulled so far, which stops growing if
  the set of arms is fixed). M and n are settings.
- A **guarantee** is the proven order of regret with the constants of the theory, up to logarithms. The defaults explore less.
  kappa is the smallest slope of the link for ||theta|| <= S, and mu'* is its slope at the best arm.
- **Sparse** is the cost of a Bandit with `sparse=True` to choose, to learn and in memory. Here n is the number of
  nonzero features of an arm and f the number of learned features. A dash means that the policy has no sparse form
  ([sparse-features.md](sparse-features.md)).
- Default explorations were chosen by `python -m benchmarks defaults`, on a problem whose arms change in each round and
  on a problem with fixed arms.

[`optimist`](theory/optimist.md) is the default. For other cases (regret relative to the best default of 24 policies):

| you have | use | regret |
|---|---|---|
| no time to tune, or a new problem | `optimist` | 0.97 on 60 problems; the next default has 1.21 |
| fixed arms, small differences | `optimist` | 0.65 on 7 problems; 0.7 % of its runs get stuck, 22 % or more of every other default |
| arms so diverse that greedy choices explore | `greedy`, `epsilon-greedy` | 1.35 and 1.32; on one problem `optimist` has 1.7 times the regret of `greedy`. 61 % and 39 % of their runs get stuck on fixed arms |
| rewards that change | `Optimist(half_life="auto")` | [0.4 to 1.3 times the best fixed half-life](theory/optimist.md#changing-rewards); 1.9 on one of 17 problems |
| rewards that never stop changing | `domd-glb` | [0.7 to 1.1 times `Optimist(half_life="auto")`](theory/domd-glb.md#regret), but 2.6 times if nothing changes |
| dense features, too many for d^2 | `sgd-ts` (tuned), `laplace-ts` | tuned: 1.9 and 1.3 times the best tuned policy |
| a need for a proven bound | `glb-omd` | 1.35 |
"""  # noqa: E501
FOOT = """
The grids are those of the SGD-TS paper. Policies that are not in the paper have its five values of the exploration.

**LinUCB-d** (Wu, Yang and Shen, 2020), which the paper mentions once, is not included, because we could not determine
the formula of its index. `lin-ucb-disjoint` is LinUCB with separate parameters for each arm.
"""

COLUMNS = "id", "to choose", "to learn", "memory", "sparse", "links", "guarantee", "use it when"
SETTING_COLUMNS = "id", "settings (defaults)", "grid"


def policies_page() -> str:
    """Return the page."""
    costs, settings = [], []
    for name, kind in POLICIES.items():
        info, page = kind.info, f"[`{name}`](theory/{kind.info.page or name}.md)"
        cost = info.choose, info.learn, info.memory, info.sparse or "-"
        costs.append((page, *cost, _links(kind), info.guarantee, info.use_when))
        settings.append((f"`{name}`", ", ".join(default_settings(kind)), _grid(kind)))
    tables = [DataTable(COLUMNS, costs, COLUMNS), DataTable(SETTING_COLUMNS, settings, SETTING_COLUMNS)]
    first, second = (table.to_markdown() for table in tables)
    return "\n".join([HEAD, first, "", "## Settings and grids", "", second, FOOT])


def _grid(kind: Any) -> str:
    listed = [f"{setting}: {', '.join(f'{value:g}' for value in values)}" for setting, values in kind.grid.items()]
    return "; ".join(listed) or "-"


def _links(kind: Any) -> str:
    links = accepted_links(kind())
    return "any" if len(links) == len(LINKS) else ", ".join(links)


if __name__ == "__main__":
    PAGE.write_text(policies_page(), encoding="utf-8")
