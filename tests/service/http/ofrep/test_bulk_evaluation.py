"""The evaluation of all flags: caching, errors of single flags, and which decisions count."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from glbandits.service.domain.variants import Variant
from glbandits.service.export.loop_export import export_loop
from glbandits.service.runtime.replay.replay_verification import verify
from tests.service.http.ofrep.flag_site import COLOURS, PATH, FlagSite

pytestmark = pytest.mark.usefixtures("plain_python")
UNITS, SHOWN = 1_200, 0.4
CLICKS = {"red": 0.2, "green": 0.5, "blue": 0.8}


@pytest.fixture(name="site")
def site_fixture(tmp_path: Path) -> Iterator[FlagSite]:
    with FlagSite(tmp_path, loops=("colour", "size", "plain")) as site:
        site.configure("size", variants={"small": Variant(value=1), "large": Variant(value=2)})
        yield site
        assert verify(site.service.store, "colour").sound


def evaluate_all(site: FlagSite, unit: str, etag: str = "", **features: Any) -> Any:
    body = {"context": {"targetingKey": unit} | features}
    return site.ask("POST", PATH, body, headers={"if-none-match": etag} if etag else {})


def learned_decisions(site: FlagSite) -> int:
    site.learn()
    return int(site.ask("GET", "/loops/colour/v1/statistics").json()["learned"])


def test_all_flags_are_evaluated_and_cached(site: FlagSite) -> None:
    first = evaluate_all(site, "ann")
    assert [flag["key"] for flag in first.json()["flags"]] == ["colour", "size"]
    again = evaluate_all(site, "ann", first.headers["etag"])
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert evaluate_all(site, "ann").content == first.content
    assert evaluate_all(site, "bob", first.headers["etag"]).status_code == 200
    site.configure(variants=COLOURS | {"black": Variant(value="#000")})
    assert evaluate_all(site, "ann", first.headers["etag"]).status_code == 200


def test_a_flag_that_fails_has_an_error_among_the_others(site: FlagSite) -> None:
    site.configure("size", policy="lin-ucb", settings={}, width=32, reward_range=(0.0, 1.0))
    flags = evaluate_all(site, "ann", age=1e9).json()["flags"]
    assert flags[0]["value"] in {variant.value for variant in COLOURS.values()}
    assert (flags[1]["key"], flags[1]["errorCode"]) == ("size", "INVALID_CONTEXT")


@pytest.mark.parametrize(("context", "code"), [({}, "TARGETING_KEY_MISSING"), ([], "INVALID_CONTEXT")])
def test_a_bad_context_fails_as_a_whole(site: FlagSite, context: Any, code: str) -> None:
    reply = site.ask("POST", PATH, {"context": context})
    assert (reply.status_code, reply.json()["errorCode"], "key" in reply.json()) == (400, code, False)


def test_parameters_of_event_streams_are_accepted(site: FlagSite) -> None:
    path = f"{PATH}?flagConfigEtag=abc&flagConfigLastModified=1771622898"
    assert site.ask("POST", path, {"context": {"targetingKey": "ann"}}).status_code == 200


def test_a_bulk_evaluation_counts_only_when_its_flag_is_shown(site: FlagSite) -> None:
    flag = evaluate_all(site, "ann").json()["flags"][0]
    logged = site.event(flag)
    assert (logged["deferred"], logged["activatedAt"]) == (True, None)
    assert site.evaluate("ann") == flag
    assert site.event(flag)["activatedAt"] is not None
    assert site.decisions() == 1
    evaluate_all(site, "bob")
    assert learned_decisions(site) == 1


def test_a_reward_alone_does_not_make_a_decision_count(site: FlagSite) -> None:
    flag = evaluate_all(site, "ann").json()["flags"][0]
    event_id = flag["metadata"]["eventId"]
    assert site.ask("POST", "/loops/colour/v1/reward", {"eventId": event_id, "value": 1}).status_code == 200
    assert learned_decisions(site) == 0


@pytest.mark.statistics
def test_evaluations_that_are_never_shown_do_not_bias_the_log(site: FlagSite, tmp_path: Path) -> None:
    """The bound of 0.17 is at least four standard errors of a mean: a false alarm in one of 5,000 runs."""
    rng = Random(1)
    site.configure(exploration=1.0)
    evaluated: Counter[str] = Counter()
    for number in range(UNITS):
        flag = evaluate_all(site, f"u{number}").json()["flags"][0]
        evaluated[flag["variant"]] += 1
        if rng.random() < SHOWN:
            assert site.evaluate(f"u{number}") == flag
            clicked = float(rng.random() < CLICKS[flag["variant"]])
            reward = {"flag": "colour", "targetingKey": f"u{number}", "value": clicked}
            assert site.ask("POST", "/v1/reward", reward).status_code == 200
    site.learn()
    export_loop(site.service.store, "colour", tmp_path / "log")
    rows = pl.concat(map(pl.read_parquet, (tmp_path / "log").glob("*.parquet")))
    assert len(rows) == pytest.approx(SHOWN * UNITS, rel=0.2)
    for variant, truth in CLICKS.items():
        shown = rows.filter(pl.col("actions").list.get(pl.col("arm")) == variant)
        assert shown["reward"].mean() == pytest.approx(truth, abs=0.17)
        assert shown["reward"].sum() / evaluated[variant] < 0.6 * truth  # with those that nobody saw, as failures
