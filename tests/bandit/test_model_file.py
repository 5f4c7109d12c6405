import copy
import json
import pickle
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from glbandits import Bandit, Budget, ModelFileError, Optimist, SgdTs
from glbandits.bandit.model_file import MIGRATIONS, Contents, format_version
from glbandits.common.arrays import Floats
from glbandits.policies import LaplaceTs
from glbandits.policies.contract import Policy
from tests.bandit.kept.write_model import FOLDER, ROWS
from tests.bandit.model_files import forged, header_of, with_header
from tests.maths.link_support import cauchit_link


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    bandit = Bandit(SgdTs(block_length=5), dim=2, seed=1)
    for i in range(12):
        bandit.learn([0.1 * i, 1.0], float(i % 2))
    bandit.save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def test_newer_format_is_refused(saved: Path) -> None:
    newer = format_version() + 1
    saved.write_bytes(with_header(saved.read_bytes(), format_version=str(newer)))
    with pytest.raises(ModelFileError, match=f"has model format '{newer}'.*Upgrade glbandits"):
        Bandit.load(saved)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("version_*.safetensors")), ids=lambda path: path.stem)
def test_a_model_of_every_format_opens(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert header_of(path.read_bytes())["format_version"] == path.stem.rpartition("_")[2]
    bandit = Bandit.load(path)
    tea, cola = (bandit.predict([row])[0] for row in ROWS[:2])
    assert tea < 0.2 < 0.8 < cola

    def step(contents: Contents) -> Contents:
        header, arrays = contents
        return header | {"budget": json.dumps(asdict(Budget(0.25)))}, arrays

    version = format_version() + 1
    monkeypatch.setitem(MIGRATIONS, version, step)
    migrated = Bandit.load(path)
    assert migrated.budget is not None
    assert (migrated.budget.per_decision, migrated.predict([ROWS[0]])[0]) == (0.25, tea)
    content = migrated.to_bytes()
    assert header_of(content)["format_version"] == str(version)
    assert Bandit.from_bytes(content).budget == migrated.budget
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match="Upgrade glbandits"):
        Bandit.from_bytes(content)


@pytest.mark.parametrize("changes", [{"dim": "3"}, {"policy": "uniform"}, {"settings": "{}"}, {"digest": ""}])
def test_changed_header_is_refused(saved: Path, changes: dict[str, str]) -> None:
    saved.write_bytes(with_header(saved.read_bytes(), **changes))
    with pytest.raises(ModelFileError, match="changed or damaged after it was saved"):
        Bandit.load(saved)


def test_changed_numbers_are_refused(saved: Path) -> None:
    arrays, header = load_file(saved), header_of(saved.read_bytes())
    arrays["state"][5] += 1e-9
    save_file(arrays, saved, metadata=header)
    with pytest.raises(ModelFileError, match="changed or damaged"):
        Bandit.load(saved)


def test_other_safetensors_file_is_refused(tmp_path: Path) -> None:
    save_file({"weights": np.zeros(3)}, tmp_path / "foreign.safetensors")
    with pytest.raises(ModelFileError, match="was not written by Bandit.save"):
        Bandit.load(tmp_path / "foreign.safetensors")


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="there is no file .*nowhere"):
        Bandit.load(tmp_path / "nowhere")


