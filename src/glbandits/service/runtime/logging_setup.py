"""The log of a server on stderr: a line of text or JSON for each record."""

import logging
import sys
from datetime import UTC, datetime

import msgspec

from glbandits.service.server_settings import Settings


class TextFormatter(logging.Formatter):
    """Formats a record as timestamp, level, message and request id, with the traceback below."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        request = getattr(record, "request", "")
        line = f"{_timestamp(record)} {record.levelname} {record.getMessage()}{f' [{request}]' if request else ''}"
        return line if record.exc_info is None else f"{line}\n{self.formatException(record.exc_info)}"


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
