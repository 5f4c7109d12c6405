"""Models that have learned rows of the log on which they are evaluated."""

from pathlib import Path

import numpy as np
import pytest

from glbandits import Bandit
from glbandits.bandit.training_rows import TrainingRowSums
from glbandits.common.errors import InvalidInput
from glbandits.evaluation import CrossedArms, FixedArms, LoggedData, evaluate, promotion, train
from glbandits.evaluation.comparison_result import ComparisonSettings, GateSettings
from glbandits.evaluation.estimators.seen_rows import first_new_row, seen_rows
from glbandits.evaluation.logs.log_slice import LogSlice
from glbandits.evaluation.logs.logged_data import chosen_features
from glbandits.evaluation.policy_comparison import compare_policies

pytestmark = pytest.mark.usefixtures("never_compile")


@pytest.fixture
def never_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLBANDITS_COMPILE", "never")


def drawn(seed: int, rows: int, *, categories: int = 0, arms: int = 3) -> LoggedData:
    """A log with a number as context, or with one of few categories."""
    rng = np.random.default_rng(seed)
    context = np.eye(categories)[rng.integers(0, categories, rows)] if categories else rng.normal(size=(rows, 2))
    return LoggedData(
        chosen=rng.integers(0, arms, rows),
        rewards=(rng.random(rows) < 0.2).astype(np.float64),
        propensities=np.full(rows, 1.0 / arms),
        arms=CrossedArms(context, np.eye(arms)),
        link="logistic",
    )


def trained(log: LoggedData) -> Bandit:
    """A Bandit with the sketch of `train`, without its time."""
    bandit, sums = Bandit("uniform", log.dim), TrainingRowSums()
    for block in log.blocks(1000):
        sums.add(chosen_features(block), block.rewards)
    bandit.training = sums.training_rows()
    return bandit


@pytest.mark.parametrize("categories", [0, 4])
def test_model_is_not_evaluated_on_its_training_rows(categories: int) -> None:
    log = drawn(0, 1000, categories=categories)
    model = train(log, "uniform", progress=lambda *_: None)
    for each in (model, Bandit.from_bytes(model.to_bytes()), model.copy()):
        with pytest.raises(InvalidInput, match="has learned 100%"):
            evaluate(log, each, "ips")
        with pytest.raises(InvalidInput, match="model has learned"):
            promotion(log, {"model": each})


@pytest.mark.parametrize("categories", [0, 2, 4])
def test_other_rows_with_equal_values_are_new(categories: int) -> None:
    """With two categories, three arms and two rewards, each row of one log equals many rows of the other."""
    model = trained(drawn(0, 3000, categories=categories))
    assert seen_rows(drawn(1, 3000, categories=categories), model) is None


def test_arms_without_context_are_told_apart_by_their_order() -> None:
    log = LoggedData(
        chosen=np.random.default_rng(2).integers(0, 2, 4000),
        rewards=(np.random.default_rng(3).random(4000) < 0.3).astype(np.float64),
        propensities=np.full(4000, 0.5),
        arms=FixedArms(np.eye(2), rows=4000),
    )
    model = trained(log[:2000])
    assert seen_rows(log[2000:], model) is None
    assert seen_rows(log[:2000], model) is not None


def test_rows_that_follow_the_training_rows_are_new() -> None:
    log = drawn(0, 3000)
    assert 1000 <= first_new_row(log, {"model": trained(log[:1000])}) <= 1010


def test_order_does_not_hide_training_rows() -> None:
    log = drawn(0, 3000)
    shuffled = log[np.random.default_rng(1).permutation(3000)]
    with pytest.raises(InvalidInput, match="on later rows"):
        first_new_row(shuffled, {"model": trained(log[:1500])})


def test_sketch_of_many_rows_is_small_and_finds_them() -> None:
    log = drawn(0, 20_000)
    model = trained(log[:15_000])
    assert model.training is not None
    assert len(model.training.hashes) == 4096
    assert 15_000 <= first_new_row(log, {"model": model}) <= 15_100


def test_rows_without_differences_have_no_sketch() -> None:
    rows = 3000
    log = LoggedData(
        chosen=np.zeros(rows, np.int64),
        rewards=np.zeros(rows),
        propensities=np.ones(rows),
        arms=FixedArms(np.eye(1), rows=rows),
    )
    assert trained(log).training is None


def test_comparison_uses_only_new_rows(tmp_path: Path) -> None:
    log = drawn(0, 1200)
    trained(log[:400]).save(tmp_path / "model")
    settings = ComparisonSettings(estimators=("ips",), gate=GateSettings())
    result = compare_policies(log, {"model": Bandit.load(tmp_path / "model"), "uniform": "uniform"}, settings)
    left_out = {policy.left_out_rows for policy in result.policies}
    assert len(left_out) == 1
    assert 400 <= left_out.pop() <= 410
    assert result.promotion is not None


def test_comparison_refuses_a_model_that_learned_all_rows() -> None:
    log = drawn(0, 3000)
    with pytest.raises(InvalidInput, match="model has learned 100%"):
        compare_policies(log, {"model": trained(log)}, ComparisonSettings(estimators=("ips",)))


def test_part_of_a_log_has_the_hashes_of_the_whole() -> None:
    log = drawn(0, 3000, categories=4)
    assert seen_rows(LogSlice(log, 1000, 2000), trained(log)) is not None
