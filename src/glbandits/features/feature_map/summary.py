"""Print a feature map: a line for each column, and a summary."""

from collections.abc import Mapping, Sequence

from glbandits.features.feature_map.column_group import ColumnGroup
from glbandits.features.feature_map.combination import Combination


def columns_text(groups: Mapping[str, ColumnGroup], missing_shares: Mapping[str, float]) -> str:
    """A table with a line for each column.

    A line has the name, group, kind, number of features and share of missing values of a column.
    """
    lines = [("column", "of", "kind", "features", "missing")]
    for label, group in groups.items():
        for name, kind in group.kinds.items():
            share = missing_shares.get(name)
            lines.append((name, label, kind.kind, f"{kind.width}", "" if share is None else f"{share:.0%}"))
        lines += [(each.name, label, "fourier", f"{each.features}", "") for each in group.expansions]
    return _aligned(lines)


def summary_text(combination: Combination, per_arm_block: str | None) -> str:
    """One line with the number of features of each group."""
    context = combination.context * combination.context_alone
    products = combination.dim - combination.arm - combination.own - context
    counts = {
        "of arms": combination.arm,
        "of the context": context,
        "products": products,
        "of a row and an arm": combination.own,
    }
    listed = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    block = "" if per_arm_block is None else " Each arm has a block of its own."
    return f"{combination.dim:,} features: {listed}.{block}"


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    """Align the cells of a table: three columns of text to the left, the others to the right."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    padded = (
        [
            text.ljust(width) if column < 3 else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in lines
    )
    return "\n".join("  ".join(texts).rstrip() for texts in padded)
