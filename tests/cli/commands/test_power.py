"""`glb power`: the units that a guardrail needs, and refused problems."""

import math
from pathlib import Path

import numpy as np
import pytest

from glbandits.cli.commands.power import Amount
from tests.cli.in_process import glb


def test_table_has_units_and_days_for_each_share(tmp_path: Path) -> None:
    run = glb(
        *("power", "--rate", "0.05", "--change", "-20%", "--share", "0.15", "--units-per-day", "1000"), folder=tmp_path
    )
    cells = [line.replace("*", "").replace(",", "").split() for line in run.stdout.splitlines() if line[0] == "0"]
    rows = {share: [float(number) for number in numbers] for share, *numbers in cells}
    assert list(rows) == ["0.05", "0.1", "0.15", "0.2", "0.5"]
    half, most, half_days, most_days = rows["0.1"]
    assert 24_000 <= half <= 31_000
    assert 55_000 <= most <= 75_000
    assert (half_days, most_days) == pytest.approx((half / 1000.0, most / 1000.0), rel=0.1)


def test_metric_in_a_range_needs_the_same_on_any_scale(tmp_path: Path) -> None:
    def table(*numbers: str) -> str:
        names = ("--mean", "--deviation", "--change", "--guardrail-margin")
        given = [text for pair in zip(names, numbers, strict=False) for text in pair]
        return glb("power", *given, "--range", *numbers[4:], folder=tmp_path).stdout

    first = table("0.4", "0.2", "-20%", "0", "0", "1")
    assert "too many" not in first
    assert first == table("40", "20", "-8", "0", "0", "100") != table("0.4", "0.2", "-20%", "1%", "0", "1")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("--change -1%", "give --rate"),
        ("--change -200% --rate 0.1", "between 0 and 1"),
        ("--change -1% --rate 0.1 --deviation 0.2", "are for --mean"),
        ("--change much --rate 0.1", "percentage"),
        ("--change -1% --rate 0.1 --units-per-day 0", "units_per_day must be"),
        ("--change -1 --mean 3 --deviation 9 --range 0 10", "deviation below"),
        ("--change -5 --mean 3 --deviation 1 --range 10 0", "smaller to a larger"),
    ],
)
def test_nonsense_is_refused(options: str, reason: str, tmp_path: Path) -> None:
    run = glb("power", *options.split(), folder=tmp_path)
    assert run.returncode == 2
    assert reason in run.stderr
    assert len(run.stderr.splitlines()) <= 2


def test_a_lower_cap_of_an_amount_needs_fewer_units(tmp_path: Path) -> None:
    words = ("--share", "0.1", "--rate", "0.05", "--mean", "50", "--deviation", "60", "--change=-20%")
    run = glb("power", *words, folder=tmp_path)
    assert run.returncode == 0, run.stderr
    rows = [line.split() for line in run.stdout.splitlines() if "%" in line and line[0] in "0h"]
    units = [float(row[-2].replace(",", "")) for row in rows]
    assert units == sorted(units, reverse=True)
    assert units[0] > 3.0 * units[-1]
    only_rate = glb("power", "--share", "0.1", "--rate", "0.05", "--change=-20%", folder=tmp_path).stdout
    assert f"0.1 * {rows[-1][-2]}" in " ".join(only_rate.split())


def test_moments_of_a_capped_amount_are_those_of_a_sample() -> None:
    amount, rng = Amount(0.2, 50.0, 60.0), np.random.default_rng(0)
    deviation = math.sqrt(math.log1p(1.2**2))
    sample = np.exp(rng.normal(math.log(50.0) - deviation**2 / 2.0, deviation, 400_000))
    for above in (0.01, 0.5):
        cap = amount.cap(above)
        values = np.where(rng.random(len(sample)) < 0.2, np.minimum(sample, cap), 0.0)
        assert (sample > cap).mean() == pytest.approx(above, rel=0.1)
        assert [cap * moment for moment in amount.capped(cap)] == pytest.approx([values.mean(), values.std()], rel=0.02)
