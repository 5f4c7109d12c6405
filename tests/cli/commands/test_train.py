"""`glb train`: its options, the progress, and the file."""

from pathlib import Path

from glbandits import Bandit
from glbandits.features import FeatureMap
from tests.cli.in_process import glb

OPTIONS = ("--arm", "item", "--context", "age", "--policy", "lin-ucb")


def write_log(folder: Path) -> None:
    rows = [f"{'new' if row % 3 else 'old'};{row % 2};0,5;{20 + row % 7},5" for row in range(30)]
    (folder / "log.csv").write_text("\n".join(["item;reward;p;age", *rows]), encoding="utf-8")


def test_columns_may_be_repeated_and_contain_commas(tmp_path: Path) -> None:
    rows = [f"{'new' if row % 3 else 'old'},{row % 2},{20 + row % 7},{'xy'[row % 2]}" for row in range(30)]
    (tmp_path / "log.csv").write_text("\n".join(['item,reward,"age, years",city', *rows]), encoding="utf-8")
    options = ("--arm", "item", "--policy", "lin-ucb", "--context", '"age, years"', "--context", "city")
    crosses = ("--crosses", "city:item", "--crosses", '"age, years:item"')
    run = glb("train", "log.csv", *options, *crosses, folder=tmp_path)
    assert run.returncode == 0, run.stderr
    features = Bandit.load(tmp_path / "model.safetensors").features
    assert isinstance(features, FeatureMap)
    assert features.crosses == (("city", "item"), ("age, years", "item"))
    for text in ("a\nb", '"age, years', '"age"s'):
        run = glb("train", "log.csv", *options, "--context", text, folder=tmp_path)
        assert f"those with a comma in double quotes; got {text!r}" in run.stderr


def test_bad_output_path_is_an_error_before_training(tmp_path: Path) -> None:
    write_log(tmp_path)
    words = ("--kind", "age=number", "--to")
    for out, message in (("log.csv/m", "--to needs a file in a writable folder"), (".", "--to must be a file")):
        run = glb("train", "log.csv", *OPTIONS, *words, out, folder=tmp_path)
        assert run.returncode == 2
        assert message in run.stderr
        assert "learns" not in run.stderr