@given(length=st.integers(0, 10_000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_truncated_file_is_refused(saved: Path, length: int) -> None:
    content = saved.read_bytes()
    cut = saved.with_name("cut.safetensors")
    cut.write_bytes(content[: min(length, len(content) - 1)])
    with pytest.raises(ModelFileError, match="not a complete safetensors file|was not written by"):
        Bandit.load(cut)


@given(content=st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_other_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "anything"
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        Bandit.load(path)


def test_saving_replaces_the_file(saved: Path) -> None:
    bandit = Bandit.load(saved)
    bandit.learn([1.0, 1.0], 1.0)
    bandit.save(saved)
    np.testing.assert_array_equal(Bandit.load(saved).state, bandit.state)
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_failed_save_leaves_no_file(saved: Path) -> None:
    with pytest.raises(OSError, match="directory"):
        Bandit.load(saved).save(saved.parent / "missing" / "model.safetensors")
    (saved.parent / "folder").mkdir()
    (saved.parent / "folder" / "something").touch()
    with pytest.raises(OSError, match="folder"):
        Bandit.load(saved).save(saved.parent / "folder")
    assert {path.name for path in saved.parent.iterdir()} == {saved.name, "folder"}


@pytest.mark.safety
def test_user_defined_link_must_be_passed_to_load(tmp_path: Path) -> None:
    policy = LaplaceTs(link=cauchit_link())
    Bandit(policy, dim=2, seed=1).save(tmp_path / "own")
    with pytest.raises(ModelFileError, match="unknown link 'cauchit'.*Pass the policy: Bandit.load"):
        Bandit.load(tmp_path / "own")
    with pytest.raises(ModelFileError, match="Pass the same settings"):
        Bandit.load(tmp_path / "own", policy=LaplaceTs())
    assert Bandit.load(tmp_path / "own", policy=policy).policy is policy


@pytest.mark.parametrize(
    "changes",
    [
        {"dim": "x"}, {"dim": None}, {"dim": "-3"}, {"dim": "7"}, {"policy": None}, {"policy": "ts"},
        {"settings": None}, {"settings": "[]"},
        {"settings": "{"}, {"settings": '{"step": {"a": 1}}'}, {"settings": '{"stepp": 1}'},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_header_with_valid_digest_is_refused(saved: Path, changes: dict[str, str | None]) -> None:
    saved.write_bytes(forged(saved.read_bytes(), changes))
    with pytest.raises(ModelFileError):
        Bandit.load(saved)


def test_invalid_arrays_with_valid_digest_are_refused(saved: Path) -> None:
    content, arrays = saved.read_bytes(), load_file(saved)
    state, generator = arrays["state"], arrays["generator"]
    for changes in ({"state": state.astype("f4")}, {"state": state[:9]}, {"generator": generator[:2]}):
        with pytest.raises(ModelFileError):
            Bandit.from_bytes(forged(content, {}, changes))


def test_model_file_has_default_permissions(saved: Path) -> None:
    plain = saved.with_name("plain")
    plain.touch()
    assert saved.stat().st_mode == plain.stat().st_mode
    Bandit.load(saved).save(saved.with_name("n" * 250))


def test_copies_are_independent() -> None:
    bandit, arms = Bandit(SgdTs(), dim=2, seed=3), np.eye(2)
    bandit.learn(arms[0], 1.0)
    before = bandit.state
    for other in (bandit.copy(), copy.copy(bandit), copy.deepcopy(bandit), pickle.loads(pickle.dumps(bandit))):
        other.learn(arms[1], 1.0)
        assert not np.array_equal(other.state, before)
    np.testing.assert_array_equal(bandit.state, before)


@pytest.mark.parametrize("policy", [Optimist(), SgdTs(block_length=5)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_model_that_cannot_be_loaded_is_not_saved(tmp_path: Path, policy: Policy, value: float) -> None:
    bandit, path = Bandit(policy, dim=2, seed=1), tmp_path / "model.safetensors"
    bandit.learn([1.0, 0.0], 1.0)
    bandit.save(path)
    before = path.read_bytes()
    assert bandit.is_valid()
    bandit._state[-1] = value
    assert not bandit.is_valid()
    for save in (bandit.to_bytes, lambda: bandit.save(path), lambda: pickle.dumps(bandit)):
        with pytest.raises(ModelFileError, match=f"not valid for {policy.name}.*Load the last saved model"):
            save()
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_exactly_the_models_that_can_be_loaded_are_saved() -> None:
    bandit = Bandit(Optimist(), dim=2, seed=1)
    bandit.learn([1.0, 0.0], 1.0)
    content, refused = bandit.to_bytes(), 0
    for index in range(bandit.state.size):
        changed = bandit.copy()
        changed._state[index] = -1.0
        if changed.is_valid():
            Bandit.from_bytes(changed.to_bytes())
            continue
        refused += 1
        with pytest.raises(ModelFileError):
            Bandit.from_bytes(forged(content, {}, {"state": changed.state}))
    assert refused > 0


def test_numbers_must_be_finite_whatever_the_policy_says() -> None:
    class Careless(Optimist):
        name = "careless"

        def is_valid_state(self, state: Floats, dim: int) -> bool:  # noqa: ARG002
            return True

    bandit = Bandit(Careless(), dim=2, seed=1)
    content = bandit.to_bytes()
    state = bandit.state
    state[0] = np.inf
    with pytest.raises(ModelFileError, match="not valid for careless"):
        Bandit.from_bytes(forged(content, {}, {"state": state}), policy=Careless())
