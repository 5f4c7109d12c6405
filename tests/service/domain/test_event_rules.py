import multiprocessing
import time

import pytest

from glbandits.service.domain.event_rules import new_event_id


def test_event_ids_are_hexadecimal_and_sorted_by_time() -> None:
    first = new_event_id()
    time.sleep(0.002)
    second = new_event_id()
    assert len(first) == len(second) == 32
    assert first < second
    assert abs(int(first[:12], 16) - time.time() * 1000) < 60_000


def test_event_ids_are_unique() -> None:
    # 80 random bits: two of 10,000 are the same once in 2e16 runs.
    assert len({new_event_id() for _ in range(10_000)}) == 10_000


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_event_ids_differ_after_a_fork() -> None:
    context = multiprocessing.get_context("fork")
    ids = context.SimpleQueue()
    child = context.Process(target=lambda: ids.put([new_event_id()[12:] for _ in range(3)]))
    child.start()
    there, here = ids.get(), [new_event_id()[12:] for _ in range(3)]
    child.join()
    assert not set(there) & set(here)
