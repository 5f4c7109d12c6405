"""The log of a server on stderr: a line of text or JSON for each record."""

import logging
import sys
from datetime import UTC, datetime

import msgspec

from glbandits.service.server_settings import Settings

CONTROLS = {code: repr(chr(code))[1:-1] for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)}
"""Characters that could forge a line or control a terminal, and what is written instead."""


class TextFormatter(logging.Formatter):
    """Formats a record as timestamp, level, message and request id, with the traceback below.

    Control characters are escaped, because a message may contain text of a client.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        request = getattr(record, "request", "")
        message = f"{record.getMessage()}{f' [{request}]' if request else ''}".translate(CONTROLS)
        lines = [f"{_timestamp(record)} {record.levelname} {message}"]
        if record.exc_info is not None:
            # Indented, so that no line of a traceback looks like a record.
            lines += [f"  {line.translate(CONTROLS)}" for line in self.formatException(record.exc_info).split("\n")]
        return "\n".join(lines)


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields = {
            "at": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request := getattr(record, "request", ""):
            fields["request"] = request
        if record.exc_info is not None:
            fields["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields).decode()


FORMATS: dict[str, type[logging.Formatter]] = {"text": TextFormatter, "json": JsonFormatter}


def set_up_logging(settings: Settings) -> None:
    """Send all records to stderr, and remove other handlers of the root logger.

    At level info uvicorn logs warnings and errors only. psycopg logs errors only: it would warn at every attempt to
    connect, several times a second while the database is away. `FailureLog` logs the start and the end of that.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATS[settings.log_format]())
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    if settings.log_level == "info":
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
    if settings.log_level != "debug":
        logging.getLogger("psycopg").setLevel(logging.ERROR)


def _timestamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
