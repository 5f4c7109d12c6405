import os
from pathlib import Path

import numpy as np
import pytest

from glbandits.lab import ForestCover, write_simulated_news
from glbandits.lab.paper import experiments
from glbandits.lab.paper.experiments import forest_cover
from tests.lab.environments.forest_cover_files import lines, text


def test_files_with_equal_names_have_separate_clusters(tmp_path: Path) -> None:
    work, problems = tmp_path / "work", []
    for folder, seed in (("one", 1), ("two", 2)):
        path = tmp_path / folder / "covtype.data"
        path.parent.mkdir()
        path.write_text(text(lines(seed=seed)))
        os.utime(path, (1, 1))  # older than any cache file
        problems.append(forest_cover(1, "clean", path, work))
    assert len(list(work.glob("covtype.data-*-clusters-1-clean.npz"))) == 2
    for problem in problems:
        assert problem.data is not None
        np.testing.assert_array_equal(problem.labels(), ForestCover(data=problem.data).labels())


def test_clusters_of_a_file_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "covtype.data"
    path.write_text(text(lines()))
    first = forest_cover(1, "clean", path, tmp_path)
    os.utime(path)  # a newer time, the same content
    monkeypatch.setattr(ForestCover, "labels", lambda _: pytest.fail("clustered again"))
    assert forest_cover(1, "clean", path, tmp_path).clusters == first.clusters


def test_two_commands_may_simulate_the_same_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_twice(folder: Path, **settings: int) -> None:
        for each in (tmp_path / "simulated-news-1", folder):  # another command is first
            write_simulated_news(each, events_per_day=2880, **settings)

    monkeypatch.setattr(experiments, "write_simulated_news", write_twice)
    assert experiments.news([], tmp_path, quick=True).horizon == 288
    assert [path.name for path in tmp_path.iterdir()] == ["simulated-news-1"]
