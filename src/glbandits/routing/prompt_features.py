"""From prompts to numbers: texts, rows of named values, or embeddings that the caller computes."""

import math
from typing import Any

import numpy as np

from glbandits.bandit.input_checks import as_floats, check_usable
from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput, check_int
from glbandits.features import FeatureMap
from glbandits.features.kinds.hashed_text import Text
from glbandits.features.kinds.numeric import Number

PROMPT_TEXT = FeatureMap(context={"prompt": Text(64), "length": Number(mean=5.0, scale=1.5)})
"""The default features: 64 hashed words, and the logarithm of the number of characters."""


class PromptFeatures:
    """Encodes prompts, with a constant first.

    Args:
        features: a FeatureMap of the fields of a prompt, or the number of numbers in an embedding.
    """

    def __init__(self, features: FeatureMap | int) -> None:
        is_map = isinstance(features, FeatureMap)
        self.features = features if is_map else check_int("features", features, at_least=1)
        self.dim = 1 + (self.features.dim if isinstance(self.features, FeatureMap) else self.features)

    def encode(self, prompts: Any) -> Floats:
        """Return the features of a sequence of prompts, (n, dim). Raises InvalidInput if a prompt does not fit."""
        if isinstance(self.features, FeatureMap):
            named = [_fields(prompt) for prompt in prompts] if isinstance(prompts, list | tuple) else prompts
            values = self.features.transform(named)
        else:
            values = as_floats("prompt", prompts)
            if values.ndim != 2 or values.shape[1] != self.features:
                raise InvalidInput(f"a prompt must be {self.features} numbers; got shape {values.shape[1:]}")
            check_usable("prompt", values)
        return np.hstack([np.ones((len(values), 1)), values])


def _fields(prompt: Any) -> Any:
    """Return the fields of `PROMPT_TEXT` for a text, and other prompts as they are."""
    return {"prompt": prompt, "length": math.log1p(len(prompt))} if isinstance(prompt, str) else prompt
