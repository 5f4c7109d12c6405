from pathlib import Path
from typing import Any

import pytest

from glbandits import InvalidInput, Uniform, UnknownName
from glbandits.lab import Synthetic
from glbandits.lab.experiments.experiment import Experiment, PolicyEntry
from glbandits.lab.experiments.user_experiment import read_experiments
from glbandits.policies.agents import settings_values

WHOLE = """
title = "Mine"
horizon = 300
repeats = 4
fresh = 50

[environment]
kind = "synthetic"
dim = 4
arms = 10
fixed_arms = true
link = "probit"

[[policy]]
kind = "online-laplace"
settings = { rule = "ucb" }
grid = { exploration = [0.5, 1.0, 2.0], prior_precision = [0.1, 1.0] }

[[policy]]
kind = "sgd-ts"
"""


OWN_POLICY = """
from glbandits.policies.algorithms.uniform import Uniform


class Own(Uniform):
    name = "own-uniform"
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def test_experiment_is_read_from_a_file(tmp_path: Path) -> None:
    [experiment] = read_experiments([written(tmp_path, WHOLE)])
    assert (experiment.name, experiment.title, experiment.horizon) == ("mine", "Mine", 300)
    assert experiment.environment == Synthetic(dim=4, arms=10, fixed_arms=True, link="probit")
    assert (len(experiment.repeats), len(experiment.fresh)) == (4, 50)
    laplace, sgd_ts = experiment.policies
    assert len(laplace.policies()) == 6
    assert len(sgd_ts.policies()) == 1750
    assert sgd_ts.settings == {"horizon": 300, "link": "probit"}
    assert laplace.settings == {"link": "probit", "rule": "ucb"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("horizon = 300", "", "needs horizon; got title, repeats, fresh, environment, policy"),
        ("horizon = 300", "horizon = 0", "horizon must be a whole number of at least 1; got 0"),
        ('"synthetic"', '"synthetik"', "unknown kind of environment 'synthetik'; did you mean 'synthetic'"),
        ('"sgd-ts"', '"online-laplace"', "must have different names; got online-laplace, online-laplace"),
        ("repeats = 4", "repeats = 600", "repeats must be a whole number of at least 1 and at most 500; got 600"),
        (
            'rule = "ucb"',
            "exploration = 1.0",
            "online-laplace has exploration both in settings and in grid; remove one of them",
        ),
        ('[[policy]]\nkind = "sgd-ts"', "", None),
    ],
)
def test_invalid_files_are_rejected_with_a_reason(old: str, new: str, message: str | None, tmp_path: Path) -> None:
    assert old in WHOLE
    path = written(tmp_path, WHOLE.replace(old, new))
    if message is None:
        assert len(read_experiments([path])[0].policies) == 1
    else:
        with pytest.raises((InvalidInput, UnknownName), match=message):
            read_experiments([path])


def test_link_and_horizon_can_be_in_the_grid(tmp_path: Path) -> None:
    grid = '"sgd-ts"\ngrid = { link = ["identity", "logistic"], horizon = [100, 300] }'
    entry = read_experiments([written(tmp_path, WHOLE.replace('"sgd-ts"', grid))])[0].policies[1]
    settings = {(settings_values(policy)["link"], settings_values(policy)["horizon"]) for policy in entry.policies()}
    assert settings == {("identity", 100), ("identity", 300), ("logistic", 100), ("logistic", 300)}


def test_fixed_setting_is_removed_from_the_default_grid(tmp_path: Path) -> None:
    fixed = '"sgd-ts"\nsettings = { step = 0.5 }'
    policies = read_experiments([written(tmp_path, WHOLE.replace('"sgd-ts"', fixed))])[0].policies[1].policies()
    assert {settings_values(policy)["step"] for policy in policies} == {0.5}
    assert 1 < len(policies) < 1750


def test_thin_grid_keeps_settings_without_thin_values(tmp_path: Path) -> None:
    laplace = read_experiments([written(tmp_path, WHOLE.replace("[0.5, 1.0, 2.0]", "[0.5, 2.0]"))])[0].policies[0]
    assert [settings_values(policy)["exploration"] for policy in laplace.policies(quick=True)] == [0.5, 0.5, 2.0, 2.0]
    laplace = read_experiments([written(tmp_path, WHOLE)])[0].policies[0]
    assert {settings_values(policy)["exploration"] for policy in laplace.policies(quick=True)} == {1.0}


def test_file_may_have_several_problems(tmp_path: Path) -> None:
    two = WHOLE.replace("[environment]", '[[environment]]\nname = "few"') + "[[environment]]\narms = 50\n"
    first, second = read_experiments([written(tmp_path, two)])
    assert (first.name, first.title, second.name, second.title) == ("few", "Mine, few", "mine 2", "Mine, mine 2")
    assert first.environment == Synthetic(dim=4, arms=10, fixed_arms=True, link="probit")
    assert second.environment == Synthetic(arms=50)
    assert [entry.label for entry in second.policies] == ["online-laplace", "sgd-ts"]
    assert second.policies[1].settings["link"] == "logistic"
    for wrong in ('name = "few"', "name = 3", 'name = ""'):
        with pytest.raises(InvalidInput, match=r"each \[\[environment\]\] needs a name of its own"):
            read_experiments([written(tmp_path, two + f"[[environment]]\n{wrong}\n")])


@pytest.mark.parametrize("name", ["optimist", "mine_reference:Own"])
def test_reference_is_a_policy_by_the_name_in_the_file(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "mine_reference.py").write_text(OWN_POLICY)
    monkeypatch.chdir(tmp_path)
    text = 'horizon = 50\nreference = "NAME"\n[environment]\n[[policy]]\nkind = "uniform"\n[[policy]]\nkind = "NAME"\n'
    [experiment] = read_experiments([written(tmp_path, text.replace("NAME", name))])
    assert experiment.reference == experiment.policies[1].label
    with pytest.raises(UnknownName, match="unknown policy as reference 'unifrom'; did you mean 'uniform'"):
        read_experiments([written(tmp_path, text.replace("NAME", "unifrom", 1).replace("NAME", name))])


def test_same_policy_may_be_compared_under_two_names(tmp_path: Path) -> None:
    text = """
    horizon = 50
    repeats = [1, 2]
    finals = 0
    fresh = [11, 12, 13]
    reference = "with floor"
    [environment]
    dim = 3
    arms = 4
    [[policy]]
    kind = "optimist"
    [[policy]]
    kind = "optimist"
    name = "with floor"
    settings = { floor = 0.1 }
    """
    [read] = read_experiments([written(tmp_path, text)])
    automatic = {"link": "logistic"}
    made = Experiment(
        name="mine",
        environment=Synthetic(dim=3, arms=4),
        horizon=50,
        policies=(
            PolicyEntry("optimist", automatic, {}),
            PolicyEntry("optimist", automatic | {"floor": 0.1}, {}, name="with floor"),
        ),
        repeats=(1, 2),
        finals=0,  # type: ignore[arg-type]
        fresh=(11, 12, 13),
        reference="with floor",
        note=read.note,
    )
    assert read == made
    assert [entry.label for entry in made.policies] == ["optimist", "with floor"]


def test_number_of_seeds_stands_for_the_seeds() -> None:
    experiment = Experiment("mine", Synthetic(), 10, [PolicyEntry(Uniform)], repeats=2, finals=3, fresh=4)  # type: ignore[arg-type]
    assert (experiment.repeats, experiment.finals) == ((1, 2), (501, 502, 503))
    assert experiment.fresh == (1001, 1002, 1003, 1004)
    assert experiment.title == "mine"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policies": ()}, "the experiment 'mine' needs at least one policy; got none"),
        ({"fresh": 0}, "fresh must be a whole number of at least 1; got 0"),
        ({"fresh": "many"}, "fresh must be a whole number of at least 1; got 'many'"),
        ({"reference": "mine"}, "unknown policy as reference 'mine'"),
    ],
)
def test_invalid_experiments_are_rejected(changes: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {
        "name": "mine", "environment": Synthetic(), "horizon": 10, "policies": [PolicyEntry(Uniform)],
    }  # fmt: skip
    with pytest.raises((InvalidInput, UnknownName), match=message):
        Experiment(**(values | changes))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": Uniform()}, r"kind must be a class of policies, its name, .*; got Uniform\(.* as settings"),
        ({"kind": 5}, "kind must be a class of policies, its name, or a class or function that makes agents; got 5"),
        ({"kind": "unifrom"}, "unknown policy 'unifrom'; did you mean 'uniform'"),
        ({"kind": Uniform, "name": ""}, "the name of a policy must be a text; got ''"),
        ({"kind": Uniform, "name": 5}, "the name of a policy must be a text; got 5"),
    ],
)
def test_invalid_policies_of_an_experiment_are_rejected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((InvalidInput, UnknownName), match=message):
        PolicyEntry(**arguments)
