"""The sums of an evaluation, over parts of a log that processes or a Ray cluster read."""

import hashlib
import os
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

import glbandits
from glbandits.common.display.progress_lines import WorkCount
from glbandits.common.errors import InvalidInput
from glbandits.common.parallel import is_one_process, run_parallel
from glbandits.evaluation.estimators.estimator import Estimator
from glbandits.evaluation.estimators.grouped_moments import ClusterNumbers
from glbandits.evaluation.estimators.headline import HeadlineSums
from glbandits.evaluation.estimators.log_rows import LogRows, LogSums, RowReader, SequentialModel
from glbandits.evaluation.estimators.target_sums import TargetSums
from glbandits.evaluation.estimators.targets import Target, target_probabilities
from glbandits.evaluation.logs.log_slice import blocks_by_part, fold_of, row_bounds
from glbandits.evaluation.logs.logged_data import Log, LoggedData
from glbandits.evaluation.models.reward_models import (
    CrossFitted,
    LearnedSequence,
    RewardModel,
    SequentialGlm,
    learn_sequence,
)
from glbandits.maths.links import find_link
from glbandits.maths.online_statistics.mergeable import Mergeable, merged

PART_ROWS = 2**18
"""Rows of a part, about. The sums of a part are added to those of the parts before it, in their order."""


class PartSums(Mergeable):
    """What an evaluation keeps of a part of the rows: sums of the log and of each target."""

    rules: ClassVar = {"log": merged}

    def __init__(self, log: LogSums, targets: dict[str, TargetSums]) -> None:
        self.log, self.targets = log, targets

    def merge(self, later: "PartSums") -> None:
        """Add the rows of the next part."""
        super().merge(later)
        for name, sums in self.targets.items():
            sums.merge(later.targets[name])


