import json
import logging
import sys

import pytest

from glbandits.service.runtime.logging_setup import JsonFormatter, TextFormatter


def record(*, request: str = "", failed: bool = False) -> logging.LogRecord:
    error = None
    if failed:
        try:
            raise RuntimeError("a disk\nis away")
        except RuntimeError:
            error = sys.exc_info()
    made = logging.LogRecord("glbandits.x", logging.WARNING, "file", 1, "%s went %s", ("it", 'wr"ong'), error)
    made.created = 1_700_000_000.25
    if request:
        made.request = request
    return made


def test_text_lines_have_time_level_and_message() -> None:
    assert TextFormatter().format(record()) == '2023-11-14T22:13:20.250Z WARNING it went wr"ong'
    assert TextFormatter().format(record(request="r-1")).endswith('it went wr"ong [r-1]')
    lines = TextFormatter().format(record(failed=True)).splitlines()
    assert lines[1] == "  Traceback (most recent call last):"
    assert lines[-2:] == ["  RuntimeError: a disk", "  is away"]


def test_control_characters_are_escaped_in_text_lines() -> None:
    made = record(request="r\n1")
    made.args = ("\x1b[2J", "on\r\n2023-11-14T22:13:20.250Z INFO forged\u2028\x85")
    assert TextFormatter().format(made) == (
        r"2023-11-14T22:13:20.250Z WARNING \x1b[2J went on\r\n2023-11-14T22:13:20.250Z INFO forged\u2028\x85 [r\n1]"
    )


@pytest.mark.parametrize("failed", [True, False])
def test_json_records_are_one_line(failed: bool) -> None:
    line = JsonFormatter().format(record(request="r-1", failed=failed))
    assert "\n" not in line
    expected = json.loads(line)
    assert "a disk\nis away" in expected.pop("error") if failed else "error" not in expected
    assert expected == {
        "at": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "glbandits.x",
        "message": 'it went wr"ong',
        "request": "r-1",
    }
