import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.tree import DecisionTreeClassifier

from glbandits import InvalidInput
from glbandits.common.arrays import Floats
from glbandits.evaluation import Columns, LoggedData, RowArms, estimate_propensities, read_parquet, read_table
from glbandits.evaluation.logs.log_statistics import overlap_of
from glbandits.evaluation.models.propensity_models import EstimatedPropensities, least_estimate


def table(rows: int, seed: int = 1) -> tuple[dict[str, Any], Floats]:
    """A log whose policy used x only, and the probabilities of the chosen arms."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=rows), rng.normal(size=rows)
    scores = np.exp(np.stack([np.zeros(rows), x, 0.5 - x], axis=1))
    probabilities = scores / scores.sum(axis=1, keepdims=True)
    arms = (rng.random((rows, 1)) > np.cumsum(probabilities, axis=1)).sum(axis=1)
    columns = {"arm": arms, "reward": rng.random(rows), "x": x, "y": y, "user": np.arange(rows) // 3}
    return columns, probabilities[np.arange(rows), arms]


CONTEXT = Columns(propensity=None, context=("x", "y"))


def test_propensities_without_context_are_shares() -> None:
    log = read_table({"arm": ["a", "b", "b", "b"], "reward": [0, 1, 0, 1]}, Columns(propensity=None))
    with pytest.warns(EstimatedPropensities, match="the 4 chosen arms were estimated by the share"):
        done = estimate_propensities(log)
    assert done.propensities is not None
    assert done.propensities.tolist() == [0.25, 0.75, 0.75, 0.75]
    assert done.estimated
    assert log.propensities is None


def test_propensities_with_context_are_near_the_truth() -> None:
    """The model is correctly specified.

    It has 6 parameters, learned from 16,000 rows: its probabilities are wrong by about sqrt(6 / 16,000) / 4 = 0.005 on
    average. The margin is four times as much, which a right program does not reach.
    """
    columns, truth = table(20_000)
    with pytest.warns(EstimatedPropensities, match="multinomial logistic regression"):
        done = estimate_propensities(read_table(columns, CONTEXT))
    assert done.propensities is not None
    assert np.mean(np.abs(done.propensities - truth)) < 0.02
    assert np.mean(np.abs(np.mean(truth) - truth)) > 0.1  # what no model at all would do


def test_own_classifier_sees_what_a_linear_model_cannot() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=4000)
    truth = np.where(np.abs(x) < 0.7, 0.9, 0.2)
    columns = {"arm": (rng.random(4000) < truth).astype(int), "reward": rng.random(4000), "x": x, "y": x}
    log, classifier = read_table(columns, CONTEXT), DecisionTreeClassifier(min_samples_leaf=200, random_state=1)
    of_chosen, errors = np.where(log.chosen == 1, truth, 1 - truth), []
    for given in (None, classifier):
        with pytest.warns(EstimatedPropensities, match="DecisionTree" if given else "multinomial"):
            done = estimate_propensities(log, classifier=given)
        assert done.propensities is not None
        errors.append(np.mean(np.abs(done.propensities - of_chosen)))
    assert errors[1] < 0.05 < 0.2 < errors[0]
    assert not hasattr(classifier, "tree_")  # it is copied
    with pytest.raises(InvalidInput, match="classifier must have fit"):
        estimate_propensities(log, classifier="tree")


def test_features_of_a_transformer_are_a_context() -> None:
    x = np.linspace(-1.0, 1.0, 400)
    features = x[:, np.newaxis, np.newaxis] * np.eye(2)
    log = LoggedData(
        chosen=(x > 0.0).astype(np.int64),
        rewards=np.zeros(400),
        arms=RowArms(features, np.full(400, 2), same_arms=True),
    )
    with pytest.warns(EstimatedPropensities, match="multinomial logistic regression"):
        probabilities = estimate_propensities(log).probabilities
    assert probabilities is not None
    assert probabilities[-1, 1] > 0.9 > 0.1 > probabilities[0, 1]
    with pytest.raises(InvalidInput, match="same_arms needs 2 arms in each row; got 1"):
        RowArms(features, np.full(400, 1), same_arms=True)


def test_models_do_not_learn_the_clusters_they_predict() -> None:
    """The model of a cluster does not know an arm that only this cluster chose, so that its estimate is the bound."""
    columns, _ = table(300)
    columns["arm"][columns["user"] == 7] = 3
    with pytest.warns(UserWarning, match=r"the arm '3' \(3 rows\)"):
        log = read_table(columns, Columns(propensity=None, context=("x", "y"), cluster="user"))
    with pytest.warns(EstimatedPropensities, match="of the chosen arm in [36] rows"):
        done = estimate_propensities(log)
    assert done.propensities is not None
    assert (done.propensities[log.chosen == 3] <= least_estimate(300, arms=4)).all()


def test_small_estimates_are_raised_and_counted() -> None:
    """A deterministic policy: without the bound, the probabilities of other arms are below 1e-5."""
    x = np.random.default_rng(0).normal(size=2000)
    log = read_table({"arm": (x > 0).astype(int), "reward": x > 1, "x": x}, Columns(propensity=None, context=("x",)))
    with pytest.warns(EstimatedPropensities, match=r"Estimates below 0.015, .* of another arm in 1,\d\d\d rows"):
        probabilities = estimate_propensities(log).probabilities
    assert probabilities is not None
    bound = least_estimate(2000, arms=2)
    assert bound == pytest.approx(5 / (np.sqrt(2000) * np.log(2000)))
    assert bound / (1 + bound) <= probabilities.min() <= bound
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


def test_streamed_log_gets_the_same_propensities(tmp_path: Path) -> None:
    columns, _ = table(500)
    pl.DataFrame(columns).write_parquet(tmp_path / "log.parquet")
    with pytest.warns(EstimatedPropensities):
        whole = estimate_propensities(read_table(columns, CONTEXT))
    with pytest.warns(EstimatedPropensities):
        streamed = estimate_propensities(read_parquet(tmp_path / "log.parquet", CONTEXT))
    assert not isinstance(streamed, LoggedData)
    assert (len(streamed), streamed.dim, streamed.arm_names) == (500, whole.dim, whole.arm_names)
    blocks = list(streamed.blocks(64))
    assert all(block.estimated for block in blocks)
    together = np.concatenate([block.propensities for block in blocks if block.propensities is not None])
    assert whole.propensities is not None
    np.testing.assert_allclose(together, whole.propensities, rtol=1e-9)


def test_number_of_learned_rows_is_bounded() -> None:
    columns, truth = table(5000)
    with pytest.warns(EstimatedPropensities):
        done = estimate_propensities(read_table(columns, CONTEXT), max_rows=1000)
    assert done.propensities is not None
    assert np.mean(np.abs(done.propensities - truth)) < 0.08


def test_unsupported_logs_are_rejected() -> None:
    lists = {"arm": ["a", "b"], "arms": [["a"], ["a", "b"]], "reward": [0, 1]}
    with pytest.raises(InvalidInput, match="only if all rows have the same arms.*as a column"):
        estimate_propensities(read_table(lists, Columns(propensity=None, arms="arms")))
    with pytest.raises(InvalidInput) as caught:
        estimate_propensities(read_table(lists, Columns(propensity=None, arms="arms")))
    assert "direct method" not in str(
        caught.value
    )  # evaluate refuses a log without propensities whatever the estimator
    known = {"arm": ["a", "b"], "reward": [0, 1], "propensity": [0.5, 0.5]}
    with pytest.raises(InvalidInput, match="the log has propensities"):
        estimate_propensities(read_table(known, Columns()))
    one = {"arm": ["a"] * 20, "reward": [0.0] * 20, "x": list(range(20)), "y": [0] * 20}
    with pytest.raises(InvalidInput, match="at least two chosen arms outside of each fold"):
        estimate_propensities(read_table(one, CONTEXT))
    with pytest.raises(InvalidInput, match="folds must be a whole number of at least 2"):
        estimate_propensities(read_table(one, CONTEXT), folds=1)


def test_overlap_reports_small_propensities() -> None:
    rows = {"arm": ["a", "b", "b", "b"], "reward": [0, 1, 0, 1], "propensity": [0.001, 0.5, 0.6, 0.7]}
    overlap = overlap_of(read_table(rows, Columns(), arm_table={"name": ["a", "b", "c"]}))
    assert (overlap.rows, overlap.least, overlap.below, overlap.estimated) == (4, 0.001, 0.25, False)
    assert overlap.mean_inverse == pytest.approx((1000 + 1 / 0.5 + 1 / 0.6 + 1 / 0.7) / 4)
    assert overlap.never_chosen == ("c",)
    assert [said.split(":")[0] for said in overlap.warnings()] == [
        "25.0% of rows have a propensity below 0.01, the smallest is 0.001",
        "1 arms were never chosen, so the log has no evidence on them",
    ]
    with pytest.raises(InvalidInput, match="the log has no propensities"):
        overlap_of(read_table(rows, Columns(propensity=None)))


def test_overlap_of_an_empty_log_is_an_error() -> None:
    log = read_table({"arm": [0, 1], "reward": [0, 1], "propensity": [0.5, 0.5]}, Columns())
    with pytest.raises(InvalidInput, match="the log has no rows"):
        overlap_of(log[:0])


def test_log_with_good_overlap_has_no_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        overlap = overlap_of(read_table({"arm": [0, 1], "reward": [0, 1], "propensity": [0.5, 0.5]}, Columns()))
    assert overlap.warnings() == []
