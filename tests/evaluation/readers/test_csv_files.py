import gzip
from pathlib import Path
from typing import Any

import pytest

from glbandits import InvalidInput
from glbandits.evaluation import Columns, open_log, read_csv
from glbandits.evaluation.readers.csv_files import check_csv
from glbandits.features import Category
from tests.evaluation.readers.table_data import assert_same_log

TEXT = "arm,reward,propensity,town\na,1,0.5,Bern\nb,0,0.5,Zürich\na,0,0.5,Bern\n"


def written(folder: Path, content: str | bytes, name: str = "log.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("sep=,\n" + TEXT, "begins with the line 'sep=,', which only Excel understands. Delete this line"),
        (TEXT.encode("utf-16"), "it seems to be UTF-16. Convert it: iconv -f UTF-16 -t UTF-8 log.csv > NEW_FILE"),
        (TEXT + "a,1\n", r"row 3 \(line 5\): each row must have 4 fields, as the header has; got 2"),
        (TEXT + 'a,1,0.5,"Bern\nb,1,0.5,Bern\nb,1\n"a,1\n', "fields, as the header has; got"),
    ],
)
def test_csv_files_of_another_format_are_refused(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_csv(written(tmp_path, content), Columns(context=("town",)))


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separator_is_the_most_frequent_of_the_header(tmp_path: Path, separator: str) -> None:
    text = TEXT.replace(",", separator).replace("town", '"town, old; or | new"').replace("Bern", '"Bern, BE"')
    log = read_csv(written(tmp_path, text), Columns(context=("town, old; or | new",)))
    assert_same_log(log.read(), read_csv(written(tmp_path, TEXT, "other.csv"), Columns(context=("town",))).read())


def test_log_and_arm_table_may_have_different_separators(tmp_path: Path) -> None:
    arms = written(tmp_path, "arm;price\na;1,5\nb;2,5\n", "arms.csv")
    path = written(tmp_path, TEXT.replace(",", "\t"), "log.tsv")
    log = open_log(path, Columns(context=("town",)), arm_table=arms, kinds={"price": "number"})
    assert log.arm_names == ("a", "b")
    assert len(log) == 3


@pytest.mark.parametrize(
    "content",
    [
        TEXT,
        TEXT.replace("\n", "\r\n"),
        "\ufeff" + TEXT,
        TEXT + "\n",
        TEXT + 'a,1,0.5,"Bern, ""old""\ntown"\n',
        TEXT + 'a,1,0.5,"Bern\narm,reward,propensity,town\n"\n',
        '"arm","reward","propensity","the, town"\na,1,0.5,Bern\n',
    ],
)
def test_usual_csv_files_are_accepted(tmp_path: Path, content: str) -> None:
    check_csv(written(tmp_path, content))
    check_csv(written(tmp_path, gzip.compress(content.encode()), "log.csv.gz"))


def test_damaged_gzip_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="could not be read as CSV"):
        check_csv(written(tmp_path, gzip.compress(TEXT.encode())[:30], "log.csv.gz"))


CODES = "arm,reward,propensity,zip,amount\na,1,0.5,00015,7.567\nb,0,0.5,12345,1.234\n"


def test_leading_zeros_in_csv_are_reported(tmp_path: Path) -> None:
    path = written(tmp_path, CODES)
    with pytest.raises(InvalidInput, match="column 'zip' contains numbers with leading"):
        read_csv(path, Columns(context=("zip",)))
    assert _learned(path, "zip", "category").kinds["zip"] == Category(("00015", "12345"))
    assert _learned(path, "zip", "number").kinds["zip"].mean == 6180.0


def test_leading_zeros_in_one_of_several_files_are_found(tmp_path: Path) -> None:
    written(tmp_path, CODES, "1.csv")
    written(tmp_path, CODES.replace("00015", "54321"), "0.csv")
    values = _learned(tmp_path / "*.csv", "zip", "category").kinds["zip"].values
    assert values == ("00015", "12345", "54321")


def test_leading_zeros_in_an_arm_table_are_reported(tmp_path: Path) -> None:
    arms = written(tmp_path, "arm,size\na,01\nb,02\n", "arms.csv")
    with pytest.raises(InvalidInput, match="column 'size' contains numbers with leading"):
        open_log(written(tmp_path, CODES), Columns(), arm_table=arms)


@pytest.mark.parametrize(("kind", "mean"), [("decimal_comma", 4400.5), ("number", 4.4005)])
def test_points_in_csv_separate_thousands_if_declared(tmp_path: Path, kind: str, mean: float) -> None:
    features = _learned(written(tmp_path, CODES), "amount", kind)
    assert features.kinds["amount"].mean == pytest.approx(mean)
    again = read_csv(tmp_path / "log.csv", Columns(context=("amount",)), features=features).read()
    assert_same_log(again, read_csv(tmp_path / "log.csv", Columns(context=("amount",)), kinds={"amount": kind}).read())


def _learned(source: Path, column: str, kind: str) -> Any:
    return read_csv(source, Columns(context=(column,)), kinds={column: kind}).feature_map


def test_columns_of_several_files_are_joined_by_name(tmp_path: Path) -> None:
    written(tmp_path, "arm,reward,propensity,size\na,1,0.5,1.50\n", "0.csv")
    written(tmp_path, "size,propensity,reward,arm\nbig,0.25,0,b\n", "1.csv")
    log = read_csv(tmp_path, Columns(context=("size",)), kinds={"size": "category"}).read()
    assert log.rewards.tolist() == [1.0, 0.0]
    assert log.propensities is not None
    assert log.propensities.tolist() == [0.5, 0.25]
    assert log.feature_map is not None
    assert log.feature_map.names[:2] == ("arm=a", "arm=b")
    assert "size=1.50 * arm=a" in log.feature_map.names
