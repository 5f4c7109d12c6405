from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, Optimist
from glbandits.evaluation import SparseArms, evaluate, open_log, play_log, train
from glbandits.evaluation.readers.dsjson import DsjsonLog, read_dsjson
from glbandits.features import Hashing
from tests.evaluation.sparse_data import as_dense, write_dsjson

pytestmark = pytest.mark.filterwarnings("ignore:the effective sample size of")


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not compile: compiling a policy takes longer than all of these tests."""
    monkeypatch.setenv("GLBANDITS_COMPILE", "never")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dsjson(tmp_path_factory.mktemp("log") / "log.dsjson", 100)


def test_wide_logs_are_sparse_by_default(path: Path) -> None:
    def is_sparse(width: int, **settings: Any) -> bool:
        return open_log(path, hashing=Hashing(width), **settings).sparse

    assert not is_sparse(4096)
    assert is_sparse(4097)
    assert is_sparse(64, sparse=True)
    assert not is_sparse(4097, sparse=False)


def test_sparse_rows_equal_dense_vectors(path: Path) -> None:
    vectors, rows = (next(iter(opened(path, 64, sparse=thin).blocks())) for thin in (False, True))
    assert isinstance(rows.arms, SparseArms)
    np.testing.assert_array_equal(as_dense(rows.arms.every_arm(), 64), vectors.features()[vectors.arm_mask])
    np.testing.assert_array_equal(rows.probabilities, vectors.probabilities)


def test_sparse_estimates_equal_dense_estimates(path: Path) -> None:
    values = []
    for thin, policy in ((False, Optimist(covariance="diagonal")), (True, Optimist())):
        log = opened(path, 64, sparse=thin)
        bandit = train(log, policy)
        bandit.training = None
        found = evaluate(log, bandit, ("ips", "snips"))
        values.append([play_log(policy, log, seed=3).value, *(each.value for each in found.estimates)])
    np.testing.assert_allclose(values[1], values[0], rtol=1e-9)


def test_cost_depends_on_nonzero_features_only(path: Path) -> None:
    log = opened(path, 2**24)
    bandit = train(log, Optimist(floor=0.1))
    bandit.training = None
    found = evaluate(log, bandit, ("ips", "snips", "dr"))
    # The best choice earns 0.8, the log 0.5, and the floor costs 0.03; 100 rows have a standard error of 0.06.
    assert all(0.6 < each.value < 0.95 for each in found.estimates)
    assert bandit.state.size < 1000
    narrow = evaluate(opened(path, 2**10, sparse=True), bandit_of(path, 2**10), ("ips", "snips"))
    np.testing.assert_allclose(
        [each.value for each in found.estimates[:2]], [each.value for each in narrow.estimates], atol=0.02
    )


def test_block_size_does_not_change_the_rows(path: Path) -> None:
    log = opened(path, 2**20)
    parts = [block.arms.every_arm() for block in log.blocks(7) if isinstance(block.arms, SparseArms)]
    (whole,) = (block.arms.every_arm() for block in log.blocks() if isinstance(block.arms, SparseArms))
    assert len(parts) == 15
    np.testing.assert_array_equal(np.concatenate([part.indices for part in parts]), whole.indices)


def opened(path: Path, width: int, **settings: Any) -> DsjsonLog:
    return read_dsjson(path, hashing=Hashing(width), link="logistic", **settings)


def bandit_of(path: Path, width: int) -> Bandit:
    bandit = train(opened(path, width, sparse=True), Optimist(floor=0.1))
    bandit.training = None
    return bandit
