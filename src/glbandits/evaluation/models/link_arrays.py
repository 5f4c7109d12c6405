"""The functions of a link, of all scores in an array."""

from typing import Literal

from numba import types

from glbandits.compilation import Recipe, entry_point
from glbandits.maths.links import Link
from glbandits.numba_support import VECTOR
from glbandits.records import Floats

Function = Literal["mean", "slope", "antiderivative"]


def of_scores(link: Link, function: Function, scores: Floats) -> Floats:
    """Return the mean, slope or antiderivative of each score: a new array of the same shape."""
    values = scores.copy(order="C")
    entry_point(in_place_recipe, link, function).compiled()(values.reshape(-1))
    return values


def in_place_recipe(link: Link, name: Function) -> Recipe:
    """A function that replaces each score by its mean, slope or antiderivative."""
    function = getattr(link, name)

    def replace(scores: Floats) -> None:
        for index in range(scores.shape[0]):
            scores[index] = function(scores[index])

    return Recipe(replace, types.void(VECTOR), f"{name}, {link.name}", check_bounds=not link.built_in)