@dataclass(frozen=True, kw_only=True)
class EvaluationWork:
    """What workers need to evaluate a part of a log."""

    log: Log
    targets: Mapping[str, Target]
    reference: Target | None
    estimators: tuple[Estimator, ...]
    headline: Callable[[], HeadlineSums] | None
    model: RewardModel | None
    has_sequence: bool
    """Whether anytime-valid intervals need predictions from earlier rows only."""
    reward_range: tuple[float, float]
    payoff_range: tuple[float, float]
    seed: int
    size: int
    """Maximum number of rows of a block."""
    bounds: tuple[tuple[int, int], ...] = ()
    """The first row of each part, and the row after its last one."""
    numbers: ClusterNumbers | None = None
    fitted: CrossFitted | None = None
    sequence: LearnedSequence | None = None

    def run(
        self, *, jobs: int, engine: str, progress: Callable[[int, int], None], resume: Path | None = None
    ) -> PartSums:
        """Return the sums of all rows.

        Args:
            jobs: as in `evaluate`.
            engine: as in `evaluate`.
            progress: called with the number of rows done, and of all rows to do.
            resume: a folder for the sums of finished parts.
        """
        log = self.log
        in_order = self.has_sequence and log.sparse
        one_process = is_one_process(jobs, engine) or in_order
        report = WorkCount(progress, (1 + (self.model is not None) + self._learns_sequence) * len(log))
        bounds = tuple(row_bounds(log, self.size, PART_ROWS))
        work = replace(self, bounds=bounds, log=log if one_process else log.for_workers())
        finished = FinishedParts.of(resume, replace(work, log=log))
        work = replace(work, numbers=work._cluster_numbers())
        tasks = [*(["fit"] if self.model is not None else []), *(["sequence"] if self._learns_sequence else [])]
        learned = finished.read("models") if finished is not None else None
        if learned is None:
            learned = {}
            if one_process:
                learned = {task: work._learn(task, report.add) for task in tasks}
            else:
                for index, model in run_parallel(work._learn, tasks, jobs=jobs, engine=engine):
                    learned[tasks[index]] = model
                    report.add(len(log))
            if finished is not None:
                finished.write("models", learned)
        work = replace(work, fitted=learned.get("fit"), sequence=learned.get("sequence"))
        if one_process:
            parts = work._in_this_process(report, finished)
        else:
            parts = work._in_workers(report, finished, jobs, engine)
        total = next(parts)
        for part in parts:
            total.merge(part)
        return total

    @property
    def _learns_sequence(self) -> bool:
        return self.has_sequence and not self.log.sparse

    def _cluster_numbers(self) -> ClusterNumbers | None:
        if not self.log.schema.clusters:
            return None
        numbers = ClusterNumbers()
        for _, block in blocks_by_part(self.log, self.size, self.bounds):
            assert block.clusters is not None
            numbers.add(block.clusters)
        return numbers

    def _learn(self, task: str, progress: Callable[[int], None] = lambda _: None) -> Any:
        """Learn the cross-fitted reward model, or the models of earlier rows."""
        with threadpool_limits(1, user_api="blas"):  # the sums of BLAS depend on its number of threads
            return self._learned(task, progress)

    def _learned(self, task: str, progress: Callable[[int], None]) -> Any:
        log = self.log
        if task == "sequence":
            return learn_sequence(log, find_link(log.schema.link), self.size, progress)
        assert self.model is not None
        fitted, row = self.model.begin(log), 0
        every = -(-len(log) // self.model.max_rows)
        for block in log.blocks(self.size, every=every):
            folds = fold_of(self._fold_keys(block, row, every), self.model.folds)
            fitted.learn(block, folds)
            row += len(block) * every
            progress(len(block) * every)
        fitted.finish()
        return fitted

    def _fold_keys(self, block: LoggedData, row: int, every: int) -> Any:
        """The numbers that determine the fold of rows that are read with a stride."""
        if block.clusters is not None and self.numbers is not None:
            return self.numbers.find(block.clusters)
        return np.arange(row, row + len(block) * every, every)

    def _in_this_process(self, report: WorkCount, finished: "FinishedParts | None") -> Iterator[PartSums]:
        """Yield the sums of each part, in one pass over the log."""
        sequential: SequentialModel | None = None
        if self.has_sequence and self.sequence is None:
            sequential = SequentialGlm(find_link(self.log.schema.link), self.log.dim, sparse=True)
        if sequential is not None:  # it learns all rows
            finished = None
        first = 0
        while finished is not None and first < len(self.bounds) and (known := finished.read(first)) is not None:
            report.add(self.bounds[first][1] - self.bounds[first][0])
            first += 1
            yield known
        blocks = blocks_by_part(self.log, self.size, self.bounds, first)
        for part, group in groupby(blocks, key=itemgetter(0)):
            sums = self._sums(part, (block for _, block in group), sequential, report.add)
            if finished is not None:
                finished.write(part, sums)
            yield sums

    def _in_workers(
        self, report: WorkCount, finished: "FinishedParts | None", jobs: int, engine: str
    ) -> Iterator[PartSums]:
        """Yield the sums of each part in order, from workers that finish in any order."""
        ready: dict[int, PartSums] = {}
        if finished is not None:
            ready = {part: sums for part in range(len(self.bounds)) if (sums := finished.read(part)) is not None}
        for part in ready:
            report.add(self.bounds[part][1] - self.bounds[part][0])
        wanted, following = [part for part in range(len(self.bounds)) if part not in ready], 0
        for index, sums in run_parallel(self.part, wanted, jobs=jobs, engine=engine):
            part = wanted[index]
            ready[part] = sums
            report.add(self.bounds[part][1] - self.bounds[part][0])
            if finished is not None:
                finished.write(part, sums)
            while following in ready:
                yield ready.pop(following)
                following += 1
        for part in sorted(ready):
            yield ready[part]

    def part(self, part: int) -> PartSums:
        """Return the sums of a part."""
        first, last = self.bounds[part]
        return self._sums(part, self.log.blocks(self.size, start=first, stop=last), None, lambda _: None)

    def _sums(
        self,
        part: int,
        blocks: Iterator[LoggedData],
        sequential: SequentialModel | None,
        progress: Callable[[int], None],
    ) -> PartSums:
        first = self.bounds[part][0]
        if self.sequence is not None:
            sequential = self.sequence.at(first)
        fitted = None if self.model is None or self.fitted is None else (self.model, self.fitted)
        reader = RowReader(self.reward_range, fitted, sequential, first, self.payoff_range, self.numbers)
        for target in {id(each): each for each in (*self.targets.values(), self.reference)}.values():
            begin_part = getattr(target, "begin_part", None)
            if begin_part is not None:
                begin_part(part)
        schema, headline = self.log.schema, self.headline
        sums = PartSums(
            LogSums(self.payoff_range, schema, first),
            {
                name: TargetSums(self.estimators, headline and headline(), self.seed, first, schema)
                for name in self.targets
            },
        )
        with threadpool_limits(1, user_api="blas"):
            for block in blocks:
                rows = reader.read(block)
                sums.log.add(rows)
                self._add(sums.targets, rows)
                progress(len(block))
        return sums

    def _add(self, sums: Mapping[str, TargetSums], rows: LogRows) -> None:
        """Add rows to all targets. The probabilities of the reference are computed once."""
        reference = self.reference
        compared = None if reference is None else target_probabilities(reference, rows.block, rows.first_row)
        for name, target in self.targets.items():
            if target is reference:
                assert compared is not None
                sums[name].add(rows, target, compared, None)
            else:
                probabilities = target_probabilities(target, rows.block, rows.first_row)
                sums[name].add(rows, target, probabilities, compared)


class _OfFiles(pickle.Pickler):
    """Pickles a log whose schema names its files, without its table: that may be a sorted copy with another path."""

    def persistent_id(self, value: Any) -> str | None:
        """Return a constant for a table."""
        return "table" if isinstance(value, pl.LazyFrame) else None


class FinishedParts:
    """A folder with what was computed of an evaluation, so that it can continue after an interruption.

    Files of another evaluation, of another log or of another version are not used.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"parts need a writable folder; got {folder}: {error.strerror}") from None

    @classmethod
    def of(cls, folder: Path | None, work: EvaluationWork) -> "FinishedParts | None":
        """Return the files of an evaluation; None if it has one part, or a target that cannot be pickled."""
        if folder is None or len(work.bounds) < 2:
            return None
        content = BytesIO()
        pickler = _OfFiles(content) if work.log.schema.content else pickle.Pickler(content)
        try:
            pickler.dump((glbandits.__version__, work, work.log.schema))
        except (AttributeError, TypeError, pickle.PicklingError):
            return None
        return cls(folder / hashlib.sha256(content.getbuffer()).hexdigest()[:16])

    def read(self, name: object) -> Any:
        """Return what was written under this name; None if nothing was."""
        file = self._file(name)
        try:
            return pickle.loads(file.read_bytes())
        except (OSError, EOFError, pickle.UnpicklingError):
            return None

    def write(self, name: object, value: Any) -> None:
        """Write a file completely, or not at all."""
        file = self._file(name)
        partial = file.with_suffix(f".{os.getpid()}")
        partial.write_bytes(pickle.dumps(value))
        partial.replace(file)

    def _file(self, name: object) -> Path:
        return self._folder / f"{name}.pickle"
