"""Problems without a maximum likelihood estimate."""

import numpy as np
import pytest

SEPARABLE = np.array([[1.0, 0.2], [2.0, -0.3], [-1.0, 0.5], [-3.0, 0.1]])
LABELS = np.array([1.0, 1.0, 0.0, 0.0])


without_an_estimate = pytest.mark.parametrize(
    ("X", "y", "link"),
    [
        (SEPARABLE, LABELS, "logistic"),
        (SEPARABLE, LABELS, "probit"),
        (np.abs(SEPARABLE), np.ones(4), "logistic"),
        (np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([1.0, 0.0, 1.0, 1.0]), "logistic"),
        (np.abs(SEPARABLE), np.zeros(4), "log"),
        (np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]), np.array([0.0, 1.0, 0.0]), "logistic"),
        (np.array([[1.0, 2.0]]), np.array([1.0]), "identity"),
        (np.zeros((5, 2)), np.array([1.0, 0.0, 1.0, 0.0, 1.0]), "logistic"),
    ],
    ids=[
        "separable",
        "probit",
        "one class",
        "quasi-separable",
        "no counts",
        "collinear",
        "too few rows",
        "zero features",
    ],
)
