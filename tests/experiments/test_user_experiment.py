from pathlib import Path

import pytest

from glbandits import InvalidInput, UnknownName
from glbandits.environments import Synthetic
from glbandits.experiments.user_experiment import read_experiment

WHOLE = """
title = "Mine"
horizon = 300
repeats = 4
fresh = 50

[problem]
kind = "synthetic"
dim = 4
arms = 10
fixed_arms = true
link = "probit"

[[policy]]
name = "online-laplace"
settings = { rule = "ucb" }
grid = { exploration = [0.5, 1.0, 2.0], prior_precision = [0.1, 1.0] }

[[policy]]
name = "sgd-ts"
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def test_a_file_is_an_experiment(tmp_path: Path) -> None:
    experiment = read_experiment(written(tmp_path, WHOLE))
    assert (experiment.name, experiment.title, experiment.horizon) == ("mine", "Mine", 300)
    assert experiment.environment == Synthetic(dim=4, arms=10, fixed_arms=True, link="probit")
    assert (len(experiment.repeats), len(experiment.fresh)) == (4, 50)
    laplace, sgd_ts = experiment.entries
    assert len(laplace.settings()) == 6
    assert len(sgd_ts.settings()) == 1750
    assert sgd_ts.fixed == {"horizon": 300, "link": "probit"}
    assert laplace.fixed == {"link": "probit", "rule": "ucb"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("horizon = 300", "", "needs horizon; got title, repeats, fresh, problem, policy"),
        ("horizon = 300", "horizon = ", "is not a TOML file"),
        ("horizon = 300", "horizon = 0", "horizon must be a whole number of at least 1; got 0"),
        ("arms = 10", "arm = 10", r"unknown name in \[problem\] of mine.toml 'arm'; did you mean 'arms'"),
        ('"synthetic"', '"synthetik"', "unknown kind of problem 'synthetik'; did you mean 'synthetic'"),
        ('"sgd-ts"', '"sgd-st"', "unknown policy 'sgd-st'; did you mean 'sgd-ts'"),
        ('"sgd-ts"', '"online-laplace"', "each policy can be named once; got online-laplace, online-laplace"),
        ("exploration = [", "explore = [", "'explore'; did you mean 'exploration'"),
        ("[0.5, 1.0, 2.0]", "[0.5, -1.0]", "exploration must be a finite number at least 0; got -1.0"),
        ('[[policy]]\nname = "sgd-ts"', "", None),
    ],
)
def test_what_is_wrong_is_said(old: str, new: str, message: str | None, tmp_path: Path) -> None:
    assert old in WHOLE
    path = written(tmp_path, WHOLE.replace(old, new))
    if message is None:
        assert len(read_experiment(path).entries) == 1
    else:
        with pytest.raises((InvalidInput, UnknownName), match=message):
            read_experiment(path)
