"""The sparse forms of policies, one file each: what plays in a Bandit with `sparse=True`."""

from dataclasses import fields
from typing import Any

from glbandits.errors import InvalidInput
from glbandits.policies import POLICIES
from glbandits.policy import Policy
from glbandits.sparse_policies.optimist import SparseOptimist
from glbandits.sparse_policies.uniform import SparseUniform

__all__ = ["SparseOptimist", "SparseUniform", "sparse_form"]


def sparse_form(policy: Policy, dim: int) -> Policy:
    """The policy that plays on sparse rows, with the same settings. Raises InvalidInput if there is none."""
    kind: Any = policy.sparse_implementation(dim)
    if kind is None:
        names = ", ".join(name for name, kind in POLICIES.items() if kind().sparse_implementation(dim) is not None)
        raise InvalidInput(f"{policy.name} has no sparse form; those that have one are {names}.")
    form: Policy = kind(**{field.name: getattr(policy, field.name) for field in fields(policy)})  # type: ignore[arg-type]
    return form
