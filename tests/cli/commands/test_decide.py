"""`glb decide`: from a log to decisions for a file of customers, without Python."""

import re
import shutil
from doctest import DocTestParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
import pytest
from polars.testing import assert_frame_equal

from glbandits import Bandit
from tests.cli.in_process import Run, glb

OFFERS = ("coat", "hat", "shoe")
ARMS = ("--arm", "offer", "--id", "id")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained model, a file of customers and a file of candidates."""
    folder, rng = tmp_path_factory.mktemp("decide"), np.random.default_rng(1)
    lines = ["offer,clicked,age,code"]
    for row in range(120):
        offer, age = OFFERS[row % 3], 20 + int(rng.integers(60))
        lines.append(f"{offer},{int((offer == 'hat') == (age < 50))},{age},0{row % 4}")
    (folder / "log.csv").write_text("\n".join(lines), encoding="utf-8")
    options = ("--arm", "offer", "--reward", "clicked", "--context", "age,code", "--kind", "code=category")
    assert glb("train", "log.csv", *options, folder=folder).returncode == 0
    customers = pl.DataFrame(
        {
            "customer": [f"0{row}" for row in range(40)],
            "age": rng.integers(20, 80, 40),
            "code": [f"0{row % 4}" for row in range(40)],
            **{f"margin_{offer}": rng.uniform(1, 20, 40) for offer in OFFERS},
            **{f"cost_{offer}": rng.uniform(0, 2, 40) for offer in OFFERS},
        }
    )
    customers.write_csv(folder / "new.csv")
    customers.write_parquet(folder / "new.parquet")
    customers.write_ndjson(folder / "new.jsonl")
    return folder


@pytest.mark.statistics
def test_commands_of_the_guide_run(tmp_path: Path) -> None:
    """The Python examples of the page run as doctests. Its path without Python runs here, on the log of the page."""
    page = (Path(__file__).parents[3] / "docs" / "from-csv-to-bandit.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for example in DocTestParser().get_examples(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]):
        exec(example.source, names)
    shutil.copy(names["path"], tmp_path)
    names["folder"].cleanup()
    section = page.partition("## Decide for a file\n")[2].partition("\n## ")[0]
    for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL):
        for name, text in re.findall(r"^cat > (\S+) <<END\n(.*?)^END$", block, re.DOTALL | re.MULTILINE):
            (tmp_path / name).write_text(text, encoding="utf-8")
        for command in re.findall(r"^glb (.*)$", block.replace("\\\n", ""), re.MULTILINE):
            run = glb(*command.split(), folder=tmp_path)
            assert run.returncode == 0, run.stderr
    shown = pl.read_csv(section.split("```\n")[2].encode())
    found = pl.read_csv(tmp_path / "decisions.csv")
    assert_frame_equal(found.with_columns(cs.float().round(2)), shown)
    assert pl.read_ndjson(tmp_path / "offers.jsonl")["arm_2"].to_list() == ["shoe", "hat", "shoe"]


def decide(folder: Path, *words: str) -> Run:
    return glb("decide", "--model", "model.safetensors", *words, folder=folder)


def read(run: Run) -> pl.DataFrame:
    assert run.returncode == 0, run.stderr
    return pl.read_csv(run.stdout.encode(), schema_overrides={"customer": pl.String})


def rows_of(folder: Path, customer: int) -> list[dict[str, object]]:
    row = pl.read_parquet(folder / "new.parquet").row(customer, named=True)
    return [{"offer": offer, "age": row["age"], "code": row["code"]} for offer in OFFERS]


def test_each_context_gets_the_decision_of_the_model(folder: Path) -> None:
    found = read(decide(folder, "new.csv", "--id", "customer", "--seed", "3"))
    assert found.columns == ["customer", "arm", "probability", "expected", "low", "high", "explore"]
    assert found["customer"].to_list() == [f"0{row}" for row in range(40)]
    saved = Bandit.load(folder / "model.safetensors")
    bandit = Bandit(saved.policy, seed=3, features=saved.features)
    bandit.state = saved.state
    for customer, row in enumerate(found.iter_rows(named=True)):
        rows = rows_of(folder, customer)
        probabilities, arm = bandit.probabilities(rows), bandit.choose(rows)
        low, high = (limits[arm] for limits in bandit.predict(rows, interval=0.95)[1:])
        expected = [probabilities[arm], bandit.predict(rows)[arm], low, high]
        assert row["arm"] == OFFERS[arm]
        np.testing.assert_allclose([row[name] for name in found.columns[2:-1]], expected)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_tables_of_all_formats_are_read_and_written(folder: Path, suffix: str) -> None:
    expected = read(decide(folder, "new.csv"))
    run = decide(folder, f"new.{suffix}", "--to", f"out/decisions.{suffix}")
    assert run.returncode == 0, run.stderr
    first, last, summary = run.stderr.splitlines()
    assert (first, last) == ("deciding: 0%", "deciding: 100%")
    assert summary.startswith("40 decisions with exploration (")
    readers: Any = {"csv": pl.read_csv, "parquet": pl.read_parquet, "jsonl": pl.read_ndjson}
    found = readers[suffix](folder / "out" / f"decisions.{suffix}")
    assert found["arm"].to_list() == expected["arm"].to_list()
    assert [path.name for path in (folder / "out").iterdir() if path.name.startswith((".", "tmp"))] == []


@pytest.mark.parametrize("file", ["new.csv", "model.safetensors.csv", "payoffs.csv"])
def test_files_that_decisions_need_are_not_replaced(folder: Path, file: str) -> None:
    (folder / "payoffs.csv").write_text("arm,value\ncoat,1\nhat,1\nshoe,1", encoding="utf-8")
    (folder / "model.safetensors.csv").unlink(missing_ok=True)
    (folder / "model.safetensors.csv").symlink_to(folder / "model.safetensors")
    before = (folder / file).read_bytes()
    run = decide(folder, "new.csv", "--payoffs", "payoffs.csv", "--to", file)
    assert (run.returncode, (folder / file).read_bytes()) == (2, before)
    assert "--to must not be a file that the decisions are made from" in run.stderr


@pytest.mark.parametrize("source", ["parts", "parts/*.csv", "./parts/"])
def test_decisions_are_not_written_among_their_arms(folder: Path, source: str) -> None:
    (folder / "parts").mkdir(exist_ok=True)
    (folder / "parts" / "first.csv").write_bytes((folder / "new.csv").read_bytes())
    run = decide(folder, source, "--to", "parts/second.csv")
    assert run.returncode == 2
    assert "--to must not be a file that the decisions are made from" in run.stderr
    assert decide(folder, source, "--to", "second.csv").returncode == 0


def test_decisions_repeat_and_the_model_is_not_changed(folder: Path) -> None:
    before = (folder / "model.safetensors").read_bytes()
    first, second = (decide(folder, "new.csv", "--seed", "5") for _ in range(2))
    assert first.stdout == second.stdout
    assert (folder / "model.safetensors").read_bytes() == before


def test_blocks_do_not_change_decisions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_candidates(folder)
    commands = [("new.csv"), ("candidates.csv", "--arm", "offer", "--id", "customer")]
    expected = [decide(folder, *words).stdout for words in commands]
    monkeypatch.setattr("glbandits.evaluation.readers.decision_table.BLOCK", 7)
    assert [decide(folder, *words).stdout for words in commands] == expected


def test_payoffs_of_columns_change_decisions(folder: Path) -> None:
    found = read(decide(folder, "new.csv", "--payoffs", "margin_{arm},cost_{arm}"))
    table, bandit = pl.read_parquet(folder / "new.parquet"), Bandit.load(folder / "model.safetensors")
    for customer, row in enumerate(found.iter_rows(named=True)):
        values, costs = (np.array([table[f"{name}_{o}"][customer] for o in OFFERS]) for name in ("margin", "cost"))
        payoffs = values * bandit.predict(rows_of(folder, customer)) - costs
        assert row["payoff"] == pytest.approx(payoffs[OFFERS.index(row["arm"])])
    assert found["arm"].to_list() != read(decide(folder, "new.csv"))["arm"].to_list()


@pytest.mark.parametrize("words", [(), ("--top", "2"), ("--payoffs", "margin_{arm},cost_{arm}")])
def test_decisions_without_exploration_follow_the_expected_column(folder: Path, words: tuple[str, ...]) -> None:
    how = () if words else ("--no-explore",)
    found, table = read(decide(folder, "new.csv", *words, *how)), pl.read_parquet(folder / "new.parquet")
    bandit, first = Bandit.load(folder / "model.safetensors"), "arm_1" if "--top" in words else "arm"
    for customer, row in enumerate(found.iter_rows(named=True)):
        scores = bandit.predict(rows_of(folder, customer))
        if "--payoffs" in words:
            values, costs = ([table[f"{name}_{o}"][customer] for o in OFFERS] for name in ("margin", "cost"))
            scores = np.array(values) * scores - np.array(costs)
        assert row[first] == OFFERS[int(scores.argmax())]
        assert (row["probability"], row["explore"]) == (1.0, False)
        assert row.get("arm_2") in (None, OFFERS[int(np.argsort(-scores)[1])])
    assert set(read(decide(folder, "new.csv", *words, "--explore"))["explore"]) == {True}


def test_frames_get_the_decisions_of_files(folder: Path) -> None:
    table, bandit = pl.read_parquet(folder / "new.parquet"), Bandit.load(folder / "model.safetensors")
    values, costs = (table.select(f"{name}_{o}" for o in OFFERS).to_numpy() for name in ("margin", "cost"))
    decided = bandit.decide_batch(table, values=values, costs=costs, top=2)
    expected = read(decide(folder, "new.csv", "--payoffs", "margin_{arm},cost_{arm}", "--top", "2"))
    assert_frame_equal(decided.to_frame(), expected.drop("row"))
    assert_frame_equal(
        bandit.decide_batch(table.to_dicts(), values=values, costs=costs, top=2).to_frame(pl.DataFrame),
        decided.to_frame(),
    )
    assert bandit.choose_batch(table, explore=False).tolist() == bandit.predict_batch(table).argmax(axis=1).tolist()


def test_payoffs_of_a_file_apply_to_both_kinds_of_tables(folder: Path) -> None:
    (folder / "payoffs.csv").write_text("arm,value,cost\ncoat,0,1\nhat,0,3\nshoe,0,2", encoding="utf-8")
    write_candidates(folder)
    found = read(decide(folder, "new.csv", "--payoffs", "payoffs.csv", "--top", "3"))
    assert found.select("arm_1", "arm_2", "arm_3").unique().rows() == [("coat", "shoe", "hat")]
    words = ("candidates.csv", "--arm", "offer", "--id", "customer", "--payoffs", "payoffs.csv")
    assert read(decide(folder, *words))["arm"].to_list() == ["coat"] * 20
    (folder / "payoffs.csv").write_text("arm,value,cost\ncoat,0,1", encoding="utf-8")
    assert "none for 'hat'" in decide(folder, "new.csv", "--payoffs", "payoffs.csv").stderr


def write_candidates(folder: Path) -> None:
    lines = ["customer,offer,age,code,value,cost"]
    for customer in range(20):
        lines += [f"c{customer},{offer},{20 + customer},01,{3},{0.1}" for offer in OFFERS[: 1 + customer % 3]]
    (folder / "candidates.csv").write_text("\n".join(lines), encoding="utf-8")


def test_rows_of_arms_are_grouped_and_ranked(folder: Path) -> None:
    write_candidates(folder)
    words = ("candidates.csv", "--arm", "offer", "--id", "customer", "--payoffs", "value,cost")
    found = read(decide(folder, *words, "--top", "3"))
    assert found["customer"].to_list() == [f"c{customer}" for customer in range(20)]
    for customer, row in enumerate(found.iter_rows(named=True)):
        arms = [row[f"arm_{position}"] for position in (1, 2, 3)]
        assert sorted(filter(None, arms)) == list(OFFERS[: 1 + customer % 3])
        assert 0 < row["probability"] <= 1
        assert [row[f"expected_{position}"] is None for position in (1, 2, 3)] == [arm is None for arm in arms]


def test_arms_may_be_described_by_a_table(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "offers.csv").write_text("offer,price\ncoat,9\nhat,2\nshoe,5", encoding="utf-8")
    for name in ("log.csv", "new.csv"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    train = ("--arm", "offer", "--reward", "clicked", "--context", "age", "--arm-table", "offers.csv")
    assert glb("train", "log.csv", *train, folder=tmp_path).returncode == 0
    run = decide(tmp_path, "new.csv")
    assert "describes arms by the columns" in run.stderr
    assert "--arm-table" in run.stderr
    assert set(read(decide(tmp_path, "new.csv", "--arm-table", "offers.csv"))["arm"]) <= set(OFFERS)
    run = decide(tmp_path, "log.csv", "--id", "age", "--arm", "offer", "--arm-table", "offers.csv")
    assert "arm_table is for tables without a column of arms" in run.stderr
    (tmp_path / "offers.csv").write_text("offer,price\ncoat,9\nhat,2\ncoat,5", encoding="utf-8")
    run = decide(tmp_path, "new.csv", "--arm-table", "offers.csv")
    assert "column 'offer', row 2: the value must name each arm of arm_table once" in run.stderr


def test_columns_of_each_arm_are_known_from_the_model(tmp_path: Path) -> None:
    rows = ["coat,1,coat,2,0", "hat,0,coat,0,2", "hat,1,hat,0,2", "coat,0,hat,2,0"] * 30
    (tmp_path / "log.csv").write_text("\n".join(["offer,clicked,x,fit_coat,fit_hat", *rows]), encoding="utf-8")
    train = ("--arm", "offer", "--reward", "clicked", "--context", "fit_{arm}")
    assert glb("train", "log.csv", *train, folder=tmp_path).returncode == 0
    (tmp_path / "new.csv").write_text("fit_coat,fit_hat\n2,0\n0,2", encoding="utf-8")
    found = read(decide(tmp_path, "new.csv"))
    bandit = Bandit.load(tmp_path / "model.safetensors")
    offers = [[{"offer": "coat", "fit": coat}, {"offer": "hat", "fit": hat}] for coat, hat in ((2, 0), (0, 2))]
    expected = [bandit.predict(arms)[int(arm == "hat")] for arms, arm in zip(offers, found["arm"], strict=True)]
    np.testing.assert_allclose(found["expected"], expected)
    (tmp_path / "new.csv").write_text("near_coat,near_hat\n2,0", encoding="utf-8")
    assert "needs a column fit_{arm} for each arm, such as fit_coat" in decide(tmp_path, "new.csv").stderr


def test_policy_without_a_posterior_has_no_interval(folder: Path, tmp_path: Path) -> None:
    for name in ("log.csv", "new.csv"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    train = ("--arm", "offer", "--reward", "clicked", "--context", "age", "--policy")
    for policy, columns in (
        ("greedy", ["row", "arm", "probability", "expected", "explore"]),
        ("uniform", ["row", "arm", "probability", "explore"]),
    ):
        assert glb("train", "log.csv", *train, policy, folder=tmp_path).returncode == 0
        assert read(decide(tmp_path, "new.csv")).columns == columns


@pytest.mark.parametrize(
    ("header", "rows", "words", "message"),
    [
("age,cod", "30,01", (), "has no column 'code' (did you mean 'cod'?)"),
("age,code", "30,01", ("--top", "0"), "top must be a whole number of at least 1"),
("age,code", "30,01", ("--to", "out.xlsx"), "unknown suffix of --to '.xlsx'"),
("id,age,code", "1,30,01\n2,30,01\n1,40,02", ("--id", "id"), "one row each; 2 ids are at 3 places"),
("age,code", "30,01", ("--payoffs", "margin"), "payoffs must name columns"),
("id,age,code,offer", "1,3,01,sock", ARMS, "row 0: the value must be one of 'coat'"),
("id,age,code,offer,v", "1,3,01,hat,", (*ARMS, "--payoffs", "v"), "row 0: the value must be"),
],
)  # fmt: skip
def test_bad_input_is_one_sentence(folder: Path, header: str, rows: str, words: tuple[str, ...], message: str) -> None:
    (folder / "bad.csv").write_text(f"{header}\n{rows}".strip() + "\n", encoding="utf-8")
    (folder / "folder.csv").mkdir(exist_ok=True)
    run = decide(folder, "bad.csv", *words)
    assert (run.returncode, run.stdout) == (2, "")
    assert message in run.stderr


@pytest.mark.parametrize("value", ["[1]", '{"a": 1}'])
def test_ids_of_several_values_are_refused(folder: Path, value: str) -> None:
    (folder / "bad.jsonl").write_text(f'{{"id": {value}, "age": 30, "code": "01"}}\n', encoding="utf-8")
    run = decide(folder, "bad.jsonl", "--id", "id")
    assert (run.returncode, run.stdout) == (2, "")
    assert "column 'id' must have one value in each row" in run.stderr


def test_model_without_a_feature_map_is_refused(tmp_path: Path) -> None:
    Bandit("optimist", dim=2, seed=1).save(tmp_path / "model.safetensors")
    (tmp_path / "new.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    assert "has no feature map" in decide(tmp_path, "new.csv").stderr
