"""Environments of a user's module in experiment files and on the command line."""

from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from glbandits import InvalidInput, UnknownName
from glbandits.lab import Synthetic, gaussian
from glbandits.lab.experiments.named_environments import default_link, make_environment
from glbandits.lab.experiments.user_experiment import read_experiments
from tests.cli.in_process import glb

OWN = '''
import numpy as np
from glbandits.lab import NOISES, Rounds, Synthetic, gaussian


class Drift:
    """Two arms whose means cross."""

    dim = 2

    def __init__(self, speed, noise="bernoulli"):
        if speed < 0:
            raise ValueError("speed is negative")
        self.speed = speed
        self.noise = NOISES[noise] if noise in NOISES else gaussian()

    def rounds(self, horizon, seed):
        rng = np.random.default_rng(seed)
        first = np.clip(0.2 + self.speed * np.arange(horizon), 0.0, 1.0)
        yield Rounds(
            arms=np.tile(np.eye(2), (horizon, 1, 1)),
            counts=np.full(horizon, 2),
            expected=np.stack([first, 1.0 - first], axis=1),
            noise=self.noise.draw(rng, horizon),
        )


def small(**settings):
    return Synthetic(dim=2, arms=3, **settings)


def nothing():
    return None


number = 3
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    module = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def module_of(folder: Path) -> str:
    return next(folder.glob("own_*.py")).stem


def written(folder: Path, problem: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(f'horizon = 50\nrepeats = 2\nfresh = 3\n[environment]\n{problem}\n[[policy]]\nkind = "uniform"\n')
    return path


def test_own_environment_is_a_problem_with_its_settings(folder: Path) -> None:
    kind = f"{module_of(folder)}:Drift"
    [experiment] = read_experiments([written(folder, f'kind = "{kind}"\nspeed = 0.01\nnoise = "normal"')])
    assert type(experiment.environment).__name__ == "Drift"
    assert vars(experiment.environment)["speed"] == 0.01
    assert experiment.note == f"The problem is {kind}(speed=0.01, noise='normal')."
    assert experiment.policies[0].policies()[0].get_params()["link"] == "identity"


def test_own_function_returns_the_problem(folder: Path) -> None:
    problem = make_environment(f"{module_of(folder)}:small", {"fixed_arms": True})
    assert problem == Synthetic(dim=2, arms=3, fixed_arms=True)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ('kind = "MODULE:Drift"', r"\[environment\] of mine.toml needs speed; got kind"),
        (
            'kind = "MODULE:Drift"\nspeed = -1',
            r"could not be created by MODULE:Drift\(speed=-1\): ValueError: speed is",
        ),
        ('kind = "MODULE:small"\nlink = "logit"', "unknown link 'logit'; did you mean 'logistic'"),
        ('kind = "MODULE:Drfit"', "unknown name in MODULE.py 'Drfit'; did you mean 'Drift'"),
        ("kind = 5", "unknown kind of environment 5"),
    ],
)
def test_wrong_problems_are_refused(folder: Path, problem: str, message: str) -> None:
    module = module_of(folder)
    with pytest.raises((InvalidInput, UnknownName), match=message.replace("MODULE", module)):
        read_experiments([written(folder, problem.replace("MODULE", module))])


def test_default_link_fits_the_rewards() -> None:
    assert default_link(Synthetic(link="probit")) == "probit"

    class Own:
        dim, noise = 2, gaussian()

        def rounds(self, horizon: int, seed: int) -> Iterator[object]:
            raise NotImplementedError

    assert default_link(Own()) == "identity"  # type: ignore[arg-type]


def test_command_line_simulates_and_compares_own_environments(folder: Path) -> None:
    kind = f"{module_of(folder)}:Drift"
    options = ("--policy", "uniform", "--horizon", "30", "--seeds", "2", "--out", "new/folder")
    run = glb("simulate", "--environment", f"{kind}:speed=0.01", *options, folder=folder)
    assert run.returncode == 0, run.stderr
    assert (folder / "new/folder/regret.parquet").exists()
    kind = f"{module_of(folder)}:small"
    path = written(folder, f'kind = "{kind}"\nlink = "probit"')
    run = glb("compare", str(path), "--jobs", "1", "--out", "another/folder", folder=folder)
    assert run.returncode == 0, run.stderr
    assert f"{kind}(link='probit')" in unescape((folder / "another/folder/report.html").read_text())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--environment", "MODULE:Drift:sped=1"), "'sped'; did you mean 'speed'"),
        (("--environment", "pricse"), "unknown kind of environment 'pricse'; did you mean 'prices'"),
    ],
)
def test_wrong_problem_on_the_command_line_is_an_error(folder: Path, words: tuple[str, ...], message: str) -> None:
    words = tuple(word.replace("MODULE", module_of(folder)) for word in words)
    run = glb("simulate", "--policy", "uniform", *words, folder=folder)
    assert run.returncode != 0
    assert message in run.stderr
