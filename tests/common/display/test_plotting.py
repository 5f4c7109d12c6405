"""`plot` of results: draws on the given axes or on a new figure, and returns the axes."""

from collections.abc import Iterator

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from glbandits import Policy, Uniform
from glbandits.common.display.palette import COLOURS
from glbandits.evaluation import FixedArms, LoggedData, evaluate, play_log
from glbandits.lab import Synthetic, compare, simulate

PROBLEM = Synthetic(dim=2, arms=4)


@pytest.fixture(autouse=True)
def _no_display(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pyplot.switch_backend("agg")
    monkeypatch.setattr(pyplot, "show", lambda *_, **__: pytest.fail("plot() opened a window"))
    yield
    pyplot.close("all")


@pytest.fixture
def log() -> LoggedData:
    chosen = np.random.default_rng(1).integers(2, size=600)
    return LoggedData(
        chosen=chosen,
        rewards=chosen.astype(float),
        propensities=np.full(600, 0.5),
        arms=FixedArms(np.eye(2), rows=600),
        arm_names=("a", "b"),
        link="logistic",
    )


def test_simulation_plots_mean_regret_on_a_new_figure() -> None:
    result = simulate("uniform", PROBLEM, 30, 3, jobs=1)
    axes = result.plot()
    (line,) = axes.get_lines()
    np.testing.assert_array_equal(line.get_ydata(), result.mean)
    np.testing.assert_array_equal(line.get_xdata(), result.rounds)
    assert axes.get_figure().number in pyplot.get_fignums()
    assert to_hex(line.get_color()).upper() == COLOURS[0]


def test_simulation_of_one_seed_plots_without_a_band() -> None:
    axes = simulate("uniform", PROBLEM, 30, 1, jobs=1).plot()
    axes.get_figure().canvas.draw()
    assert axes.get_ylim()[0] == 0


def test_comparison_plots_each_policy_in_its_own_style() -> None:
    policies: dict[str, Policy | str] = {f"policy {i} $": Uniform() for i in range(9)}
    axes = Figure().subplots()
    assert compare(policies, PROBLEM, 20, 2, jobs=1).plot(ax=axes) is axes
    lines = axes.get_lines()
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 9
    assert not pyplot.get_fignums()
    axes.get_figure().savefig("/dev/null", format="png")  # a dollar sign must not start a formula


def test_evaluation_plots_every_estimate_and_the_log(log: LoggedData) -> None:
    evaluation = evaluate(log, "b", ["snips", "dr"])
    axes = evaluation.plot()
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["dr, at every n", "dr, at this n only", "snips"]
    points = [line.get_xdata()[0] for line in axes.get_lines() if line.get_marker() == "o"]
    assert points == pytest.approx([evaluation["dr"].value, evaluation["dr"].value, evaluation["snips"].value])
    assert axes.get_lines()[-1].get_xdata()[0] == evaluation.logged


def test_evaluation_without_an_interval_plots_the_value(log: LoggedData) -> None:
    axes = evaluate(log, "b", "ips").plot()
    axes.get_figure().canvas.draw()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["ips"]


def test_learning_curve_plots_the_mean_so_far(log: LoggedData) -> None:
    curve = play_log("uniform", log, seed=1)
    axes = curve.plot()
    np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), curve.at_values)
    assert axes.get_legend().get_texts()[0].get_text() == "uniform"


def test_every_plot_returns_axes_of_a_figure_that_can_be_saved(log: LoggedData) -> None:
    results = (
        simulate("uniform", PROBLEM, 30, 2, jobs=1),
        compare({"uniform": "uniform"}, PROBLEM, 20, 2, jobs=1),
        evaluate(log, "b", ["snips", "dr"]),
        play_log("uniform", log, seed=1),
    )
    for result in results:
        figure = result.plot().get_figure()
        assert isinstance(figure, Figure)
        figure.savefig("/dev/null", format="png")
