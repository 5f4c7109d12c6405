"""A shop behind OpenFeature's Python provider: it learns, and its log evaluates without bias."""

from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext

from glbandits.evaluation import evaluate
from glbandits.evaluation.readers.service_export import read_export
from glbandits.service.export.loop_export import export_loop
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.http.servers.server_process import eventually
from tests.service.sdk.openfeature_flags import configure, flags_running, variants_of

pytestmark = [pytest.mark.system, pytest.mark.statistics]
USERS, LAST = 3_000, 500
CLICKS = {
    "student": {"plain": 0.1, "sale": 0.5, "new": 0.2},
    "parent": {"plain": 0.1, "sale": 0.2, "new": 0.5},
}
"""The probability of a click in each segment."""
VALUES = {variant: sum(clicks[variant] for clicks in CLICKS.values()) / len(CLICKS) for variant in CLICKS["parent"]}


class Visit(NamedTuple):
    """A user, and the variant that the user got."""

    segment: str
    variant: str

    @property
    def is_best(self) -> bool:
        """Whether no variant is better for the segment."""
        return CLICKS[self.segment][self.variant] == max(CLICKS[self.segment].values())


@pytest.fixture(scope="module", name="played")
def played_fixture(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Visit]]:
    """The store, and the visits of all users."""
    folder, rng, visits = tmp_path_factory.mktemp("shop"), Random(3), list[Visit]()
    with flags_running(folder) as server:
        settings: dict[str, Any] = {"rewardWait": "1s", "exploration": 0.1, "rewardRange": [0, 1]}
        configure(server, "banner", variants_of(plain=1, sale=2, new=3) | settings)
        provider = OFREPProvider(server.address, headers_factory=lambda: {"X-API-Key": str(server.key)})
        api.set_provider(provider)
        client = api.get_client()
        for number in range(USERS):
            segment, unit = rng.choice(list(CLICKS)), f"user-{number}"
            details = client.get_integer_details("banner", 0, EvaluationContext(unit, {"segment": segment}))
            assert details.error_code is None, details.error_message
            visits.append(Visit(segment, str(details.variant)))
            if rng.random() < CLICKS[segment][visits[-1].variant]:
                reward: dict[str, Any] = {"flag": "banner", "targetingKey": unit, "value": 1}
                headers = {"X-API-Key": str(server.key)}
                assert provider.session.post(f"{server.address}/v1/reward", json=reward, headers=headers).ok
        learned = "/loops/banner/v1/statistics"
        assert eventually(lambda: server.ask("GET", learned).json["learned"] == USERS)
        server.signal()
        assert server.wait() == 0
    return folder, visits


def test_the_flag_learns_the_best_variant_of_each_segment(played: tuple[Path, list[Visit]]) -> None:
    shares = [sum(visit.is_best for visit in part) / LAST for part in (played[1][:LAST], played[1][-LAST:])]
    assert shares[1] >= 0.8


def test_the_log_evaluates_without_bias(played: tuple[Path, list[Visit]], tmp_path: Path) -> None:
    """Four standard errors, three variants: a false alarm in one of 5,000 seeds."""
    store = SqliteStore(played[0] / "store.db")
    assert verify(store, "banner").sound
    export_loop(store, "banner", tmp_path / "log")
    store.close()
    log = read_export(tmp_path / "log", link="logistic")
    for variant, truth in VALUES.items():
        found = evaluate(log, f"arm:{variant}", ["ips"])["ips"]
        assert abs(found.value - truth) <= 4 * found.standard_error
        assert found.standard_error < 0.1
