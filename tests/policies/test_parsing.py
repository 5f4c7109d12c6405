from pathlib import Path

import pytest

from glbandits import InvalidInput, Policy, UnknownName
from glbandits.policies.parsing import find_policy, parse_grid, split_policy


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def (", "failed: SyntaxError: .*line 1"),
        ("1 / 0", "failed: ZeroDivisionError: division by zero"),
        (
            "from glbandits import Policy\nclass Mine(Policy):\n    name = 'a/b'\n",
            "must be letters, digits, .* got 'a/b'",
        ),
    ],
    ids=["syntax", "import", "name"],
)
def test_broken_module_gives_a_clear_error(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_policy_module.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidInput, match=message):
        find_policy("broken_policy_module:Mine")


def test_missing_module_and_class_are_named() -> None:
    with pytest.raises(UnknownName, match="no module 'nowhere_to_be_found'"):
        find_policy("nowhere_to_be_found:Mine")
    with pytest.raises(UnknownName, match="must name a subclass"):
        find_policy("math:pi")


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a b", 7])
def test_policy_name_must_be_usable_as_a_file_name(name: object) -> None:
    with pytest.raises(InvalidInput, match="must be letters, digits"):
        type("Mine", (Policy,), {"name": name})


@pytest.mark.parametrize(
    ("text", "name", "settings"),
    [
        ("optimist", "optimist", {}),
        (" optimist:floor=0.1 ", "optimist", {"floor": 0.1}),
        ("optimist:half_life=null,floor=1e-3", "optimist", {"half_life": None, "floor": 0.001}),
        ("optimist:half_life=None", "optimist", {"half_life": None}),
        ("sgd-ts:draw=decision", "sgd-ts", {"draw": "decision"}),
        ("sgd-ts:draw='decision'", "sgd-ts", {"draw": "decision"}),
        ("sgd-ts:draw=per-round", "sgd-ts", {"draw": "per-round"}),
        ("sgd-ts:theory={'a': 1, 'b': [1, true]},step=2", "sgd-ts", {"theory": {"a": 1, "b": [1, True]}, "step": 2}),
        ('optimist:{"link": "logistic", "half_life": null}', "optimist", {"link": "logistic", "half_life": None}),
        ("mine:Policy", "mine:Policy", {}),
        ("mine:Policy:step=0.5", "mine:Policy", {"step": 0.5}),
    ],
)
def test_text_of_a_policy_is_split(text: str, name: str, settings: dict[str, object]) -> None:
    assert split_policy(text) == (name, settings)


@pytest.mark.parametrize(
    "listed",
    [
        "step",
        "=1",
        "step=(1",
        "{1: 2}",
        "step=f(1)",
        "a=" + "x-" * 990 + "x",
        "*a",
    ],
)
def test_settings_that_cannot_be_parsed_are_an_error(listed: str) -> None:
    with pytest.raises(InvalidInput, match="settings are written"):
        split_policy(f"sgd-ts:{listed}")


def test_grid_has_a_tuple_of_values_for_each_setting() -> None:
    assert parse_grid(["floor=0.1", "draw='a,b',c"]) == {"floor": (0.1,), "draw": ("a,b", "c")}
    for text in ("floor", "=1", "floor="):
        with pytest.raises(InvalidInput, match="a grid is written setting=value,value"):
            parse_grid([text])
