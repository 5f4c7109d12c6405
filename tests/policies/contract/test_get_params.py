"""`get_params` of policies and of Bandit: the names and values of their parameters, as scikit-learn's estimators do."""

from dataclasses import replace
from inspect import signature
from typing import Any

import pytest

from glbandits import Bandit, Optimist, Policy, Uniform
from glbandits.policies import POLICIES
from glbandits.policies.contract import settings_of


def with_other_settings(policy: Any) -> Policy:
    """Return the policy with the last value of each grid in place of its default, where they go together."""
    changed: Policy = policy
    for setting, values in policy.grid.items():
        changed = replace(changed, **{setting: values[-1]})  # type: ignore[type-var]
    return changed


@pytest.mark.parametrize("name", POLICIES)
def test_policy_is_rebuilt_from_its_params(name: str) -> None:
    for policy in (POLICIES[name](), with_other_settings(POLICIES[name]())):
        rebuilt = type(policy)(**policy.get_params())
        assert rebuilt == policy
        assert rebuilt.get_params() == policy.get_params()
        assert repr(rebuilt) == repr(policy)


@pytest.mark.parametrize("name", POLICIES)
def test_params_of_a_policy_are_the_parameters_of_its_class(name: str) -> None:
    kind: Any = POLICIES[name]
    assert list(kind().get_params()) == list(signature(kind).parameters)
    assert set(kind().get_params()) == set(settings_of(kind()))


def test_params_have_changed_settings() -> None:
    assert Optimist(link="logistic", floor=0.1).get_params()["floor"] == 0.1
    assert Uniform().get_params() == {"link": "identity"}


def test_deep_params_of_a_bandit_contain_the_settings_of_its_policy() -> None:
    policy = Optimist(link="logistic", floor=0.1)
    params = Bandit(policy, dim=3).get_params()
    nested = {name.removeprefix("policy__"): value for name, value in params.items() if name.startswith("policy__")}
    assert nested == policy.get_params()


def test_shallow_params_rebuild_a_bandit() -> None:
    bandit = Bandit(Optimist(floor=0.1), dim=3)
    params = bandit.get_params(deep=False)
    assert params == {"policy": bandit.policy, "dim": 3, "sparse": False, "features": None}
    assert repr(Bandit(**params)) == repr(bandit)
