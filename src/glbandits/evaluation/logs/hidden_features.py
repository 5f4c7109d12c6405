"""HiddenFeatures: a log without the columns of its context that were known only after the decision."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from glbandits.evaluation.logs.arm_features import CrossedArms, copy_with
from glbandits.evaluation.logs.doubts import Doubt, DoubtKind
from glbandits.evaluation.logs.logged_data import BLOCK, Log, LoggedData, StreamedLog
from glbandits.evaluation.logs.schema import LogSchema


@dataclass(frozen=True, eq=False, repr=False)
class HiddenFeatures(StreamedLog):
    """All rows of another log, with 0 for some features of the context, which is apart from the arms."""

    log: Log
    features: tuple[int, ...]

    @classmethod
    def of(cls, log: Log, doubts: Iterable[Doubt]) -> "HiddenFeatures | None":
        """Return the log without its leaked columns; None if it has none, or if a leak does not name its columns."""
        leaks = [doubt for doubt in doubts if doubt.kind is DoubtKind.LEAK]
        features = {feature for leak in leaks for feature in leak.features}
        return cls(log, tuple(sorted(features))) if leaks and all(leak.features for leak in leaks) else None

    @cached_property
    def schema(self) -> LogSchema:  # type: ignore[override]
        """What the rows have."""
        schema = self.log.schema
        return replace(schema, doubts=tuple(each for each in schema.doubts if each.kind is not DoubtKind.LEAK))

    def for_workers(self) -> "HiddenFeatures":
        """Return the log in a form of which each worker reads its part without the rows before it."""
        return replace(self, log=self.log.for_workers())

    def blocks(
        self, size: int = BLOCK, *, start: int = 0, stop: int | None = None, every: int = 1, features: bool = True
    ) -> Iterator[LoggedData]:
        """Yield rows in order, as `Log.blocks` says."""
        blocks = self.log.blocks(size, start=start, stop=stop, every=every, features=features)
        return map(self.without_features, blocks)

    def without_features(self, block: LoggedData) -> LoggedData:
        """Return rows of the log without these features."""
        if not isinstance(block.arms, CrossedArms):  # read without features
            return block
        contexts = block.arms.contexts.copy()
        contexts[:, self.features] = 0.0
        return copy_with(block, arms=copy_with(block.arms, contexts=contexts), _features=None)
