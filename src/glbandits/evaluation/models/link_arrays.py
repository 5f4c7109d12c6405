"""Apply the functions of a link to arrays of scores."""

from typing import Literal

from numba import types

from glbandits.common.arrays import Floats
from glbandits.compilation.entry_point import Recipe, entry_point
from glbandits.compilation.numba_support import VECTOR
from glbandits.maths.links import Link

Function = Literal["mean", "slope", "antiderivative"]


def apply_link(link: Link, function: Function, scores: Floats) -> Floats:
    """Return the mean, slope or antiderivative of each score, in a new array."""
    values = scores.copy(order="C")
    entry_point(in_place_recipe, link, function).compiled()(values.reshape(-1))
    return values


def in_place_recipe(link: Link, name: Function) -> Recipe:
    """Recipe of a function that replaces each score by its mean, slope or antiderivative."""
    function = getattr(link, name)

    def replace(scores: Floats) -> None:
        for index in range(scores.shape[0]):
            scores[index] = function(scores[index])

    return Recipe(replace, types.void(VECTOR), f"{name}, {link.name}", check_bounds=not link.built_in)
