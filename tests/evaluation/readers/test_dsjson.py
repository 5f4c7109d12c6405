import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glbandits import InvalidInput
from glbandits.evaluation import RowArms, open_log
from glbandits.evaluation.readers import dsjson
from glbandits.evaluation.readers.dsjson import DsjsonCounts, read_dsjson
from glbandits.features import Hashing

EVENT: dict[str, Any] = {
    "_label_cost": -1,
    "_label_probability": 0.8,
    "_label_Action": 2,
    "_labelIndex": 1,
    "o": [{"EventId": "e", "v": 1.0}],
    "Timestamp": "2019-08-13T20:40:28.788Z",
    "Version": "1",
    "EventId": "e",
    "a": [2, 1, 3],
    "c": {
        "User": [{"tier": "pro"}, {"age": 31}],
        "_synthetic": False,
        "_multi": [{"_tag": "n", "i": {"id": "news"}}, {"i": {"id": "sports"}}, {"i": {"id": "music"}}],
    },
    "p": [0.8, 0.1, 0.1],
    "VWState": {"m": "x"},
}
SHORT = EVENT | {
    "a": [1],
    "p": [1.0],
    "_label_Action": 1,
    "_label_probability": 1.0,
    "_label_cost": 0.0,
    "c": {"_multi": [{"i": {"id": "news"}}]},
}
DANGLING = {"RewardValue": 1.0, "EnqueuedTimeUtc": "2019-08-13T20:40:28.788Z", "EventId": "f"}


def written(folder: Path, *events: dict[str, Any]) -> Path:
    """A file with a line for each event, each with an id of its own."""
    path = folder / "log.dsjson"
    path.write_text("".join(json.dumps(event | {"EventId": f"e{line}"}) + "\n" for line, event in enumerate(events)))
    return path


def test_decisions_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, EVENT, DANGLING, SHORT, EVENT | {"_skipLearn": True})
    log = read_dsjson(path, hashing=Hashing(32, seed=3), link="logistic")
    assert log.counts == DsjsonCounts(decisions=2, others=1, not_activated=1)
    assert (len(log), log.dim, log.arm_names) == (2, 32, None)
    (block,) = log.blocks()
    assert isinstance(block.arms, RowArms)
    assert block.chosen.tolist() == [1, 0]
    assert block.rewards.tolist() == [1.0, 0.0]
    assert not np.signbit(block.rewards).any()
    assert block.propensities is not None
    assert block.propensities.tolist() == [0.8, 1.0]
    assert block.probabilities is not None
    assert block.probabilities.tolist() == [[0.1, 0.8, 0.1], [1.0, 0.0, 0.0]]
    assert block.arms.counts.tolist() == [3, 1]
    shared, actions = (
        {"User": {"tier": "pro", "age": 31}},
        [{"i": {"id": name}} for name in ("news", "sports", "music")],
    )
    np.testing.assert_array_equal(block.features()[0], Hashing(32, seed=3).vectors(shared, actions))
    assert not block.features()[1, 1:].any()


def test_each_iteration_reads_the_same_rows(tmp_path: Path) -> None:
    log = open_log(written(tmp_path, *[EVENT, SHORT, EVENT] * 4))
    for size in (1, 5, 100):
        blocks = list(log.blocks(size))
        assert {block.arms.max_arms for block in blocks} == {3}
        assert np.concatenate([block.chosen for block in blocks]).tolist() == [1, 0, 1] * 4
        assert max(map(len, blocks)) <= size


def test_line_without_all_probabilities_drops_them(tmp_path: Path) -> None:
    (block,) = read_dsjson(written(tmp_path, EVENT, EVENT | {"a": [2, 1], "p": [0.8, 0.1]})).blocks()
    assert block.probabilities is None
    assert block.propensities is not None
    assert block.propensities.tolist() == [0.8, 0.8]


def test_labels_replace_a_missing_ranking(tmp_path: Path) -> None:
    event = {name: value for name, value in EVENT.items() if name not in ("a", "p")}
    (block,) = read_dsjson(written(tmp_path, event)).blocks()
    assert block.chosen.tolist() == [1]
    assert block.propensities is not None
    assert block.propensities.tolist() == [0.8]


def test_rounded_probabilities_are_accepted(tmp_path: Path) -> None:
    (block,) = read_dsjson(written(tmp_path, EVENT | {"_label_probability": 0.800000012})).blocks()
    assert block.propensities is not None
    assert block.propensities.tolist() == [0.8]


