"""What objects show as `repr` and in notebooks: short, true, escaped, and without reading files."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, FeatureMap, Optimist
from glbandits.common.display.displayed import percent
from glbandits.evaluation import (
    Columns,
    FixedArms,
    LoggedData,
    evaluate,
    evaluate_slates,
    play_log,
    promotion,
    read_csv,
    split,
    tune,
)
from glbandits.evaluation.readers.dsjson import read_dsjson
from glbandits.lab import Synthetic, compare, simulate
from glbandits.maths.links import LINKS

HOSTILE = "<script>alert(1)</script>"
PROBLEM = Synthetic(dim=2, arms=4)


def hostile_log(rows: int = 400) -> LoggedData:
    chosen = np.random.default_rng(1).integers(2, size=rows)
    return LoggedData(
        chosen=chosen,
        rewards=chosen.astype(float),
        probabilities=np.full((rows, 2), 0.5),
        arms=FixedArms(np.eye(2), rows=rows),
        link="logistic",
        arm_names=(HOSTILE, "b"),
    )


SHOWN: dict[str, Callable[[], Any]] = {
    "Bandit": lambda: Bandit("uniform", features=FeatureMap.learn([{HOSTILE: 1.0}, {HOSTILE: 2.0}], arm=(HOSTILE,))),
    "LoggedData": hostile_log,
    "LogSlice": lambda: split(hostile_log(), 0.5)[0],
    "Evaluation": lambda: evaluate(hostile_log(), HOSTILE, ["snips", "dr"]),
    "SlateEvaluation": lambda: evaluate_slates(replace(hostile_log(), clusters=np.arange(400) // 2), HOSTILE),
    "Promotion": lambda: promotion(hostile_log(1024), {HOSTILE: "uniform"}),
    "LearningCurve": lambda: play_log("uniform", hostile_log(), seed=1),
    "TuningResult": lambda: tune(["uniform", "greedy"], hostile_log(1000), seeds=1),
    "Simulation": lambda: simulate("uniform", PROBLEM, 20, 2, jobs=1),
    "SimulatedComparison": lambda: compare({HOSTILE: "uniform"}, PROBLEM, 20, 2, jobs=1),
}


@pytest.mark.parametrize("name", SHOWN)
def test_notebook_html_is_short_and_escaped(name: str) -> None:
    html = SHOWN[name]()._repr_html_()
    assert "<table>" in html
    assert len(html) < 4000
    assert "<script" not in html


@pytest.mark.parametrize("name", SHOWN)
def test_repr_is_short_and_names_no_address_in_memory(name: str) -> None:
    shown = repr(SHOWN[name]())
    assert len(shown) < 1500
    assert "0x" not in shown


def test_repr_of_a_log_in_a_file_does_not_read_the_file(tmp_path: Path) -> None:
    csv, dsjson = tmp_path / "log.csv", tmp_path / "log.dsjson"
    csv.write_text("arm,reward,propensity,age\na,0,0.5,3\nb,1,0.5,4\n")
    dsjson.write_text('{"c": {"_multi": [{"x": 1}, {"x": 2}]}, "a": [1, 2], "p": [0.5, 0.5], "_label_cost": 0}\n')
    logs = [read_csv(csv, Columns(context=("age",))), read_dsjson(dsjson)]
    csv.unlink()
    dsjson.unlink()
    assert repr(logs[0]) == "<TableLog: rows 2, arms 2, features 4, link logistic>"
    assert repr(logs[1]) == "<DsjsonLog: rows 1, arms up to 2, features 256, link identity>"


@pytest.mark.usefixtures("plain_python")
def test_name_of_a_link_of_the_user_is_escaped_in_html() -> None:
    html = Bandit(Optimist(link=replace(LINKS["logistic"], name=HOSTILE)), dim=3)._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html


def test_unusual_levels_are_not_rounded() -> None:
    log = LoggedData(
        chosen=np.array([0, 1]),
        rewards=np.array([0.0, 1.0]),
        propensities=np.array([0.5, 0.5]),
        arms=FixedArms(np.eye(2), rows=2),
        link="logistic",
    )
    assert "99.9% interval" in str(evaluate(log, "uniform", "ips", level=0.999))
    assert "At most 0.1% of such gates" in promotion(log, {"uniform": "uniform"}, alpha=0.001).guarantee
    assert [percent(level) for level in (0.5, 0.9, 0.95, 0.99)] == ["50%", "90%", "95%", "99%"]
