import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from glbandits import Bandit, Optimist
from glbandits.features import Hashing
from tests.cli.in_process import glb
from tests.evaluation.sparse_data import write_dsjson

ROWS = 600
NAMES = ("--arm", "item", "--reward", "click", "--propensity", "p")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a log of two arms, of which the second earns more."""
    rng = np.random.default_rng(2)
    chosen = rng.integers(0, 2, ROWS)
    clicks = (rng.random(ROWS) < np.where(chosen == 1, 0.7, 0.3)).astype(int)
    columns = {"item": np.array(["old", "new"])[chosen], "click": clicks, "p": np.full(ROWS, 0.5)}
    pl.DataFrame(columns).write_parquet(tmp_path / "log.parquet")
    return tmp_path


def test_evaluate_prints_a_table_and_writes_page_and_record(folder: Path) -> None:
    Bandit(Optimist(link="logistic"), dim=2, seed=1).save(folder / "mine.safetensors")
    run = glb(
        "evaluate", "log.parquet", *NAMES, "--link", "logistic", "--policy", "optimist", "--policy", "arm:new",
        "--model", "mine.safetensors", "--estimator", "snips", "--estimator", "ips", "--out", "found", folder=folder,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert re.search(r"arm:new\s+snips\s+0\.\d{5}\s+0\.\d{5} to 0\.\d{5}", run.stdout)
    assert "optimist: learned 300 rows; evaluated on rows 301 to 600, effective sample size" in run.stdout
    assert "mine.safetensors: evaluated on all 600 rows, effective sample size" in run.stdout
    assert "mine.safetensors does not say which rows it learned" in run.stdout
    assert "arm:new: evaluated on rows 301 to 600, effective sample size" in run.stdout
    assert run.stdout.count("of decisions without support") == 3
    assert "Mean reward while learning, from the first row on" in run.stdout
    assert (folder / "found/evaluation.html").is_file()
    record = json.loads((folder / "found/evaluation.json").read_text(encoding="utf-8"))
    table = pl.read_parquet(folder / "log.parquet")[300:]
    estimates = {policy["label"]: policy for policy in record["policies"]}["arm:new"]["estimates"]
    by_hand = table.filter(pl.col("item") == "new")["click"].mean()
    assert estimates[0]["value"] == pytest.approx(by_hand, abs=1e-12)


def test_first_table_is_complete_or_names_the_option(folder: Path) -> None:
    run = glb("evaluate", "log.parquet", *NAMES, "--policy", "uniform", folder=folder)
    assert run.returncode == 0, run.stderr
    assert "rewards are 0 or 1, so the link is logistic and their range 0 to 1. Change it by --link\n" in run.stdout
    assert "--reward-range" not in run.stdout
    amounts = pl.read_parquet(folder / "log.parquet").with_columns(click=12.5 * pl.col("click"))
    amounts.write_parquet(folder / "amounts.parquet")
    run = glb("evaluate", "amounts.parquet", *NAMES, "--policy", "uniform", folder=folder)
    assert "needs the range of rewards: --reward-range" in " ".join(run.stdout.split())
    assert "the rewards of these rows are 0 to 12.5" in run.stdout
    assert "the link is logistic" not in run.stdout
    run = glb("train", "log.parquet", *NAMES[:4], folder=folder)
    assert Bandit.load(folder / "model.safetensors").policy.link == "logistic"
    assert "the link is logistic" in run.stdout


def test_names_of_arms_need_not_be_words(folder: Path) -> None:
    names = {"old": "0", "new": "10 %: new, 😀"}
    table = pl.read_parquet(folder / "log.parquet")
    renamed = [pl.col(column).replace(names) for column in table.columns if table[column].dtype == pl.String]
    table.with_columns(renamed).write_parquet(folder / "odd.parquet")
    arms = [word for name in names.values() for word in ("--policy", f"arm:{name}")]
    run = glb("evaluate", "odd.parquet", *NAMES, *arms, folder=folder)
    assert run.returncode == 0, run.stderr


def test_column_of_the_log_is_a_candidate(folder: Path) -> None:
    table = pl.read_parquet(folder / "log.parquet")
    offers = pl.Series("offer", ["new", "old", None] * 200)
    table.with_columns(offers).write_parquet(folder / "log.parquet")
    run = glb("evaluate", "log.parquet", *NAMES, "--policy", "column:offer", "--estimator", "snips", folder=folder)
    assert run.returncode == 0, run.stderr
    assert "200 of 600 rows do not offer the arm of column 'offer' (or it is missing)" in run.stdout
    run = glb("evaluate", "log.parquet", *NAMES, "--policy", "column:offer", "--context", "offer", folder=folder)
    assert run.returncode == 2
    assert "context must not contain 'offer'" in run.stderr
    for role, name in (("arm", "item"), ("reward", "click"), ("propensity", "p")):
        run = glb("evaluate", "log.parquet", *NAMES, "--policy", f"column:{name}", folder=folder)
        assert f"column:{name} is no candidate, because this is the {role} column" in run.stderr


def test_several_rewards_have_a_table_each(folder: Path) -> None:
    table = pl.read_parquet(folder / "log.parquet")
    table.with_columns(revenue=20.0 * pl.col("click")).write_parquet(folder / "log.parquet")
    words = ("evaluate", "log.parquet", *NAMES, "--reward", "revenue", "--link", "logistic", "--estimator", "snips")
    run = glb(*words, "--policy", "optimist", "--policy", "arm:new", "--out", "found", folder=folder)
    assert run.returncode == 0, run.stderr
    assert "Mean reward per decision: log.parquet, click" in run.stdout
    assert "Mean reward per decision: log.parquet, revenue" in run.stdout
    record = json.loads((folder / "found/evaluation.json").read_text(encoding="utf-8"))
    [other] = record["other_rewards"]
    for first, second in zip(record["policies"], other["policies"], strict=True):
        assert second["estimates"][0]["value"] == pytest.approx(20.0 * first["estimates"][0]["value"])
        assert second["learning_curve"] is None
    page = (folder / "found/evaluation.html").read_text(encoding="utf-8")
    assert "Reward revenue" in page
    for wrong, message in [(("--reward", "click"), "each reward can be named once"), (("--reward", "x"), "no column")]:
        run = glb(*words, *wrong, folder=folder)
        assert run.returncode == 2
        assert message in run.stderr


def test_each_reward_has_its_range_and_its_notes(folder: Path) -> None:
    table = pl.read_parquet(folder / "log.parquet")
    table.with_columns(revenue=20.0 * pl.col("click")).write_parquet(folder / "log.parquet")
    words = ("evaluate", "log.parquet", "--arm", "item", "--propensity", "p", "--policy", "uniform")
    rewards = ("--reward", "revenue", "--reward", "click", "--policy", "arm:new", "--estimator", "dr")
    run = glb(*words, *rewards, "--reward-range", "0,20", folder=folder)
    assert run.returncode == 0, run.stderr
    assert "Note: click: rewards are 0 or 1, so the link is logistic and their range 0 to 1\n" in run.stdout
    ranges = ("--reward-range", "0,20", "--reward-range", "0,2")
    run = glb(*words, *rewards, *ranges, folder=folder)
    assert run.returncode == 0, run.stderr
    assert "Note: click: rewards are 0 or 1, so the link is logistic\n" in run.stdout
    record = json.loads((folder / "out/evaluate/evaluation.json").read_text(encoding="utf-8"))
    assert record["other_rewards"][0]["settings"]["reward_range"] == [0.0, 2.0]
    run = glb(*words, *rewards, *ranges, "--reward-range", "0,1", folder=folder)
    assert "each reward has one range; got 3 ranges" in run.stderr


def test_dsjson_log_with_hashed_features_is_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLBANDITS_COMPILE", "never")
    write_dsjson(tmp_path / "log.dsjson", 60)
    words = ("log.dsjson", "--link", "logistic", "--estimator", "snips")
    run = glb("evaluate", *words, "--policy", "optimist", "--policy", "uniform", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "optimist: learned 30 rows; evaluated on rows 31 to 60" in run.stdout
    run = glb("train", *words[:3], "--policy", "optimist", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert Bandit.load(tmp_path / "model.safetensors").dim == Hashing().width


def test_text_column_with_a_million_features_is_evaluated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLBANDITS_COMPILE", "never")
    log = pl.read_parquet(folder / "log.parquet").head(60)
    log.with_columns(search=pl.Series([f"shoe {row % 7}" for row in range(60)])).write_csv(folder / "log.csv")
    log = pl.read_csv(folder / "log.csv")
    log.head(30).write_csv(folder / "first.csv")
    words = ("log.csv", "--link", "logistic", "--context", "search")
    kind = ("--kind", "search=text:1048576")
    run = glb("train", "first.csv", *words[1:], *kind, *NAMES[:4], folder=folder)
    assert run.returncode == 0, run.stderr
    bandit = Bandit.load(folder / "model.safetensors")
    assert bandit.sparse
    assert bandit.choose([{"item": name, "search": "shoe 3"} for name in ("old", "new")]) in (0, 1)
    model = ("--policy", "uniform", "--model", "model.safetensors", "--estimator", "snips")
    run = glb("evaluate", *words, *NAMES, *model, folder=folder)
    assert run.returncode == 0, run.stderr
    assert "model.safetensors: evaluated on rows 31 to 60" in run.stdout
    run = glb("evaluate", "first.csv", *words[1:], *NAMES, *model, folder=folder)
    assert run.returncode == 2
    assert "model.safetensors has learned 100% of these rows" in run.stderr
    run = glb("evaluate", *words, *NAMES, *kind, "--policy", "lin-ucb", folder=folder)
    assert "lin-ucb has no sparse form; policies with one are optimist" in run.stderr
    assert "more than 4,096 features are, and it has 2,097,1" in run.stderr
    run = glb("evaluate", *words, *NAMES, "--kind", "search=number:7", folder=folder)
    assert "--kind is written column=kind" in run.stderr


@pytest.mark.slow
def test_two_processes_write_the_same_record(folder: Path) -> None:
    words = (*NAMES, "--link", "logistic", "--policy", "optimist", "--policy", "uniform", "--promote-if-better")
    records = []
    for jobs in ("1", "2"):
        run = glb("evaluate", "log.parquet", *words, "--jobs", jobs, "--out", jobs, folder=folder)
        assert run.returncode == 11, run.stderr
        record = json.loads((folder / jobs / "evaluation.json").read_text(encoding="utf-8"))
        records.append({name: value for name, value in record.items() if name != "command"})
    assert records[0] == records[1]


def test_estimated_propensities_are_noted(folder: Path) -> None:
    words = ("--arm", "item", "--reward", "click", "--policy", "uniform", "--propensity", "estimate")
    run = glb("evaluate", "log.parquet", *words, folder=folder)
    assert run.returncode == 0, run.stderr
    assert "Note: the propensities of the 600 chosen arms were estimated by the share of rows" in run.stdout
    assert "Note: propensities were estimated from the log" in run.stdout


def test_probabilities_of_all_arms_give_expected_sample_size(folder: Path) -> None:
    """The uniform target on a uniform log has an effective sample size of all 600 rows."""
    table = pl.read_parquet(folder / "log.parquet").with_columns(p_old=0.5, p_new=0.5)
    table.drop("p").write_parquet(folder / "log.parquet")
    words = ("--arm", "item", "--reward", "click", "--policy", "uniform", "--estimator", "ips")
    run = glb("evaluate", "log.parquet", *words, "--propensity", "p_{arm}", folder=folder)
    assert run.returncode == 0, run.stderr
    assert "effective sample size 600 (expected)" in run.stdout
    (support,) = (
        policy["support"] for policy in json.loads((folder / "out/evaluate/evaluation.json").read_text())["policies"]
    )
    assert (support["effective_sample_size"], support["expected"]) == (600.0, True)
    assert support["large_weights"] == {"largest": 1.0, "rows": 600.0, "share": 1.0}


@pytest.mark.parametrize("kind", ["list", "struct"])
def test_propensity_may_be_a_column_of_all_probabilities(folder: Path, kind: str) -> None:
    half = pl.lit(0.5)
    each = pl.concat_list(half, half) if kind == "list" else pl.struct(old=half, new=half)
    offered = pl.concat_list(pl.lit("old"), pl.lit("new"))
    log = pl.read_parquet(folder / "log.parquet").drop("p")
    log.with_columns(each=each, offered=offered).write_parquet(folder / "log.parquet")
    words = ("--arm", "item", "--reward", "click", "--policy", "uniform", "--estimator", "ips")
    arms = ("--arms", "offered") if kind == "list" else ()
    run = glb("evaluate", "log.parquet", *words, *arms, "--propensity", "each", folder=folder)
    assert run.returncode == 0, run.stderr
    assert "effective sample size 600 (expected)" in run.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("log.parquet",), "has no column 'arm'"),
        (("log.parquet", *NAMES, "--policy", "optimst"), "unknown policy 'optimst'; did you mean 'optimist'"),
        (("log.parquet", *NAMES, "--reward-range", "1,-1"), "--reward-range is written lowest,highest"),
        (("log.parquet", *NAMES, "--propensity", "p_{arm}"), "needs a column for every arm"),
        (("log.parquet", *NAMES, "--policy", "epsilon-greedy:exploration=-1"), "glb: exploration must be"),
        (("none.parquet", *NAMES), "none.parquet must be a file"),
        (("log.parquet", *NAMES, "--policy", "uniform", "--out", "log.parquet"), "--out needs a writable folder"),
    ],
)
def test_error_names_the_option_and_the_fix(words: tuple[str, ...], message: str, folder: Path) -> None:
    run = glb("evaluate", *words, folder=folder)
    assert run.returncode == 2
    assert message in run.stderr
    assert "Traceback" not in run.stderr
    assert [path.name for path in folder.iterdir()] == ["log.parquet"]


def test_reference_option_names_the_compared_policy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLBANDITS_COMPILE", "never")
    words = ("evaluate", "log.parquet", *NAMES, "--link", "logistic", "--policy", "arm:new", "--policy", "arm:old")
    run = glb(*words, "--estimator", "dr", "--reference", "arm:old", folder=folder)
    assert run.returncode == 0, run.stderr
    assert "Difference in mean reward: policy minus arm:old" in run.stdout
    assert re.search(r"arm:new\s+\S?\s*\+0\.\d{5}\s+\S?\s*\+0\.\d{5} to \+0\.\d{5}", run.stdout)
    assert "whichever policy is the reference" in " ".join(run.stdout.split())
    run = glb(*words, "--reference", "arm:olt", folder=folder)
    assert run.returncode == 2
    assert "unknown reference 'arm:olt'; did you mean 'arm:old'" in run.stderr
    assert "Known: arm:new, arm:old" in run.stderr


def test_time_orders_rows_and_ids_find_copies(folder: Path) -> None:
    """Policies learn the first half of the rows in time, whatever their order in the file."""
    table = pl.read_parquet(folder / "log.parquet").with_row_index("at").with_columns(key=pl.col("at"))
    words = (*NAMES, "--policy", "optimist", "--policy", "uniform", "--link", "logistic", "--time", "at", "--id", "key")
    values = []
    for rows in (table, table.reverse()):
        rows.write_parquet(folder / "log.parquet")
        run = glb("evaluate", "log.parquet", *words, folder=folder)
        assert run.returncode == 0, run.stderr
        record = json.loads((folder / "out/evaluate/evaluation.json").read_text(encoding="utf-8"))
        values.append([each["value"] for policy in record["policies"] for each in policy["estimates"]])
    assert values[0] == values[1]
    pl.concat([table, table.head(2)]).write_parquet(folder / "log.parquet")
    run = glb("evaluate", "log.parquet", *words, folder=folder)
    assert run.returncode == 0, run.stderr
    assert "2 of 602 rows are exact copies" in run.stdout
    record = json.loads((folder / "out/evaluate/evaluation.json").read_text(encoding="utf-8"))
    assert values[0] == [each["value"] for policy in record["policies"] for each in policy["estimates"]]


def test_policies_are_judged_without_exploration(tmp_path: Path) -> None:
    """A policy whose decisions are all random earns more by its estimate alone."""
    rng = np.random.default_rng(2)
    rows = [(arm, int(rng.random() < (0.1, 0.9)[arm == "b"])) for arm in rng.choice(["a", "b"], 600).tolist()]
    lines = ["arm,reward,propensity", *(f"{arm},{reward},0.5" for arm, reward in rows)]
    (tmp_path / "log.csv").write_text("\n".join(lines), encoding="utf-8")
    command = ("evaluate", "log.csv", "--policy", "optimist:floor=1", "--estimator", "snips")
    values = {}
    for how in ("--explore", "--no-explore"):
        run = glb(*command, how, folder=tmp_path)
        assert run.returncode == 0, run.stderr
        [record] = json.loads((tmp_path / "out" / "evaluate" / "evaluation.json").read_text())["policies"]
        values[how] = record["estimates"][0]["value"]
    assert values["--explore"] == pytest.approx(0.5, abs=0.1)
    assert values["--no-explore"] == pytest.approx(0.9, abs=0.1)


def test_context_and_kinds_are_those_of_the_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = zip(rng.choice(["a", "b"], 450), rng.integers(0, 2, 450), rng.integers(20, 25, 450), strict=True)
    lines = ["arm,reward,age,propensity", *(f"{arm},{reward},{age},0.5" for arm, reward, age in rows)]
    (tmp_path / "earlier.csv").write_text("\n".join(lines[:151]), encoding="utf-8")
    (tmp_path / "log.csv").write_text("\n".join([lines[0], *lines[151:]]), encoding="utf-8")
    assert glb("train", "earlier.csv", "--context", "age", "--kind", "age=category", folder=tmp_path).returncode == 0
    values = []
    for words in ((), ("--context", "age")):
        run = glb("evaluate", "log.csv", "--model", "model.safetensors", "--policy", "arm:a", *words, folder=tmp_path)
        assert run.returncode == 0, run.stderr
        record = json.loads((tmp_path / "out" / "evaluate" / "evaluation.json").read_text(encoding="utf-8"))
        values.append([estimate["value"] for each in record["policies"] for estimate in each["estimates"]])
    assert values[0] == values[1]
