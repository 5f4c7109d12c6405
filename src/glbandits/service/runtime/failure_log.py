"""Log records of repeated failures: one at the start, and one at the end."""

import logging

from glbandits.service.domain.errors import StoreError


class FailureLog:
    """Logs when an activity starts to fail and when it works again, and nothing in between.

    The methods may be called from any thread. Each name must be used by one thread at a time.

    Args:
        log: the logger that gets the records.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self.failing: dict[str, str] = {}
        """The latest error of each activity that fails at the moment, by name."""

    def failed(self, name: str, error: BaseException) -> None:
        """Record a failure of the activity `name`, and log it if the last attempt did not fail.

        The log record has a traceback unless the error is a `StoreError`, whose message is enough.
        """
        if name not in self.failing:
            trace = None if isinstance(error, StoreError) else error
            self._log.error("%s failed and will be retried: %s", name, error, exc_info=trace)
        self.failing[name] = str(error) or type(error).__name__

    def succeeded(self, name: str) -> None:
        """Record a success of the activity `name`, and log it if the last attempt failed."""
        if name in self.failing:
            self._log.info("%s works again", name)
            del self.failing[name]
