"""The record of explanations that the clients also use, so this module does not import NumPy."""

import msgspec


class Contribution(msgspec.Struct, frozen=True):
    """The contribution of one feature to the score of an action."""

    feature: str
    """The name in the feature map or in the request (see `Hashing.named_features`); "x[0]", "x[1]" ... in a dense
    request; "intercept"; or "other features (n)" for the n features that are not listed."""
    value: float | None
    """The value in the request; 1 for the intercept, None for other features."""
    contribution: float
