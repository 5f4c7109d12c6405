import numpy as np
import pytest

from glbandits.evaluation import Columns, read_table
from glbandits.evaluation.logs.arm_notes import arm_notes


def test_variants_and_rare_arms_are_named_with_their_rows() -> None:
    notes = arm_notes({"news": 4000, "News": 3, "shop": 3990, "old": 2}, "offer")
    assert len(notes) == 2
    assert "'news' (4,000 rows), 'News' (3 rows)" in notes[0]
    assert "frame['offer'].replace({'News': 'news'})" in notes[0]
    assert "the arm 'old' (2 rows)" in notes[1]


def test_arms_are_not_rare_if_most_arms_are() -> None:
    assert "the arm 'b' (4 rows)" in arm_notes({"a": 96, "b": 4}, "arm")[0]
    assert arm_notes({"a": 12, "b": 9, "c": 4}, "arm") == []
    assert arm_notes({f"item {index}": 1 + index % 15 for index in range(2000)}, "arm") == []


def test_reading_a_log_warns_of_variants_of_arms() -> None:
    arms = ["Café", "cafe", "tea", "tea"]
    with pytest.warns(UserWarning, match=r"'Café' \(1 row\), 'cafe' \(1 row\)"):
        log = read_table({"arm": arms, "reward": np.zeros(4), "propensity": np.full(4, 0.3)}, Columns())
    assert log.arm_names == ("Café", "cafe", "tea")
