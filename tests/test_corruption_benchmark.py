"""The table of the benchmark of false rewards."""

import pytest
from benchmarks.corruption import PROBLEMS, report


def test_quick_report_prints_every_policy(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("optimist", "pg-ts", "uniform")
    problems = {title: PROBLEMS[title] for title in ("one-hot arms, K=10, .5 and .3", "identity link, d=8, K=20")}
    report(names, problems, seeds=range(2), rounds=10)
    printed = capsys.readouterr().out.splitlines()
    assert [line[:24].strip() for line in printed[-4:]] == [
        "optimist, auto",
        "optimist",
        "pg-ts (1 of 2)",
        "uniform",
    ]
    assert [line.count("+-") for line in printed[-4:]] == [10, 10, 4, 10]
    assert printed[-3].split()[1:] == ["1.00+-0.00"] * 10
