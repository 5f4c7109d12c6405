"""Operations of a catalogue and its errors. tests/laws/test_catalogue.py tests its decisions."""

from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, Catalogue, InvalidInput, Optimist, SgdTs, cross_features
from glbandits.bandit import decider
from glbandits.bandit.arm_bounds import ArmRule, variance_update
from glbandits.common.arrays import Floats


@pytest.fixture
def catalogue() -> Catalogue:
    return Catalogue(["a", "b", "c"], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


def test_ids_and_features_keep_their_order(catalogue: Catalogue) -> None:
    catalogue.add(["d"], [[2.0, 2.0]])
    assert catalogue.ids == ("a", "b", "c", "d")
    assert list(catalogue) == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(catalogue.features, [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 2.0]])


def test_last_row_replaces_a_retired_row(catalogue: Catalogue) -> None:
    catalogue.retire(["a"])
    assert catalogue.ids == ("c", "b")
    assert "a" not in catalogue
    assert catalogue.row("c") == 0
    np.testing.assert_array_equal(catalogue["c"], [1.0, 1.0])


def test_all_arms_can_be_retired_and_others_added(catalogue: Catalogue) -> None:
    catalogue.retire(["b", "c", "a"])
    assert len(catalogue) == 0
    catalogue.add([7], [[0.5, 0.5]])
    assert Bandit(Optimist(), 2).choose_from(catalogue) == 7


def test_features_of_an_arm_are_a_copy(catalogue: Catalogue) -> None:
    x = catalogue["a"]
    catalogue.retire(["a"])
    np.testing.assert_array_equal(x, [1.0, 0.0])
    with pytest.raises(ValueError, match="read-only"):
        catalogue.features[0, 0] = 5.0


