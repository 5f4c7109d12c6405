"""A server that begins with a trained model: its feature map reads the fields of requests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from glbandits import Bandit, InvalidInput, Optimist
from glbandits.evaluation import Columns, open_log, train
from glbandits.features import Category, FeatureMap
from glbandits.features.kinds.hashed_text import Hashed
from glbandits.policies import GlmTsl
from glbandits.service.domain.model_snapshots import FirstModel
from glbandits.service.export.loop_export import export_loop
from glbandits.service.http.start_message import example_request
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.server_settings import Settings
from tests.service.http.served_site import ServedSite

pytestmark = pytest.mark.usefixtures("plain_python")

ARM_TABLE = {"offer": ["hat", "shoe"], "price": [20.0, 80.0]}


def log(arm_table: Any = None) -> Any:
    """The young take hats, the old take shoes."""
    rng = np.random.default_rng(1)
    age, chosen = rng.integers(18, 80, 400), rng.integers(2, size=400)
    clicked = (age > 45) == (chosen == 1)
    table = {"offer": np.array(["hat", "shoe"])[chosen], "age": age, "click": clicked, "propensity": np.full(400, 0.5)}
    columns = Columns(arm="offer", reward="click", context=("age",))
    return open_log(table, columns, link="logistic", arm_table=arm_table)


@pytest.fixture(name="path")
def path_fixture(tmp_path: Path) -> Path:
    train(log(), Optimist(link="logistic")).save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


@pytest.fixture(name="site")
def site_fixture(tmp_path: Path, path: Path) -> Iterator[ServedSite]:
    with ServedSite(tmp_path, first_model=FirstModel.load(str(path))) as site:
        yield site


def rank(site: ServedSite, event_id: str, age: Any) -> Any:
    actions = [{"id": name, "features": [{"offer": name}]} for name in ("hat", "shoe")]
    content = {"eventId": event_id, "contextFeatures": [{"age": age}], "actions": actions}
    return site.ask("POST", "/personalizer/v1.0/rank", content)


def test_requests_are_ranked_by_the_trained_model(site: ServedSite) -> None:
    for age, best in ((20, "hat"), (70, "shoe")):
        reply = rank(site, f"age {age}", age)
        assert reply.status_code in (200, 201), reply.text
        probabilities = {one["id"]: one["probability"] for one in reply.json()["ranking"]}
        assert probabilities[best] == pytest.approx(0.9)  # 0.2 of the decisions are random


def test_rows_and_context_use_the_feature_map(site: ServedSite) -> None:
    rows = [{"offer": "hat"}, {"offer": "shoe"}]
    made = site.ask("POST", "/v1/decide", {"context": {"age": 70}, "rows": rows}).json()
    assert made["probabilities"][1] == pytest.approx(0.9)
    whole = site.ask("POST", "/v1/decide", {"rows": [{**row, "age": 20} for row in rows]}).json()
    assert whole["probabilities"][0] == pytest.approx(0.9)
    for content in ({"rows": rows, "arms": [[1.0]]}, {"context": {"age": 3}}, {}):
        reply = site.ask("POST", "/v1/decide", content)
        assert reply.status_code == 400
        assert "send either arms, a list of numbers for each arm, or rows" in reply.text
    reply = site.ask("POST", "/v1/decide", {"rows": rows * 26})
    assert "a decision may have 50 rows; got 52" in reply.text


def test_an_id_that_contradicts_the_arm_column_is_refused(site: ServedSite) -> None:
    message = "action 1 has the id 'shoe', but its field 'offer' names the arm 'hat'. Send the same name in both"
    actions = [{"id": "hat", "features": [{"offer": "hat"}]}, {"id": "shoe", "features": [{"offer": "hat"}]}]
    for reply in (
        site.ask("POST", "/personalizer/v1.0/rank", {"contextFeatures": [{"age": 3}], "actions": actions}),
        site.ask("POST", "/v1/decide", {"rows": [{"age": 3}, {"age": 3, "offer": "hat"}], "ids": ["hat", "shoe"]}),
    ):
        assert reply.status_code == 400
        assert message in reply.text
    actions = [{"id": "hat", "features": [{"offer": " hat"}]}, {"id": "shoe ", "features": [{"offer": "shoe"}]}]
    reply = site.ask("POST", "/personalizer/v1.0/rank", {"contextFeatures": [{"age": 3}], "actions": actions})
    assert reply.status_code == 201


def test_rows_without_ids_get_the_names_of_their_arms(site: ServedSite) -> None:
    rows = [{"offer": "hat", "age": 20}, {"offer": "shoe", "age": 20}]
    made = site.ask("POST", "/v1/decide", {"eventId": "named", "rows": rows}).json()
    assert made["id"] == ("hat", "shoe")[made["arm"]]
    logged = site.service.store.decision("default", "named", "")
    assert logged is not None
    assert logged.decision.actions == ("hat", "shoe")
    variants = [{"offer": "hat", "age": 20}, {"offer": "hat", "age": 70}]
    made = site.ask("POST", "/v1/decide", {"rows": variants}).json()
    assert made["id"] == str(made["arm"])


def test_a_decision_with_the_same_arm_twice_is_refused(site: ServedSite) -> None:
    def refused(path: str, content: Any) -> str:
        reply = site.ask("POST", path, {"eventId": "twice"} | content)
        assert reply.status_code == 400
        assert site.service.store.decision("default", "twice", "") is None
        return reply.text.replace('\\"', '"')

    message = "actions 0 and 1 are the same arm, 'hat', with equal fields. Send each arm of a decision once"
    hats = [{"offer": "hat", "age": 20}, {"offer": " hat", "age": 20}]
    assert message in refused("/v1/decide", {"rows": hats})
    assert message in refused("/v1/decide", {"rows": [{"age": 20}, {"age": 20}], "ids": ["hat", "hat "]})
    assert "ids must be unique" in refused("/v1/decide", {"rows": hats, "ids": ["hat", "hat"]})
    actions = [{"id": name, "features": [{"x": 1}]} for name in ("hat", "hat ")]
    rank = "/personalizer/v1.0/rank"
    assert message in refused(rank, {"contextFeatures": [{"age": 20}], "actions": actions})
    assert "'hat' was sent twice" in refused(rank, {"contextFeatures": [{"age": 20}], "actions": actions[:1] * 2})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"rows": [{"offer": "coat", "age": 3}]},
            "column 'offer', row 0: the value must be one of 'hat', 'shoe'; got 'coat'",
        ),
        ({"rows": [{"offer": "hat", "agee": 3}]}, "row 0 has the unknown field 'agee'; did you mean 'age'"),
        (
            {"rows": [{"offfer": "hat", "age": 3}]},
            "row 0 has the unknown field 'offfer'; did you mean 'offer'? Send 'offer'",
        ),
        ({"rows": [{"offer": "hat"}, {}], "context": {"age": 3}}, "row 1 has no column 'offer'. Send 'offer'"),
        ({"rows": [{"offer": "hat", "age": "old"}]}, "column 'age', row 0: the value must be a number; got 'old'"),
    ],
)
def test_unusable_fields_are_named(site: ServedSite, content: Any, message: str) -> None:
    reply = site.ask("POST", "/v1/decide", content)
    assert reply.status_code == 400
    assert message in reply.json()["error"]["message"] if "error" in reply.json() else message in reply.text


@pytest.mark.parametrize("shared", [{"Age": 70}, {}])
def test_rank_without_a_known_field_is_refused(site: ServedSite, shared: Any) -> None:
    content = {"contextFeatures": [shared], "actions": [{"id": "hat", "features": [{"offer": "hat"}]}]}
    reply = site.ask("POST", "/personalizer/v1.0/rank", content)
    assert reply.status_code == 400
    assert "'age'" in reply.text


def test_the_loop_learns_and_can_be_replayed(site: ServedSite, tmp_path: Path) -> None:
    loop = site.service.loop("default")
    before = loop.published.bandit.state
    for number in range(20):
        rank(site, f"event {number}", 20)
        site.ask("POST", f"/personalizer/v1.0/events/event {number}/reward", {"value": 1.0})
    site.now += 10**10
    assert loop.learn() == 20
    assert (loop.published.bandit.state != before).any()
    assert loop.published.set_aside == 0
    verified = verify(site.service.store, "default")
    assert (verified.decisions, verified.different) == (20, 0)
    assert export_loop(site.service.store, "default", tmp_path / "export").rows == 20
    assert pl.read_parquet(tmp_path / "export/*.parquet")["features"][0][0].len() == loop.published.bandit.dim
    loop.configure(loop.configuration, reset_model=True)
    assert loop.published.bandit.features is not None
    assert rank(site, "after", 70).status_code in (200, 201)


def test_explanations_show_the_names_of_features(site: ServedSite) -> None:
    rank(site, "event", 70)
    explained = site.ask("GET", "/v1/events/event/explanation").json()
    hat = explained["slots"][0]["actions"][0]
    names = {one["feature"] for one in hat["contributions"]}
    assert {"offer=hat", "age * offer=hat"} <= names
    assert sum(one["contribution"] for one in hat["contributions"]) == pytest.approx(hat["score"])


def test_a_model_file_is_used_for_new_loops_only(tmp_path: Path, path: Path) -> None:
    with ServedSite(tmp_path) as site:
        assert site.service.loop("default").published.bandit.features is None
    with ServedSite(tmp_path, first_model=FirstModel.load(str(path))) as site:
        assert site.service.loop("default").published.bandit.features is None


def test_a_policy_without_exact_probabilities_cannot_be_served(tmp_path: Path) -> None:
    Bandit(GlmTsl(), dim=2).save(tmp_path / "model.safetensors")
    with pytest.raises(InvalidInput, match="stores all past rewards|no exact probabilities"):
        FirstModel.load(str(tmp_path / "model.safetensors"))


def test_the_printed_example_works(tmp_path: Path, path: Path) -> None:
    described = train(log(ARM_TABLE), Optimist(link="logistic"))
    described.save(tmp_path / "described.safetensors")
    for number, model in enumerate((path, tmp_path / "described.safetensors")):
        folder = tmp_path / f"store {number}"
        folder.mkdir()
        with ServedSite(folder, first_model=FirstModel.load(str(model))) as site:
            given = example_request(Settings(store=str(folder / "new.db"), model=str(model)))
            stored = example_request(Settings(store=str(folder / "events.db")))  # a restart without --model
            assert given == stored
            assert stored["actions"][0]["features"] != stored["actions"][1]["features"]
            reply = site.ask("POST", "/personalizer/v1.0/rank", stored)
            assert reply.status_code in (200, 201), reply.text


@pytest.mark.parametrize(
    ("arm", "rows"),
    [
        ({"offer": Category(("hat", "shoe"))}, [{"offer": "hat"}, {"offer": "shoe"}]),
        ({"offer": Hashed(8), "price": "number"}, [{"offer": "hat", "price": 1}, {"offer": "shoe", "price": 2}]),
        ({"price": "number"}, [{"offer": "hat", "price": 1}, {"offer": "shoe", "price": 2}]),
    ],
)
def test_decisions_have_the_names_of_the_arm_column(tmp_path: Path, arm: Any, rows: Any) -> None:
    features = FeatureMap(arm=arm, context={"age": "number"})
    Bandit(Optimist(), features=features).save(tmp_path / "model.safetensors")
    with ServedSite(tmp_path, first_model=FirstModel.load(str(tmp_path / "model.safetensors"))) as site:
        decided = site.ask("POST", "/v1/decide", {"rows": rows, "context": {"age": 20}}).json()
        assert decided["id"] == rows[decided["arm"]]["offer"]
