"""The sparse forms of policies, one file each: what plays in a Bandit with `sparse=True`."""

from dataclasses import fields
from typing import Any

from glbandits.errors import InvalidInput, check_int
from glbandits.policies import POLICIES
from glbandits.policy import Policy
from glbandits.sparse_policies.epsilon_greedy import SparseEpsilonGreedy
from glbandits.sparse_policies.laplace_ts import SparseLaplaceTs
from glbandits.sparse_policies.lin_ucb_disjoint import SparseLinUcbDisjoint
from glbandits.sparse_policies.optimist import SparseOptimist
from glbandits.sparse_policies.sgd_ts import SparseSgdTs
from glbandits.sparse_policies.uniform import SparseUniform

__all__ = [
    "SparseEpsilonGreedy",
    "SparseLaplaceTs",
    "SparseLinUcbDisjoint",
    "SparseOptimist",
    "SparseSgdTs",
    "SparseUniform",
    "sparse_form",
]

LARGEST_DIM = 2**40
"""The largest number of features of a sparse Bandit: a table and a generator count them in 53 bits."""


def sparse_form(policy: Policy, dim: int) -> Policy:
    """The policy that plays on sparse rows, with the same settings. Raises InvalidInput if there is none."""
    kind: Any = policy.sparse_implementation(dim)
    check_int("dim", dim, at_least=1, at_most=LARGEST_DIM)
    if kind is None:
        names = ", ".join(name for name, kind in POLICIES.items() if kind().sparse_implementation(dim) is not None)
        raise InvalidInput(f"{policy.name} has no sparse form; those that have one are {names}.")
    form: Policy = kind(**{field.name: getattr(policy, field.name) for field in fields(policy)})  # type: ignore[arg-type]
    return form
