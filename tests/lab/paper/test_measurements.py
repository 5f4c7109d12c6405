from pathlib import Path

import pytest

from glbandits.lab.paper.runtime import RuntimeTable
from glbandits.lab.paper.whole_paper import RUNTIME, _MeasurementCache
from tests.lab.report.small_results import RUNTIME as TABLE


@pytest.mark.parametrize("damage", [b"", b'{"rows": [', b"{}", b"\xff\xfe"])
def test_damaged_measurement_file_is_measured_again(damage: bytes, tmp_path: Path) -> None:
    measured = []

    def measure() -> RuntimeTable:
        measured.append(1)
        return TABLE

    measurements = _MeasurementCache(tmp_path, quick=True)
    assert [measurements.get(RUNTIME, RuntimeTable, measure) for _ in range(2)] == [TABLE, TABLE]
    assert len(measured) == 1
    (path,) = tmp_path.glob("*.json")
    path.write_bytes(damage)
    assert [measurements.get(RUNTIME, RuntimeTable, measure) for _ in range(2)] == [TABLE, TABLE]
    assert len(measured) == 2
