"""Requests that change the configuration of a loop keep the changes of other processes."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from glbandits.service.domain.groups.experiment import MetricSettings
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.http.personalizer import personalizer_site
from tests.service.http.v1 import v1_site


@pytest.mark.parametrize(
    ("method", "path", "sent"),
    [
        ("PATCH", "/v1/configuration", {"defaultReward": -1.0}),
        ("PUT", "/personalizer/v1.0/configurations/service", {"defaultReward": -1.0}),
    ],
)
def test_a_request_keeps_changes_of_another_process(
    tmp_path: Path, method: str, path: str, sent: dict[str, Any]
) -> None:
    site_class = personalizer_site.Site if "personalizer" in path else v1_site.Site
    with site_class(tmp_path) as site, closing(SqliteStore(tmp_path / "events.db")) as store:
        other = Loop("default", store, site.service.clock)
        other.configure(replace(other.configuration, exploration=0.5))
        before = other.configuration
        assert site.ask(method, path, sent).status_code == 200
        other.refresh()
        assert other.configuration.exploration == 0.5
        assert other.configuration != before


def test_a_metric_that_another_process_has_just_declared_is_accepted(tmp_path: Path) -> None:
    with v1_site.Site(tmp_path) as site, closing(SqliteStore(tmp_path / "events.db")) as store:
        site.decide(eventId="e")
        other = Loop("default", store, site.service.clock)
        other.configure(replace(other.configuration, metrics={"ms": MetricSettings(range=(0.0, 1.0))}))
        sent = {"eventId": "e", "metrics": {"ms": 1}}
        assert site.ask("POST", "/v1/metrics", sent).json()["statuses"] == {"ms": "accepted"}
