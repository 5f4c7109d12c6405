import os
from functools import partial

import numpy as np
import pytest

from glbandits.common.errors import InvalidInput
from glbandits.common.parallel import run_parallel


def end_process(number: int) -> None:
    if number == 1:
        os._exit(7)


def test_dead_worker_is_one_sentence() -> None:
    with pytest.raises(InvalidInput, match=r"^a worker process died \(EXIT\(7\)\): .* Use jobs=1") as caught:
        list(run_parallel(end_process, [0, 1], jobs=2))
    assert "\n" not in str(caught.value)


def add(array: np.ndarray, number: int) -> float:
    array += number
    return float(array[-1])


def test_worker_may_write_to_its_copy_of_a_large_array() -> None:
    array = np.zeros(500_000)
    found = dict(run_parallel(partial(add, array), [1, 2, 3], jobs=2))
    assert found == {0: 1.0, 1: 2.0, 2: 3.0}
    assert not array.any()
