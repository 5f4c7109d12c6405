"""The agent and the policies of docs/write-a-policy.md, in the library and on the command line."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from glbandits import Bandit
from tests.cli.in_process import glb

PAGE = (Path(__file__).parents[2] / "docs/write-a-policy.md").read_text(encoding="utf-8")
AGENT, COMPARISON, POLICY, PROGRAM, _, _, REFIT = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with the page's agent in agent.py, and its policy in mine.py."""
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    (tmp_path / "mine.py").write_text(POLICY, encoding="utf-8")
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for name in ("agent", "mine"):
        sys.modules.pop(name, None)


def test_agent_of_the_page_is_checked_and_compared(folder: Path) -> None:
    sys.path.insert(0, str(folder))
    program = COMPARISON.replace("horizon=1000, seeds=20", "horizon=300, seeds=2, jobs=1")
    names: dict[str, Any] = {}
    exec(program.replace("print(compare(", "result = (compare("), names)
    regret = {name: each.final_regret.mean() for name, each in names["result"].items()}
    assert list(regret) == ["soft", "sharp", "optimist"]
    uniform = names["compare"](["uniform"], names["Synthetic"](), 300, 2)["uniform"].final_regret.mean()
    assert max(regret["soft"], regret["sharp"]) < uniform


def test_agent_of_the_page_runs_on_the_command_line(folder: Path) -> None:
    words = ("--horizon", "20", "--seeds", "1", "--environment", "synthetic:dim=2,arms=3", "--jobs", "1")
    run = glb("simulate", "--policy", "agent:Softmax:sharpness=10", *words, folder=folder)
    assert run.returncode == 0, run.stderr
    assert "agent:Softmax:sharpness=10" in run.stdout


@pytest.mark.usefixtures("plain_python")
def test_policy_of_the_page_with_a_history_fits_all_rewards() -> None:
    names: dict[str, Any] = {}
    exec(POLICY + REFIT, names)
    bandit = Bandit(names["Refit"](), dim=2, seed=1)
    for x, reward in (([1.0, 0.0], 1.0), ([0.0, 1.0], 0.0), ([1.0, 0.0], 1.0)):
        bandit.learn(x, reward)
    coefficients = bandit.coefficients()
    assert coefficients is not None
    np.testing.assert_allclose(
        coefficients.theta,
        LogisticRegression(fit_intercept=False, tol=1e-10)
        .fit([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [1, 0, 1])
        .coef_[0],
        atol=1e-5,
    )


@pytest.mark.safety
def test_program_of_the_page_runs(folder: Path) -> None:
    check = "\nassert result.mean[-1] < 70 and bandit.probabilities(np.eye(6)).min() > 0.008, result.mean[-1]\n"
    sys.path.insert(0, str(folder))
    exec("import numpy as np\n" + PROGRAM + check, {})


@pytest.mark.safety
def test_module_and_class_name_a_user_policy(folder: Path) -> None:
    words = ("--horizon", "50", "--seeds", "2", "--environment", "synthetic:dim=2,arms=3")
    run = glb("simulate", "--policy", "mine:SgdGreedy:step=0.5", *words, folder=folder)
    assert run.returncode == 0, run.stderr
    assert "mine:SgdGreedy" in run.stdout
    (folder / "mine.toml").write_text(
        'horizon = 50\nrepeats = 2\nfresh = 2\n[environment]\ndim = 2\narms = 3\n[[policy]]\nkind = "mine:SgdGreedy"\n'
        "[policy.grid]\nstep = [0.1, 1.0]\n"
    )
    run = glb("compare", "mine.toml", "--jobs", "1", folder=folder)
    assert run.returncode == 0, run.stderr
    assert "sgd-greedy" in run.stdout
    rng = np.random.default_rng(1)
    pl.DataFrame(
        {"page": rng.choice(["a", "b"], 200), "sold": rng.integers(0, 2, 200), "p": np.full(200, 0.5)}
    ).write_csv(folder / "log.csv")
    columns = ("--arm", "page", "--reward", "sold", "--propensity", "p", "--link", "logistic")
    run = glb("evaluate", "log.csv", *columns, "--policy", "mine:SgdGreedy", folder=folder)
    assert run.returncode == 0, run.stderr
    assert "mine:SgdGreedy" in run.stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere:SgdGreedy", "there is no module 'nowhere'"),
        ("mine:SgdGredy", "unknown name in mine.py 'SgdGredy'; did you mean 'SgdGreedy'?"),
        ("mine:LAYOUT", "must name a subclass of glbandits.Policy"),
        ("mine:SgdGreedy:stepp=1", "unknown setting of mine:SgdGreedy 'stepp'; did you mean 'step'"),
        ("mine:SgdGreedy:step=0", "step must be a finite number above 0; got 0"),
    ],
)
def test_error_names_the_missing_module_or_class(name: str, message: str, folder: Path) -> None:
    run = glb("simulate", "--policy", name, folder=folder)
    assert run.returncode == 2
    assert message in run.stderr


def test_syntax_error_names_file_and_line(folder: Path) -> None:
    (folder / "broken.py").write_text("x = 1\ndef f(:\n")
    (folder / "mine.toml").write_text('horizon = 50\n[environment]\n[[policy]]\nkind = "broken:Policy"\n')
    for words in (("compare", "mine.toml"), ("simulate", "--policy", "broken:Policy")):
        run = glb(*words, folder=folder)
        assert run.returncode == 2
        assert "SyntaxError: invalid syntax (broken.py, line 2)" in run.stderr


@pytest.mark.system
def test_compile_accepts_user_policies(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLBANDITS_COMPILE", "background")
    run = glb("compile", "uniform", "mine:SgdGreedy", folder=folder)
    assert run.returncode == 0, run.stderr
    assert "Compiled uniform, mine:SgdGreedy." in run.stdout
