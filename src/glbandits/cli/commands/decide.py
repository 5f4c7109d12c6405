"""`glb decide`: decisions of a saved model for the rows of a table."""

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Annotated, Any

import polars as pl
import polars.selectors as cs
import typer
from rich.console import Console

from glbandits.bandit import Bandit
from glbandits.bandit.decisions import decide_block
from glbandits.bandit.predictions import LARGEST_INTERVAL
from glbandits.cli.candidates import ModelOption
from glbandits.cli.common_options import ExploreOption, LevelOption, SeedOption, prepare_file
from glbandits.cli.log_options import ArmTableOption, PayoffsOption, is_payoff_file, split_names
from glbandits.cli.progress import work_bar
from glbandits.common.atomic_files import atomic_path
from glbandits.common.errors import InvalidInput, check_float, check_int, lookup
from glbandits.evaluation.estimators.estimator import DEFAULT_LEVEL
from glbandits.evaluation.readers.decision_table import OfferColumns, OfferTable

WRITERS: Mapping[str, Callable[[pl.LazyFrame, Path], Any]] = MappingProxyType(
    {".csv": pl.LazyFrame.sink_csv, ".parquet": pl.LazyFrame.sink_parquet, ".jsonl": pl.LazyFrame.sink_ndjson}
)
"""Functions that write the decisions to a file, by its suffix."""
LARGEST_TOP = 100


def decide_command(
    table: Annotated[
        Path,
        typer.Argument(help="CSV, Parquet or JSON-lines file: a row for each context; with --arm, for each arm."),
    ],
    *,
    model: ModelOption,
    to: Annotated[
        Path | None,
        typer.Option(help="The file to write. Its suffix is .csv, .parquet or .jsonl. Default: CSV to stdout."),
    ] = None,
    top: Annotated[int, typer.Option(help="How many arms to rank for each context.")] = 1,
    id_column: Annotated[
        str | None, typer.Option("--id", help="Column that identifies a decision. Default: the row number.")
    ] = None,
    arm: Annotated[
        str | None,
        typer.Option(help="Column with the name of the arm. For a table with a row for each arm; needs --id."),
    ] = None,
    arm_table: ArmTableOption = None,
    payoffs: PayoffsOption = None,
    explore: ExploreOption = None,
    level: LevelOption = DEFAULT_LEVEL,
    seed: SeedOption = 0,
) -> None:
    """Decide for each context of a table by a saved model: the arm, its probability and its expected reward.

    The decisions depend only on the model, the table and the seed. The model learns nothing. It knows the columns of
    its context. With --arm, the columns of --payoffs are value,cost. The column explore says whether the policy
    explored; without it, every decision has probability 1.
    """
    write = None if to is None else lookup("suffix of --to", to.suffix, WRITERS)
    check_int("top", top, at_least=1, at_most=LARGEST_TOP)
    check_float("level", level, above=0.0, at_most=LARGEST_INTERVAL)
    payoff_table = Path(payoffs) if payoffs and is_payoff_file(payoffs) else None
    of_payoffs = split_names([payoffs]) if payoffs and not payoff_table else ()
    explore = not payoffs and top == 1 if explore is None else explore
    columns = OfferColumns(id=id_column, arm=arm, payoffs=of_payoffs)
    for source in (table, model, arm_table, payoff_table):
        if to is not None and source is not None and _contains(source, to):
            raise InvalidInput(f"--to must not be a file that the decisions are made from; got {to} for {source}")
    saved = Bandit.load(model)
    bandit = Bandit(saved.policy, saved.dim, seed, sparse=saved.sparse, features=saved.features)
    bandit.state = saved.state
    files: dict[str, Any] = {"arm_table": arm_table, "payoff_table": payoff_table}
    offered = OfferTable(table, bandit, columns, **files)
    if not offered.rows:
        raise InvalidInput(f"{table} must have at least one row; got none")
    console, chosen = Console(stderr=True, emoji=False), Counter[str]()
    if to is not None:
        prepare_file(to)
    with work_bar(console) as bar, TemporaryDirectory(dir=None if to is None else to.parent) as parts:
        bar("deciding", 0, offered.rows)
        for done, offers in offered.blocks():
            decided = decide_block(bandit, offers.arms, offers.names, top=top, explore=explore, level=level)
            frame = decided.to_frame(pl.DataFrame).cast({cs.by_dtype(pl.Null): pl.String})
            frame.insert_column(0, offers.ids.alias("id") if offers.ids.name in frame.columns else offers.ids)
            if to is None:
                sys.stdout.write(frame.write_csv(include_header=not chosen))
            else:
                frame.write_parquet(Path(parts) / f"{done:015d}.parquet")
            chosen.update(frame.to_series(1).to_list())
            bar("deciding", done, offered.rows)
        if to is not None and write is not None:
            with atomic_path(to) as temporary:
                write(pl.scan_parquet(Path(parts) / "*.parquet"), temporary)
    if to is not None:
        shares = ", ".join(f"{name} {count / chosen.total():.1%}" for name, count in chosen.most_common(10))
        how = "with" if explore else "without"
        console.print(f"{chosen.total():,} decisions {how} exploration ({shares}): {to}", soft_wrap=True, markup=False)


def _contains(source: Path, file: Path) -> bool:
    """Whether a file is the source, or one of the files of a source that is a folder or a pattern."""
    if source.is_file():
        return file.exists() and file.samefile(source)
    return fnmatch(str(file.resolve()), str(source.resolve() / "*" if source.is_dir() else source.resolve()))
