"""Errors of the service that are not about invalid input."""

from glbandits.common.errors import GlbanditsError


class StoreError(GlbanditsError):
    """The store failed. Nothing was changed, and nothing was acknowledged."""


class ReadTimeout(StoreError):
    """Reading the store took longer than the request may."""


class LeaseLost(StoreError):
    """This process was the learner, and another one has taken over."""


class QueueFull(GlbanditsError):
    """The write queue is full. The event was refused and not written; retry later."""


class LoopExists(GlbanditsError):
    """There is a loop of this name already."""


class UnknownLoop(GlbanditsError):
    """The server has no loop of this name."""
