import inspect
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glbandits.cli.commands.serve import serve_command
from glbandits.common.errors import InvalidInput, UnknownName
from glbandits.service.runtime.batch_writer import QUEUE_BYTES
from glbandits.service.server_settings import DEFAULTS, FILE, KINDS, PREFIX, Settings, description, read_settings

GUIDE = Path(__file__).parents[2] / "docs" / "service-settings.md"


def test_defaults_are_used_without_settings() -> None:
    assert read_settings() == Settings()


@pytest.mark.parametrize("option", [True, False])
@pytest.mark.parametrize("variable", [True, False])
@pytest.mark.parametrize("line", [True, False])
def test_options_override_environment_and_file(option: bool, variable: bool, line: bool, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("port = 3\n")
    options = {"port": 1} if option else {}
    environment = {"GLB_SERVE_PORT": "2"} if variable else {}
    expected = 1 if option else 2 if variable else 3 if line else 8711
    assert read_settings(options, environment, file if line else None).port == expected


def test_the_environment_may_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('loops = ["shop", "news"]\nrate_limit = 5\n')
    settings = read_settings({}, {"GLB_SERVE_SETTINGS": str(file), "HOME": "elsewhere"})
    assert (settings.loops, settings.rate_limit) == (("shop", "news"), 5.0)


def test_lists_are_written_with_commas() -> None:
    settings = read_settings({}, {"GLB_SERVE_CORS_ORIGINS": "https://a.example, http://b.example:8080"})
    assert settings.cors_origins == ("https://a.example", "http://b.example:8080")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"GLB_SERVE_PROT": "1"}, "GLB_SERVE_PROT: unknown setting 'prot'; did you mean 'port'"),
        ({"GLB_SERVE_DURABILTY": "power"}, "GLB_SERVE_DURABILTY: unknown setting 'durabilty'; did you mean 'dura"),
    ],
)
def test_unknown_names_are_refused_with_a_suggestion(environment: dict[str, str], message: str) -> None:
    with pytest.raises(UnknownName, match=message):
        read_settings({}, environment)


def test_unknown_names_in_the_file_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("que = 5\n")
    with pytest.raises(UnknownName, match="settings.toml: que: unknown setting 'que'"):
        read_settings({}, {}, file)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("port", "http", "GLB_SERVE_PORT cannot be 'http': Expected `int`"),
        (
            "durability",
            "none",
            "GLB_SERVE_DURABILITY cannot be 'none': Invalid enum value 'none'. What an ack",
        ),
        ("loops", "a,b,a", "loops has the name 'a' twice"),
        (
            "reward_window",
            "5 weeks",
            "reward_window must be a duration of at most 60d: 5s, 2m, .*; got '5 weeks'",
        ),
        ("rate_limit", "nan", "GLB_SERVE_RATE_LIMIT cannot be 'nan'"),
        ("store", "", "GLB_SERVE_STORE cannot be '': Expected `str` of length >= 1"),
    ],
)
def test_invalid_values_are_refused_with_a_description(name: str, value: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_settings({}, {PREFIX + name.upper(): value})


def test_a_file_that_is_not_toml_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("port: 5\n")
    with pytest.raises(InvalidInput, match="must be a TOML file with a line like port ="):
        read_settings({}, {}, file)


@given(st.dictionaries(st.sampled_from([*KINDS, "other"]), st.one_of(st.text(), st.integers(), st.lists(st.text()))))
def test_any_input_raises_only_our_errors(options: dict[str, Any]) -> None:
    with suppress(InvalidInput, UnknownName):
        assert isinstance(read_settings(options), Settings)


@pytest.mark.parametrize("name", KINDS)
def test_every_setting_is_in_the_guide(name: str) -> None:
    default = DEFAULTS[name]
    shown = ",".join(default) if isinstance(default, tuple) else default
    assert f"| `{name}` | {f'`{shown}`' if shown != '' else ''} | {description(name)} |" in GUIDE.read_text()


def test_guide_names_the_settings_that_are_options() -> None:
    options = set(inspect.signature(serve_command).parameters) - {FILE}
    assert options < {*KINDS}
    sentence = GUIDE.read_text().split("These are also\noptions: ")[1].split(". ")[0]
    assert set(re.findall("`--([a-z-]+)`", sentence)) == {name.replace("_", "-") for name in options}


def test_queue_defaults_equal_those_of_the_writer() -> None:
    assert Settings().queue_bytes == QUEUE_BYTES


def test_an_option_is_named_in_its_message() -> None:
    with pytest.raises(InvalidInput, match="--log-level cannot be 'loud'"):
        read_settings({"log_level": "loud"})