def test_decisions_are_read_in_the_order_of_their_times(tmp_path: Path) -> None:
    times = [f"2019-08-13T20:40:{second:02}.788Z" for second in (40, 10, 30, 20)]
    path = written(tmp_path, *(EVENT | {"Timestamp": time, "_label_cost": -i} for i, time in enumerate(times)))
    log = read_dsjson(path)
    for size in (2, 100):
        blocks = list(log.blocks(size, start=1))
        assert [reward for block in blocks for reward in block.rewards] == [3.0, 2.0, 0.0]
        assert sum(block.features().shape[0] for block in blocks) == 3
    without = read_dsjson(written(tmp_path, EVENT, *({**EVENT, "_label_cost": -7, "Timestamp": None},)))
    assert without.read().rewards.tolist() == [1.0, 7.0]


def test_decision_with_two_lines_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, EVENT, SHORT, EVENT)
    path.write_text(path.read_text().replace("e2", "e0"))
    with pytest.raises(InvalidInput, match="each decision once, but 1 of 3 repeat an EventId"):
        read_dsjson(path)


def test_blocks_without_features_do_not_encode_the_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, encoded, encode = read_dsjson(written(tmp_path, EVENT, SHORT)), list[str](), dsjson._as_json

    def listen(value: Any) -> str:
        encoded.append(encode(value))
        return encoded[-1]

    monkeypatch.setattr(dsjson, "_as_json", listen)
    (block,) = log.blocks(features=False)
    assert block.rewards.tolist() == [1.0, 0.0]
    assert encoded
    assert not any("User" in text for text in encoded)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"_label_cost": None}, "_label_cost must be a number between .*; got None"),
    ({"_label_cost": -1e51}, "_label_cost must be a number between .*; got -1e.51"),
    ({"a": [4, 1], "_label_Action": 4}, "the first of a must be an action from 1 to 3; got 4"),
    ({"a": [1, 2, 3]}, "_label_Action must be the first of a, 1; got 2"),
    ({"p": [0.0, 1.0]}, "the first of p must be a probability above 0 and at most 1; got 0.0"),
    ({"p": [0.8, 0.2]}, "a and p must have as many entries.*; got 3 and 2"),
    ({"p": [0.8, 0.1, 0.2]}, r"p must sum to 1 over the 3 actions; got .0.8, 0.1, 0.2."),
    ({"a": [2, 1, 1]}, "a must rank each of the 3 actions once"),
    ({"c": {"_multi": [{}, {}]}}, "at most the 2 actions of _multi"),
    ({"_label_probability": 0.80001}, "_label_probability must be the first of p, 0.8; got 0.80001"),
    ({"a": ["2", "1", "3"]}, r"Expected `int`, got `str` - at `\$.a"),
    ({"c": {"x": 1}}, "c must be an object with a non-empty list of actions"),
    ({"c": {"_multi": [{}], "_slots": []}, "a": [1], "_label_Action": 1}, "a decision for several slots"),
    ({"_label_cost": 3}, "a reward under the logistic link must be"),
    ({"pdrop": 0.5}, "pdrop must be the same on all lines.* got 0.5 after 0.0"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_invalid_lines_are_reported_on_opening(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = written(tmp_path, EVENT, DANGLING, EVENT | change)
    with pytest.raises(InvalidInput, match=f"line 3 of log.dsjson: .*{message}"):
        read_dsjson(path, link="logistic")


def test_invalid_features_are_reported_on_reading(tmp_path: Path) -> None:
    log = read_dsjson(written(tmp_path, EVENT, EVENT | {"c": {"x": ["text"], "_multi": [{}, {}, {}]}}))
    with pytest.raises(InvalidInput, match="line 2 of log.dsjson: shared features: x"):
        list(log.blocks())


def test_invalid_json_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(EVENT) + "\n\n" + json.dumps(EVENT)[:40])
    with pytest.raises(InvalidInput, match="line 3 of log.json: .*truncated"):
        open_log(path)
    path.write_text("[1]\n")
    with pytest.raises(InvalidInput, match="line 1 of log.json: the line must be a JSON"):
        read_dsjson(path)
    path.write_text(json.dumps(DANGLING))
    with pytest.raises(InvalidInput, match="must have decisions; got 1 other lines and 0"):
        open_log(path)
    with pytest.raises(InvalidInput, match="there is no such file"):
        read_dsjson(tmp_path / "none.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "c", "p", "_multi"]), inner),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([*EVENT, "pdrop", "_skipLearn"]), JSON), max_size=2))
def test_mutated_lines_are_read_or_rejected_with_a_message(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, Any]]
) -> None:
    path = written(tmp_path_factory.mktemp("log"), EVENT, EVENT | dict(changes))
    said = ""
    try:
        rows = sum(map(len, read_dsjson(path).blocks()))
    except InvalidInput as error:
        said, rows = str(error), 0
    assert rows in (1, 2) or "line 2 of log.dsjson" in said
