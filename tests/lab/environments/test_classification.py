import numpy as np
import pytest
from sklearn.datasets import load_wine

from glbandits import InvalidInput, UnknownName
from glbandits.lab import ClassificationTable
from glbandits.lab.environments import Environment
from glbandits.lab.environments import classification as module
from tests.lab.environments.rounds import all_rounds

FEATURES = np.array([[1.0, 10.0], [2.0, 30.0], [3.0, 20.0], [6.0, 40.0]])
LABELS = np.array([5, 2, 5, 9])
SMALL = ClassificationTable(features=FEATURES, labels=LABELS)


def test_row_is_in_the_block_of_the_class_and_right_class_pays() -> None:
    assert isinstance(SMALL, Environment)
    assert (SMALL.classes, SMALL.block, SMALL.dim) == (3, 3, 9)
    rounds = all_rounds(SMALL, 200, seed=1)
    standard = (FEATURES - FEATURES.mean(axis=0)) / FEATURES.std(axis=0) / np.sqrt(2)
    for arms, expected in zip(rounds.arms, rounds.expected, strict=True):
        blocks = arms.reshape(3, 3, 3)
        shown = blocks[0, 0]
        (row,) = np.flatnonzero(np.isclose(standard, shown[:2]).all(axis=1))
        np.testing.assert_array_equal(blocks, np.einsum("ab,f->abf", np.eye(3), shown))
        assert shown[2] == 1.0
        assert expected.tolist() == (np.array([2, 5, 9]) == LABELS[row]).astype(float).tolist()
    np.testing.assert_array_equal(rounds.payoffs, rounds.expected)


def test_rows_are_drawn_uniformly() -> None:
    shares = all_rounds(SMALL, 4000, seed=2).expected.mean(axis=0)
    np.testing.assert_allclose(shares, [0.25, 0.5, 0.25], atol=0.04)  # five standard errors


def test_rewards_do_not_depend_on_the_noise() -> None:
    rounds = all_rounds(SMALL, 300, seed=3)
    for expected, noise in zip(rounds.expected, rounds.noise, strict=True):
        assert [SMALL.noise.reward(mean, noise) for mean in expected] == expected.tolist()


def test_constant_column_becomes_zeros() -> None:
    problem = ClassificationTable(features=[[7.0, 1.0], [7.0, 2.0]], labels=["a", "b"])
    assert (all_rounds(problem, 20, seed=1).arms.reshape(20, 2, 2, 3)[:, :, :, 0] == 0.0).all()


def test_scikit_learn_tables_are_loaded_by_name() -> None:
    features, labels = load_wine(return_X_y=True)
    wine = ClassificationTable.bundled("wine")
    assert wine.fingerprint() == ClassificationTable(features=features, labels=labels).fingerprint()
    sizes = {name: ClassificationTable.bundled(name).dim for name in module.BUNDLED}
    assert sizes == {"iris": 15, "wine": 42, "breast-cancer": 62, "digits": 650}
    with pytest.raises(UnknownName, match="unknown table 'irs'; did you mean 'iris'"):
        ClassificationTable.bundled("irs")


def test_different_tables_have_different_fingerprints() -> None:
    others = [
        ClassificationTable(features=FEATURES + 1.0, labels=LABELS),
        ClassificationTable(features=FEATURES, labels=LABELS[::-1]),
    ]
    assert len({problem.fingerprint() for problem in [SMALL, *others]}) == 3
    # Renaming the classes changes nothing.
    assert SMALL.fingerprint() == ClassificationTable(features=FEATURES, labels=["b", "a", "b", "c"]).fingerprint()


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        ([1.0, 2.0], [0, 1], r"features must be finite numbers of at most 1e\+50, \(rows, columns\); got shape \(2,\)"),
        (np.empty((0, 3)), [], "features must be finite numbers"),
        ([[1.0], [2.0]], [4, 4], "at least two classes"),
    ],
)
def test_invalid_tables_are_rejected(features: object, labels: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ClassificationTable(features=features, labels=labels)  # type: ignore[arg-type]
