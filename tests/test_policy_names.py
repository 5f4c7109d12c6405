from pathlib import Path

import pytest

from glbandits import InvalidInput, Policy, UnknownName
from glbandits.policy_names import find_policy


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def (", "correct the module"),
        ("1 / 0", "failed: ZeroDivisionError: division by zero"),
        (
            "from glbandits import Policy\nclass Mine(Policy):\n    name = 'a/b'\n",
            "must be letters, digits, .* got 'a/b'",
        ),
    ],
    ids=["syntax", "import", "name"],
)
def test_broken_module_gets_one_clear_sentence(
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
