"""What the service refuses, beyond wrong values."""

from glbandits.errors import GlbanditsError


class StoreError(GlbanditsError):
    """The store could not do it: nothing that was asked for has changed, and nothing was acknowledged."""


class QueueFull(GlbanditsError):
    """More events are waiting to be written than may. This one was refused, not dropped: send it again later."""


class UnknownLoop(GlbanditsError):
    """There is no loop of this name."""


class VersionConflict(GlbanditsError):
    """Somebody else has made another version since the one that was named. Nothing has changed."""
