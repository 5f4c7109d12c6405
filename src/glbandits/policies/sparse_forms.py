"""The sparse form of a policy. Each is defined beside its policy, in `algorithms`."""

from dataclasses import fields
from typing import Any

from glbandits.common.errors import InvalidInput, check_int
from glbandits.policies import POLICIES
from glbandits.policies.contract import Policy

LARGEST_DIM = 2**40
"""The largest number of features of a sparse Bandit. Tables and random numbers support indices up to 2^53."""


def sparse_form(policy: Policy, dim: int, *, advice: str = "") -> Policy:
    """Return the sparse form of a policy, with the same settings.

    Raises InvalidInput if there is none. The message ends with `advice`.
    """
    sparse_class: Any = policy.sparse_implementation(dim)
    check_int("dim", dim, at_least=1, at_most=LARGEST_DIM)
    if sparse_class is None:
        names = ", ".join(name for name, kind in POLICIES.items() if kind().sparse_implementation(dim) is not None)
        raise InvalidInput(f"{policy.name} has no sparse form; policies with one are {names}.{advice and ' '}{advice}")
    form: Policy = sparse_class(**{field.name: getattr(policy, field.name) for field in fields(policy)})  # type: ignore[arg-type]
    return form
