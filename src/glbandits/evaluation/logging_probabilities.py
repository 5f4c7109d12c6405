"""Probabilities that the logging policy gave to all arms of a row: what they must be like."""

import numpy as np

from glbandits.errors import InvalidInput
from glbandits.evaluation.arm_features import ArmFeatures, RowArms
from glbandits.records import Floats, Ints

ROUNDING = 1e-5
"""Relative tolerance for probabilities that were written in single precision or with six digits."""


def check_probabilities(
    probabilities: Floats,
    arms: ArmFeatures,
    chosen: Ints,
    propensities: Floats | None,
    *,
    name: str = "probabilities",
    first: int = 0,
    mend: str = "",
) -> None:
    """Raise InvalidInput unless each row is a distribution over its arms that agrees with the propensities.

    `name`, `first` (the number of the first row) and `mend` (what to do about it) are for the error.
    """
    if probabilities.shape != (len(arms), arms.most):
        raise InvalidInput(
            f"{name} must have a row for each of the {len(arms)} rows and a column for each of the {arms.most} arms; "
            f"got shape {probabilities.shape}"
        )
    own = probabilities[np.arange(len(chosen)), chosen]
    within = (probabilities >= 0.0).all(axis=1)
    if isinstance(arms, RowArms):
        within &= ((probabilities == 0.0) | (np.arange(arms.most) < arms.counts[:, np.newaxis])).all(axis=1)
    wrong = {
        "be at least 0, and 0 beyond the arms of the row": ~within,
        "sum to 1 over all arms of the row": ~(np.abs(probabilities.sum(axis=1) - 1.0) <= ROUNDING),
        "be above 0 for the chosen arm": ~(own > 0.0),
    }
    if propensities is not None:
        wrong["equal the propensity for the chosen arm"] = ~(np.abs(own - propensities) <= ROUNDING * propensities)
    for need, rows in wrong.items():
        if rows.any():
            row = int(np.argmax(rows))
            got = f"{probabilities[row].tolist()!r:.80}, where arm {chosen[row]} was chosen"
            if propensities is not None:
                got += f" with propensity {propensities[row]}"
            raise InvalidInput(f"{name}, row {first + row}: they must {need}; got {got}{mend}")
