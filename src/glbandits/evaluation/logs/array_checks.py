"""Checks of the arrays of `LoggedData`."""

from collections.abc import Mapping

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.arm_features import ArmFeatures, check_array, check_int_array

PROBABILITY_ROUNDING = 1e-5
"""Relative tolerance for probabilities that were written in single precision or with six digits."""


def check_chosen(chosen: Ints, arms: ArmFeatures) -> None:
    """Raise InvalidInput unless each row chose one of its arms."""
    wrong = (chosen < 0) | (chosen >= arms.counts)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInput(
            f"chosen must be the index of an arm in its row, 0 to {arms.counts[row] - 1} in row {row}; "
            f"got {chosen[row]}"
        )


def checked_proposed(proposed: Mapping[str, Ints], arms: ArmFeatures) -> Mapping[str, Ints]:
    """Return the indices of proposed arms. Raises InvalidInput unless each is that of an arm of its row, or -1."""
    checked = {name: check_int_array(f"proposed[{name!r}]", indices) for name, indices in proposed.items()}
    for name, indices in checked.items():
        if len(indices) != len(arms) or (indices < -1).any() or (indices >= arms.counts).any():
            raise InvalidInput(
                f"proposed[{name!r}] must have the index of an arm of the row, or -1, for each of the {len(arms)} rows"
            )
    return checked


def check_known_propensities(propensities: Floats) -> None:
    """Raise InvalidInput unless all propensities are above 0 and at most 1."""
    wrong = ~((propensities > 0.0) & (propensities <= 1.0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInput(
            f"propensities must be above 0 and at most 1; got {propensities[row]} in row {row} "
            f"({int(wrong.sum())} such rows in all). If they are unknown, leave propensities out and call "
            "glbandits.evaluation.estimate_propensities"
        )


def check_probabilities(
    probabilities: Floats,
    arms: ArmFeatures,
    chosen: Ints,
    propensities: Floats | None,
    *,
    name: str = "probabilities",
    first_row: int = 0,
    advice: str = "",
) -> None:
    """Raise InvalidInput unless each row is a distribution that fits its propensity.

    Error messages contain `name`, row numbers that start at `first_row`, and `advice`.
    """
    if probabilities.shape != (len(arms), arms.max_arms):
        raise InvalidInput(
            f"{name} must have shape ({len(arms)}, {arms.max_arms}): rows and arms; got shape {probabilities.shape}"
        )
    own = probabilities[np.arange(len(chosen)), chosen]
    within = (probabilities >= 0.0).all(axis=1)
    if not arms.same_arms:
        within &= ((probabilities == 0.0) | (np.arange(arms.max_arms) < arms.counts[:, np.newaxis])).all(axis=1)
    wrong = {
        "be at least 0, and 0 beyond the arms of the row": ~within,
        "sum to 1 over all arms of the row": ~(np.abs(probabilities.sum(axis=1) - 1.0) <= PROBABILITY_ROUNDING),
        "be above 0 for the chosen arm": ~(own > 0.0),
    }
    if propensities is not None:
        differences = np.abs(own - propensities)
        wrong["equal the propensity for the chosen arm"] = ~(differences <= PROBABILITY_ROUNDING * propensities)
    for need, rows in wrong.items():
        if rows.any():
            row = int(np.argmax(rows))
            got = f"{probabilities[row].tolist()!r:.80}, where arm {chosen[row]} was chosen"
            if propensities is not None:
                got += f" with propensity {propensities[row]}"
            raise InvalidInput(f"{name}, row {first_row + row}: the probabilities must {need}; got {got}{advice}")


def checked_payoffs(
    values: Floats | None, costs: Floats | None, arms: ArmFeatures
) -> tuple[Floats, Floats] | tuple[None, None]:
    """Return values and costs, (n, max_arms); None and None without values. Raises InvalidInput for invalid ones."""
    if values is None:
        if costs is not None:
            raise InvalidInput("costs needs values: what a reward of 1 is worth, for each arm", field="values")
        return None, None
    shape, checked = (len(arms), arms.max_arms), list[Floats]()
    for name, given in (("values", values), ("costs", np.zeros(shape) if costs is None else costs)):
        of_arms = arms.same_arms and np.ndim(given) == 1
        numbers = check_array(name, given, 1 if of_arms else 2)
        if numbers.shape != (shape[1:] if of_arms else shape):
            raise InvalidInput(
                f"{name} must have a number for each arm of each row, shape {shape}; got shape {numbers.shape}",
                field=name,
            )
        checked.append(np.broadcast_to(numbers, shape))
    wrong = checked[0] < 0.0
    if wrong.any():
        row, arm = map(int, np.argwhere(wrong)[0])
        raise InvalidInput(
            f"values must be at least 0; got {checked[0][row, arm]:g} for arm {arm} of row {row}. Write a loss as a "
            "cost",
            field="values",
        )
    return checked[0], checked[1]
