"""The log of a server on stderr: a line of text or of JSON for each record."""

import logging
import sys
from datetime import UTC, datetime

import msgspec

from glbandits.serving.server_settings import Settings


class TextLines(logging.Formatter):
    """For people: when, how grave, what, and of which request."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and a traceback below it if there is one."""
        request = getattr(record, "request", "")
        line = f"{_timestamp(record)} {record.levelname} {record.getMessage()}{f' [{request}]' if request else ''}"
        return line if record.exc_info is None else f"{line}\n{self.formatException(record.exc_info)}"


class JsonLines(logging.Formatter):
    """For programs: an object on a line of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
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


FORMATS: dict[str, type[logging.Formatter]] = {"text": TextLines, "json": JsonLines}


def set_up_logging(settings: Settings) -> None:
    """Send all records to stderr, instead of where they went before.

    uvicorn logs warnings and errors only. psycopg logs errors only: it warns of every attempt to connect, several times
    a second while the database is away, and `FailureLog` tells when that begins and ends.
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