@pytest.mark.parametrize(
    ("ids", "features", "message"),
    [
        (["a"], [[1.0, 2.0]], "arm 'a' is in the catalogue already. Retire it first"),
        (["x", "x"], [[1.0, 2.0], [1.0, 2.0]], "ids must differ from each other; got 'x' twice"),
        (["x"], [[1.0, 2.0, 3.0]], r"features must have shape \(1, 2\), a row for each id; got \(1, 3\)"),
        (["x", "y"], [[1.0, 2.0]], r"features must have shape \(2, 2\)"),
        (["x"], [[1.0, np.nan]], "features must hold finite numbers"),
        ([["x"]], [[1.0, 2.0]], "an id must be text or a number, not list"),
        ("x", [[1.0, 2.0]], "ids must be a list of ids; got the text 'x'"),
    ],
)
def test_invalid_arms_are_an_error_and_change_nothing(
    catalogue: Catalogue, ids: Any, features: Any, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        catalogue.add(ids, features)
    assert catalogue.ids == ("a", "b", "c")


def test_retiring_an_unknown_arm_changes_nothing(catalogue: Catalogue) -> None:
    with pytest.raises(InvalidInput, match="no arm 'x' in the catalogue of 3 arms"):
        catalogue.retire(["a", "x"])
    assert len(catalogue) == 3


def test_catalogue_of_another_dimension_is_an_error(catalogue: Catalogue) -> None:
    with pytest.raises(InvalidInput, match="arms must have 3 features, as the bandit has; those of .*dim=2.* have 2"):
        Bandit(Optimist(), 3).choose_from(catalogue)


def test_decision_without_arms_is_an_error(catalogue: Catalogue) -> None:
    bandit = Bandit(Optimist(), 2)
    with pytest.raises(InvalidInput, match="at least one arm; got none of the 3"):
        bandit.choose_from(catalogue, excluded="abc")
    with pytest.raises(InvalidInput, match="no arm 'x'"):
        bandit.choose_from(catalogue, only=["x"])


def test_only_and_excluded_limit_the_choice(catalogue: Catalogue) -> None:
    bandit = Bandit(Optimist(), 2, seed=1)
    assert bandit.choose_from(catalogue, only=["c", "a"], excluded=["a", "unknown"]) == "c"
    probabilities = bandit.probabilities_from(catalogue, only=["c", "b"])
    np.testing.assert_array_equal(probabilities, [0.0, 0.5, 0.5])


def test_probabilities_without_an_exact_form_are_estimated(catalogue: Catalogue) -> None:
    bandit = Bandit(SgdTs(block_length=2, draw="decision", exploration_a1=0.5), 2, seed=1)
    for arm in ("a", "b"):
        bandit.learn(catalogue[arm], 1.0)
    assert bandit.exact_probabilities_from(catalogue) is None
    other = bandit.copy()
    np.testing.assert_array_equal(
        bandit.probabilities_from(catalogue, draws=50), other.probabilities(catalogue.features, draws=50)
    )


def test_few_variances_of_a_large_catalogue_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    contenders: list[int] = []
    variances: list[int] = []

    class Counting(Catalogue):
        def contenders(self, *arguments: Any) -> Any:
            variances.append(0)
            rows = super().contenders(*arguments)
            assert rows is not None
            contenders.append(len(rows))
            return rows

    def count(rule: ArmRule, features: Floats) -> Floats:
        variances[-1] += len(features)
        return compute(rule, features)

    compute = ArmRule.variances
    monkeypatch.setattr(ArmRule, "variances", count)
    rng = np.random.default_rng(0)
    catalogue = Counting(range(5000), rng.normal(size=(5000, 16)))
    bandit = Bandit(Optimist(), 16, seed=1)
    for _ in range(300):
        bandit.learn(catalogue[bandit.choose_from(catalogue)], float(rng.integers(2)))
    assert len(contenders) == 299  # the first decision is uniform
    assert np.median(contenders) < 20
    assert max(contenders) <= 256
    assert np.median(variances) < 20
    assert np.quantile(variances, 0.95) < 1000


def test_variance_updates_are_upper_bounds_and_tight_after_one_reward() -> None:
    rng, largest = np.random.default_rng(3), np.array([1.0, 1e3, 0.0])
    x = np.column_stack([rng.uniform(-1.0, 1.0, size=(50, 3)) * largest, np.ones(50)])
    units = np.array([1.0, 1e3, 1.0, 1.0])
    before = np.cov(rng.normal(size=(4, 9))) / np.outer(units, units)
    seen = before @ x[0]
    after_reward = before - np.outer(seen, seen) / (1.0 + x[0] @ seen)
    other = 0.3 * np.cov(rng.normal(size=(4, 9))) / np.outer(units, units)
    for after, is_tight in ((after_reward, True), (before, True), (1.1 * after_reward, False), (other, False)):
        update = variance_update(before, after, largest)
        if update is not None:
            growth, column, added = update
            bounds = growth * np.einsum("ij,jk,ik->i", x, before, x) - (x @ column) ** 2 + added
            variances = np.einsum("ij,jk,ik->i", x, after, x)
            assert (bounds >= variances).all()
            assert not is_tight or bounds == pytest.approx(variances, rel=1e-8)
    assert variance_update(before, 100.0 * before, largest) is None


def test_features_of_an_arm_in_a_context() -> None:
    catalogue = Catalogue(["a"], [[1.0, 2.0]], combine=cross_features)
    np.testing.assert_array_equal(catalogue.features_for("a", [3.0, 4.0]), [1.0, 2.0, 3.0, 4.0, 3.0, 4.0, 6.0, 8.0])
    np.testing.assert_array_equal(catalogue["a"], [1.0, 2.0])


def test_context_and_combine_require_each_other(catalogue: Catalogue) -> None:
    with pytest.raises(InvalidInput, match="must be None without combine; got 1"):
        Bandit(Optimist(), 2).choose_from(catalogue, 1.0)
    crossed = Catalogue(["a"], [[1.0]], combine=cross_features)
    with pytest.raises(InvalidInput, match="is required with combine; got None"):
        Bandit(Optimist(), 3).choose_from(crossed)


@pytest.mark.parametrize(
    ("combine", "message"),
    [
        (lambda features, context: features**2 + context, "combine must be linear in the features of an arm"),
        (lambda features, context: features[:1] + context, "combine must return .* rows, one for each arm"),
        (lambda features, context: features + np.nan * context, "must hold finite numbers"),
    ],
)
def test_invalid_combine_is_an_error(monkeypatch: pytest.MonkeyPatch, combine: Any, message: str) -> None:
    monkeypatch.setattr(decider, "WORTH_BOUNDS", 0.0)
    catalogue, bandit = Catalogue(range(9), np.arange(9.0)[:, np.newaxis], combine=combine), Bandit(Optimist(), 1)
    bandit.learn([1.0], 1.0)
    with pytest.raises(InvalidInput, match=message):
        bandit.choose_from(catalogue, [1.0])


def test_matrix_is_exact_for_features_absent_from_the_sample() -> None:
    rng = np.random.default_rng(1)
    slopes, constant = rng.normal(size=(100, 3)), 1e3 * rng.normal(size=3)
    scales = 10.0 ** rng.integers(-3, 4, size=100)
    catalogue = Catalogue(range(100), np.diag(scales), combine=lambda rows, _: rows @ slopes + constant)
    features = np.column_stack([catalogue.features, np.ones(100)]) @ catalogue.combining_matrix([0.0]).T
    np.testing.assert_allclose(features[:, :-1], catalogue.combined(catalogue.features, [0.0]), rtol=1e-13, atol=1e-12)


def test_combine_is_checked_for_features_absent_from_the_sample() -> None:
    catalogue = Catalogue(range(100), np.eye(100) * 2.0, combine=lambda rows, context: rows**2 + context)
    with pytest.raises(InvalidInput, match="It is not linear"):
        catalogue.combining_matrix([1.0])
