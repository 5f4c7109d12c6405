"""The examples of docs/tutorials run as doctests; this checks the parts that are not Python."""

import re
from pathlib import Path

from glbandits.experiments.user_experiment import read_experiment

TUTORIALS = Path(__file__).parent.parent / "docs" / "tutorials"


def test_experiment_file_of_the_tutorial_is_valid(tmp_path: Path) -> None:
    page = (TUTORIALS / "reproducing-the-paper.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    experiment = read_experiment(path)
    assert [entry.label for entry in experiment.entries] == ["optimist", "sgd-ts"]


def test_pictures_of_the_tutorials_exist() -> None:
    for page in sorted(TUTORIALS.glob("*.md")):
        for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / picture).is_file(), f"{page.name} shows {picture}"
