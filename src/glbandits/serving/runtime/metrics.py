"""Figures of a server as Prometheus reads them.

The text is written here and not by prometheus_client, because every request would pay for that: the figures are in
docs/decisions/0012-plain-asgi.md. What was kept is not counted again: the store has it, and from before the last start.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from glbandits.serving.runtime.service import Service
from glbandits.version import __version__

METRICS_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""Seconds of a request, for the histogram."""


class Sample(NamedTuple):
    """One figure."""

    labels: dict[str, str]
    value: float
    suffix: str = ""


class Family(NamedTuple):
    """Figures of one name."""

    name: str
    kind: str
    help: str
    samples: Iterable[Sample]


def exposition(families: Iterable[Family]) -> str:
    r"""The text that Prometheus reads.

    >>> print(exposition([Family("glb_x", "gauge", "Of a loop.", [Sample({"loop": 'a"b'}, 2)])]), end="")
    # HELP glb_x Of a loop.
    # TYPE glb_x gauge
    glb_x{loop="a\"b"} 2
    """
    lines = []
    for family in families:
        lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
        for sample in family.samples:
            labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sample.labels.items())
            lines.append(f"{family.name}{sample.suffix}{f'{{{labels}}}' if labels else ''} {sample.value}")
    return "\n".join(lines) + "\n"


def labelled(families: Iterable[Family], **labels: str) -> list[Family]:
    """The same figures with more labels."""
    return [
        family._replace(samples=[one._replace(labels=one.labels | labels) for one in family.samples])
        for family in families
    ]


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Histogram:
    """How many values were at most so large. Belongs to one thread."""

    def __init__(self) -> None:
        self._counts, self._sum = [0] * (len(BOUNDS) + 1), 0.0

    def add(self, value: float) -> None:
        """One more value."""
        self._counts[bisect_left(BOUNDS, value)] += 1
        self._sum += value

    def samples(self, labels: dict[str, str]) -> Iterator[Sample]:
        """Its figures."""
        below = 0
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), self._counts, strict=True):
            below += count
            yield Sample({**labels, "le": bound}, below, "_bucket")
        yield Sample(labels, self._sum, "_sum")
        yield Sample(labels, below, "_count")


class RequestMetrics:
    """Requests by the scope of their route and the status of their response. Belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], int] = {}
        self._seconds: dict[str, Histogram] = {}

    def add(self, scope: str, status: int, seconds: float) -> None:
        """One more request."""
        self._counts[scope, status] = self._counts.get((scope, status), 0) + 1
        histogram = self._seconds.get(scope)
        if histogram is None:
            histogram = self._seconds[scope] = Histogram()
        histogram.add(seconds)

    def families(self) -> list[Family]:
        """Its figures, as they are now."""
        counts = [Sample({"scope": scope, "status": str(status)}, n) for (scope, status), n in self._counts.items()]
        seconds = [sample for scope, one in self._seconds.items() for sample in one.samples({"scope": scope})]
        return [
            Family("glb_requests_total", "counter", "Requests, by scope and status; 4xx and 5xx were refused.", counts),
            Family("glb_request_seconds", "histogram", "Seconds from a request to its response.", seconds),
        ]


def process_families(service: Service) -> Iterator[Family]:
    """Figures of a process: its models, its writer, its learner. Reads the store: not for the event loop's thread."""
    yield Family("glb_info", "gauge", "The version.", [Sample({"version": __version__}, 1)])
    yield from _of_models(service)
    counts = service.writer.counts
    yield Family("glb_queue_depth", "gauge", "Events that wait to be written.", [Sample({}, service.writer.depth)])
    commits = [Sample({}, counts.seconds, "_sum"), Sample({}, counts.batches, "_count")]
    yield Family("glb_commit_seconds", "summary", "Seconds of a commit.", commits)
    batches = [Sample({}, counts.events + counts.refused, "_sum"), Sample({}, counts.batches, "_count")]
    yield Family("glb_group_size", "summary", "Events of a commit.", batches)
    yield _counter("glb_write_errors_total", "Events that the store refused or failed to write.", counts.refused)
    yield _counter("glb_write_retries_total", "Times that decisions had to be written again.", counts.failures)
    yield _counter("glb_degraded_total", "Decisions returned before they were safe.", service.degraded)
    yield _counter("glb_learning_failures_total", "Times that learning failed.", service.learning_failures)


def _counter(name: str, meaning: str, value: float) -> Family:
    return Family(name, "counter", meaning, [Sample({}, value)])


def log_families(service: Service) -> Iterator[Family]:
    """Figures of the log, which all processes share. Reads the store."""
    summaries = {name: service.store.summary(name) for name in service.loops}
    for kind in ("decisions", "rewards", "activations"):
        samples = [
            Sample({"loop": name, "status": status.value}, count)
            for name, summary in summaries.items()
            for status, count in getattr(summary, kind).items()
        ]
        yield Family(f"glb_{kind}_total", "counter", f"{kind.title()} that came, by what became of them.", samples)


def _of_models(service: Service) -> Iterator[Family]:
    loops = service.loops.items()
    published = {name: loop.published for name, loop in loops}
    epochs = [Sample({"loop": name}, model.epoch) for name, model in published.items()]
    yield Family("glb_model_epoch", "gauge", "Times that the model was replaced.", epochs)
    numbers = [Sample({"loop": name}, model.sequence) for name, model in published.items()]
    yield Family("glb_model_number", "gauge", "The last decision that the model has learned or passed.", numbers)
    lags = [Sample({"loop": name}, loop.learning_lag()) for name, loop in loops]
    yield Family("glb_learning_lag_seconds", "gauge", "How long a decision has been ready to be learned.", lags)
