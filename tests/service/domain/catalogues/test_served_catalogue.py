"""Arms in memory that the model cannot make features of: draws say so, and other arms take their place."""

import numpy as np
import pytest

from glbandits import Bandit, Optimist
from glbandits.common.errors import InvalidInput
from glbandits.features import FeatureMap, Number
from glbandits.service.domain.catalogues.catalogue_records import CatalogueArm, CatalogueQuery
from glbandits.service.domain.catalogues.served_catalogue import ServedCatalogue

UNUSABLE = CatalogueArm(1, "hat", 1, 0, "json", b'{"prize":3}')
RETIRED = CatalogueArm(1, "hat", 1, 2, "json", b'{"prize":3}')


@pytest.fixture(name="bandit")
def bandit_fixture() -> Bandit:
    return Bandit(Optimist(), features=FeatureMap(arm={"price": Number(mean=5.0, scale=2.0, missing="error")}))


@pytest.mark.parametrize(
    "usable",
    [
        CatalogueArm(2, "hat", 2, 0, "json", b'{"price":3}'),
        CatalogueArm(2, "hat", 2, 0, "dense", np.array([-1.0]).tobytes()),
    ],
)
def test_unusable_arms_raise_until_they_are_replaced(bandit: Bandit, usable: CatalogueArm) -> None:
    served = ServedCatalogue(bandit)
    served.apply(1, [UNUSABLE])
    assert served.numbers == {"hat": 1}
    with pytest.raises(InvalidInput, match="arms of the catalogue are unusable: row 0"):
        served.draw(bandit, CatalogueQuery(), 0.0, seed=1)
    served.apply(2, [RETIRED, usable])
    assert served.draw(bandit, CatalogueQuery(), 0.0, seed=1).actions == ("hat",)


def test_other_arms_do_not_repair_unusable_ones(bandit: Bandit) -> None:
    served = ServedCatalogue(bandit)
    served.apply(1, [UNUSABLE])
    served.apply(2, [CatalogueArm(2, "coat", 2, 0, "json", b'{"price":3}')])
    with pytest.raises(InvalidInput, match="Replace or delete them"):
        served.draw(bandit, CatalogueQuery(only=("coat",)), 0.0, seed=1)
    served.apply(3, [CatalogueArm(1, "hat", 1, 3, "json", b'{"prize":3}')])
    assert served.draw(bandit, CatalogueQuery(), 0.0, seed=1).actions == ("coat",)
