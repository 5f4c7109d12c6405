"""A sample of each published file of results, computed again and compared to the printed digits.

Seeds and problems are those of the tool that wrote the file. Figures of time cannot repeat and are not compared. If the
code of a file changes its numbers, its tool writes it again: `make results`, `make regret`, or
`python -m tools.write_benchmarks NAME`.
"""

import csv
from pathlib import Path

import numpy as np
import pytest
from benchmarks import coverage_differences, defaults, guardrails, outliers, verdicts
from benchmarks.drift import REPORTING
from benchmarks.drift_policies import DEFAULT, policies_for
from benchmarks.regret.candidates import SUBJECT, default_policy, effort_for, policy_entry
from benchmarks.regret.page import subject_cells
from benchmarks.regret.problems import PROBLEMS
from benchmarks.regret.results import PolicyResult
from tools.figures import DOCS, line_after

from glbandits.lab import simulate
from glbandits.lab.experiments.experiment import FIRST_FRESH
from glbandits.lab.paper.experiments import simulation
from glbandits.lab.paper.paper_summary import read_summary
from glbandits.policies.parsing import parse_policy

pytestmark = [pytest.mark.statistics, pytest.mark.usefixtures("compiled_now")]


def published(name: str, *keys: str) -> list[str]:
    """The words of a line of docs/benchmarks/NAME.txt after the keys, each of which is searched after the last."""
    return line_after([*keys], (DOCS / "benchmarks" / f"{name}.txt").read_text(encoding="utf-8"), name).split()


@pytest.mark.parametrize("label", ["optimist", "sgd-ts"])
def test_regret_in_the_simulation_of_the_paper(label: str) -> None:
    experiment = simulation()
    summary = read_summary(DOCS / "results.json").experiment(experiment.name)
    assert summary is not None
    assert summary.fresh is not None
    stored = summary.fresh[label]
    settings = "" if stored.tried == 1 else f":{stored.chosen.replace(' ', '')}"
    policy = parse_policy(label + settings, horizon=experiment.horizon, link="logistic")
    seeds = range(FIRST_FRESH, FIRST_FRESH + summary.fresh.seeds)
    result = simulate(policy, experiment.environment, experiment.horizon, seeds, jobs=1, keep_choices=False)
    assert result.mean[-1] == pytest.approx(stored.regret, rel=1e-9)


@pytest.mark.parametrize("name", ["iris", "fixed-5"])
def test_regret_on_two_problems(name: str, tmp_path: Path) -> None:
    problem = PROBLEMS[name]
    environment = problem.build(tmp_path)
    horizon, seeds = problem.horizon(environment), effort_for(SUBJECT, problem.kind, seconds=0.01).fresh
    policy = default_policy(policy_entry(SUBJECT, environment, problem.link, horizon, {}))
    regrets = simulate(policy, environment, horizon, seeds, jobs=1, keep_choices=False).final_regret
    with (DOCS / "regret-problems.csv").open(encoding="utf-8") as file:
        row = next(row for row in csv.DictReader(file) if row["problem"] == name)
    result = PolicyResult(SUBJECT, False, "default", 1, 0, tuple(seeds), regrets, 0.0)
    assert [row[f"`{SUBJECT}`"], row["median"], row["90 %"]] == subject_cells(result)


@pytest.mark.parametrize("label", ["optimist", "sgd-ts"])
def test_regret_by_exploration(label: str) -> None:
    printed = published("defaults", "mean", label)
    for column, (problem, horizon) in enumerate(defaults.PROBLEMS.values()):
        policy = parse_policy(label, horizon=horizon, link="logistic")
        result = simulate(policy, problem, horizon, defaults.SEEDS, jobs=1, keep_choices=False)
        assert f"{result.mean[-1]:.1f} +- {result.standard_error[-1]:.1f}" == " ".join(printed[3 * column :][:3])


def test_regret_when_theta_changes() -> None:
    name = "jumps every 800, d=4, K=8"
    policy, seeds = policies_for(REPORTING[name])[DEFAULT], range(70_000, 70_020)
    found = simulate(policy, REPORTING[name], 10_000, seeds, jobs=1, keep_choices=False).final_regret
    assert f"{found.mean():.0f}" == published("drift_policies", name)[5]


def test_coverage_of_differences() -> None:
    pair, kind = coverage_differences.PAIRS[:1], coverage_differences.KINDS[1]
    first = coverage_differences.FIRST_SEED
    seeds = range(first, first + coverage_differences.LOGS)
    outcomes = np.array([coverage_differences.coverage_of(seed, kind, pair)[0] for seed in seeds])
    covered, width, covered_anytime, width_anytime = outcomes.mean(axis=0)
    expected = published("coverage_differences", "floor 0.1", "good - uniform")
    assert [f"{covered:.3f}", f"{width:.3f}"] == expected[:2]
    assert [f"{covered_anytime:.3f}", f"{width_anytime:.3f}"] == expected[3:]


def test_false_alarms_of_a_guardrail() -> None:
    case = guardrails.false_alarm_cases()[0]
    outcome = guardrails.play(case)
    shares = (outcome.lower_wrong, outcome.upper_wrong, outcome.either_wrong, outcome.ratio_alarms)
    assert [f"{share:.1%}" for share in shares] == published("guardrails", case.name)[2:]


def test_verdicts_on_logs_of_clusters(tmp_path: Path) -> None:
    printed = published("verdicts", "clusters")
    judged = verdicts.judged_logs("clusters", int(printed[0]), tmp_path)
    assert sum(each.sentences for each in judged) == int(printed[1])
    assert f"{np.mean([each.wrong > 0 for each in judged]):.1%}" == printed[2]
    assert f"{sum(each.covered for each in judged) / sum(each.intervals for each in judged):.1%}" == printed[5]


@pytest.mark.filterwarnings("ignore::glbandits.OutlierWarning")
def test_choices_after_an_absurd_reward() -> None:
    shares = outliers.after_reward(1e6, noise=0.3)
    assert [f"{share:.3f}" for share in shares] == published("outliers", "noise 0.3, 1e+06")[1::2]
