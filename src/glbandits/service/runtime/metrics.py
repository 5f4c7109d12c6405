"""Metrics of a server for Prometheus.

Totals of events come from the store, which counts them in the transaction that writes them. So they are exact across
restarts and servers.
"""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from glbandits.common.version import __version__
from glbandits.service.domain.events import Group
from glbandits.service.runtime.service import Service

MODEL_GAUGES = {
    "glb_model_epoch": "The number of times that the model was replaced.",
    "glb_model_number": "The sequence number of the last decision that the model has learned.",
    "glb_learning_lag_seconds": "For how long the oldest settled decision has not been learned.",
    "glb_set_aside": "Decisions that cannot be learned: unusable rewards or features, or an invalid model.",
    "glb_outlying_rewards": "Rewards that the model has limited, because they were far from all others.",
    "glb_outlying_values": "Feature values that the model has limited, for the same reason.",
}


class ServiceMetrics(Collector):
    """Collects the metrics of a service. `collect` reads the store, so it may block."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> list[Metric]:
        """Return nothing, so that registration does not read the store."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        yield from self._of_log()
        info = GaugeMetricFamily("glb_info", "The version of glbandits.", labels=("version",))
        info.add_metric((__version__,), 1)
        yield info
        yield GaugeMetricFamily("glb_learner", "Whether this server learns.", value=self._service.learns())
        yield from self._of_models()
        yield from self._of_guardrails()
        yield from self._of_writer()

    def _of_log(self) -> Iterator[Metric]:
        summaries = {name: self._service.store.summary(name) for name in self._service.loops}
        for kind in ("decisions", "rewards", "activations", "metrics"):
            family = CounterMetricFamily(f"glb_{kind}", f"{kind.title()} by status.", labels=("loop", "status"))
            for name, summary in summaries.items():
                for status, count in getattr(summary, kind).items():
                    family.add_metric((name, status.value), count)
            yield family

    def _of_models(self) -> Iterator[Metric]:
        families = [GaugeMetricFamily(name, meaning, labels=("loop",)) for name, meaning in MODEL_GAUGES.items()]
        for name, loop in self._service.loops.items():
            model, outliers = loop.published, loop.published.bandit.outliers
            of_model = (model.epoch, model.learned_through, loop.learning_lag(), model.set_aside)
            for family, value in zip(families, (*of_model, outliers.rewards, outliers.values), strict=True):
                family.add_metric((name,), value)
        yield from families

    def _of_guardrails(self) -> Iterator[Metric]:
        alarm = GaugeMetricFamily("glb_guardrail_alarm", "Whether a guardrail has acted.", labels=("loop", "metric"))
        fallback = GaugeMetricFamily("glb_fallback", "Whether a guardrail has stopped the loop.", labels=("loop",))
        units = GaugeMetricFamily("glb_units", "Units that are counted, by group.", labels=("loop", "group"))
        for name, loop in self._service.loops.items():
            fallback.add_metric((name,), loop.guardrails.fallback)
            for metric, comparison in loop.guardrails.state.metrics.items():
                alarm.add_metric((name, metric), comparison.alarm is not None)
            counted = loop.guardrails.state.largest()
            for group, number in zip((Group.TREATMENT, Group.CONTROL), counted.assigned, strict=True):
                units.add_metric((name, group), number)
        yield from (alarm, fallback, units)

    def _of_writer(self) -> Iterator[Metric]:
        service, counts = self._service, self._service.writer.counts
        yield GaugeMetricFamily("glb_queue_depth", "Events that wait to be written.", value=service.writer.depth)
        for name, meaning, total in (
            ("glb_commit_seconds", "Duration of a commit, in seconds.", counts.seconds),
            ("glb_batch_size", "Events in a commit.", counts.events + counts.failed_events),
        ):
            yield SummaryMetricFamily(name, meaning, count_value=counts.batches, sum_value=total)
        retries = "Batches whose decisions were retried after a failure of the store."
        for name, meaning, value in (
            ("glb_write_errors", "Events that the store failed to write.", counts.failed_events),
            ("glb_write_retries", retries, counts.retried_batches),
            ("glb_degraded", "Decisions returned before they were durable.", service.degraded),
            ("glb_learning_failures", "Failures of learning.", service.learning_failures),
        ):
            yield CounterMetricFamily(name, meaning, value=value)
