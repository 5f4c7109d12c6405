"""The public names of the package.

`glbandits.__getattr__` imports this module on first use.
"""

from glbandits.bandit import Bandit, Catalogue, cross_features
from glbandits.errors import GlbanditsError, InvalidInput, MissingExtra, ModelFileError, UnknownName
from glbandits.features import FeatureMap
from glbandits.maths.links import LINKS, Link
from glbandits.maths.sparse_rows import SparseRows, as_sparse_rows
from glbandits.policies import *  # noqa: F403  (a new policy has to be listed only there)
from glbandits.policies import __all__ as _policies
from glbandits.policy import Coefficients, Outliers, OutlierWarning
from glbandits.version import __version__

__all__ = [
    "LINKS",
    "Bandit",
    "Catalogue",
    "Coefficients",
    "FeatureMap",
    "GlbanditsError",
    "InvalidInput",
    "Link",
    "MissingExtra",
    "ModelFileError",
    "OutlierWarning",
    "Outliers",
    "SparseRows",
    "UnknownName",
    "__version__",
    "as_sparse_rows",
    "cross_features",
]
__all__ += _policies
