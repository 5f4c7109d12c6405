import inspect
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glbandits.cli.commands.serve import serve_command
from glbandits.common.errors import InvalidInput, UnknownName
from glbandits.service.runtime.batch_writer import QUEUE_BYTES
from glbandits.service.server_settings import DEFAULTS, FILE, KINDS, Settings, description, read_settings

GUIDE = Path(__file__).parents[2] / "docs" / "service-settings.md"


def test_defaults_are_used_without_settings() -> None:
    assert read_settings() == Settings()


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("variable", [True, False])
@pytest.mark.parametrize("line", [True, False])
def test_flags_override_environment_and_file(flag: bool, variable: bool, line: bool, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("port = 3\n")
    flags = {"port": "1"} if flag else {}
    environment = {"GLB_SERVE_PORT": "2"} if variable else {}
    expected = 1 if flag else 2 if variable else 3 if line else 8711
    assert read_settings(flags, environment, file if line else None).port == expected


def test_the_environment_may_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('loops = ["shop", "news"]\nrate_limit = 5\n')
    settings = read_settings({}, {"GLB_SERVE_SETTINGS": str(file), "HOME": "elsewhere"})
    assert (settings.loops, settings.rate_limit) == (("shop", "news"), 5.0)


def test_lists_are_written_with_commas() -> None:
    settings = read_settings({"cors_origins": "https://a.example, http://b.example:8080"})
    assert settings.cors_origins == ("https://a.example", "http://b.example:8080")


@pytest.mark.parametrize(
    ("flags", "environment", "message"),
    [
        ({"prot": "1"}, {}, "--prot: unknown setting 'prot'; did you mean 'port'"),
        ({}, {"GLB_SERVE_DURABILTY": "power"}, "GLB_SERVE_DURABILTY: unknown setting 'durabilty'; did you mean 'dura"),
    ],
)
def test_unknown_names_are_refused_with_a_suggestion(
    flags: dict[str, str], environment: dict[str, str], message: str
) -> None:
    with pytest.raises(UnknownName, match=message):
        read_settings(flags, environment)


def test_unknown_names_in_the_file_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("que = 5\n")
    with pytest.raises(UnknownName, match="settings.toml: que: unknown setting 'que'"):
        read_settings({}, {}, file)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("port", "http", "--port cannot be 'http': Expected `int`"),
        ("port", "65536", "--port cannot be '65536': Expected `int` <= 65535"),
        ("durability", "none", "--durability cannot be 'none': Invalid enum value 'none'. What an acknowledged event"),
        ("loops", "", "--loops cannot be \\[\\]: Expected `array` of length >= 1"),
        ("loops", "a,b,a", "loops has the name 'a' twice"),
        ("loops", "a/b", "--loops cannot be \\['a/b'\\]. Loops to create, with names of up to 64 letters, digits"),
        (
            "cors_origins",
            "*",
            "--cors-origins cannot be \\['\\*'\\]. Origins, without a path, .* like https://shop.example",
        ),
        (
            "reward_window",
            "5 weeks",
            "reward_window must be a duration of at most 60d: 5s, 2m, .*; got '5 weeks'",
        ),
        ("rate_limit", "-1", "--rate-limit cannot be '-1': Expected `float` >= 0.0"),
        ("rate_limit", "nan", "--rate-limit cannot be 'nan'"),
        ("rate_limit", "inf", "--rate-limit cannot be 'inf'"),
        ("store", "", "--store cannot be '': Expected `str` of length >= 1"),
    ],
)
def test_invalid_values_are_refused_with_a_description(name: str, value: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_settings({name: value})


def test_a_file_that_is_not_toml_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("port: 5\n")
    with pytest.raises(InvalidInput, match="must be a TOML file with a line like port ="):
        read_settings({}, {}, file)


@given(st.dictionaries(st.sampled_from([*KINDS, "other"]), st.one_of(st.text(), st.integers(), st.lists(st.text()))))
def test_any_input_raises_only_our_errors(flags: dict[str, Any]) -> None:
    with suppress(InvalidInput, UnknownName):
        assert isinstance(read_settings(flags), Settings)


@pytest.mark.parametrize("name", KINDS)
def test_every_setting_is_in_the_guide(name: str) -> None:
    default = DEFAULTS[name]
    shown = ",".join(default) if isinstance(default, tuple) else default
    assert f"| `{name}` | {f'`{shown}`' if shown != '' else ''} | {description(name)} |" in GUIDE.read_text()


def test_queue_defaults_equal_those_of_the_writer() -> None:
    assert Settings().queue_bytes == QUEUE_BYTES


def test_every_setting_is_a_flag() -> None:
    assert set(inspect.signature(serve_command).parameters) == {FILE, *KINDS}
