import pytest

from glbandits.features.kinds.near_duplicates import near_duplicates


def test_variants_are_found() -> None:
    counts = {
        "Zürich": 900,
        "zurich": 800,
        "news": 700,
        "nwes": 7,
        "travel": 500,
        "travl": 3,
        "New-York": 90,
        "newyork": 2,
    }
    assert near_duplicates(counts) == [
        ("Zürich", "zurich"),
        ("news", "nwes"),
        ("travel", "travl"),
        ("New-York", "newyork"),
    ]


def test_an_error_in_a_variant_belongs_to_the_same_group() -> None:
    assert near_duplicates({"garden": 1000, "Garden": 500, "gardne": 5, "GARDN": 1}) == [
        ("garden", "Garden", "gardne", "GARDN")
    ]


@pytest.mark.parametrize(
    "counts",
    [
        {"item 1": 1000, "item 2": 1, "item 12": 1},
        {"offer A": 1000, "offer B": 1, "groupA": 1000, "groupB": 2},
        {"boats": 1000, "boots": 400},
        {"cat": 1000, "car": 1, "a": 500, "b": 1},
        {"news": 1000, "sports": 1},
    ],
)
def test_different_names_are_no_variants(counts: dict[str, int]) -> None:
    assert near_duplicates(counts) == []
