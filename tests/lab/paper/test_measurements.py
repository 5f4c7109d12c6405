from pathlib import Path

import pytest

from glbandits.lab.paper.runtime import RuntimeTable
from glbandits.lab.paper.whole_paper import RUNTIME, _cached
from tests.lab.report.small_results import RUNTIME as TABLE


@pytest.mark.parametrize("damage", [b"", b'{"rows": [', b"{}", b"\xff\xfe"])
def test_damaged_measurement_file_is_measured_again(damage: bytes, tmp_path: Path) -> None:
    measured = []

    def measure() -> RuntimeTable:
        measured.append(1)
        return TABLE

    assert [_cached(tmp_path, RUNTIME, RuntimeTable, measure, quick=True) for _ in range(2)] == [TABLE, TABLE]
    assert len(measured) == 1
    (path,) = tmp_path.glob("*.json")
    path.write_bytes(damage)
    assert [_cached(tmp_path, RUNTIME, RuntimeTable, measure, quick=True) for _ in range(2)] == [TABLE, TABLE]
    assert len(measured) == 2
