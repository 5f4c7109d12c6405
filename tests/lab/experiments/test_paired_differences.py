import math

import numpy as np
import pytest
from scipy.stats import beta, t

from glbandits import UnknownName
from glbandits.common.arrays import Floats
from glbandits.lab.experiments.paired_differences import Difference, paired_differences

FINALS = {
    "mine": np.array([1.0, 2.0, 3.0]),
    "other": np.array([2.0, 3.5, 4.0]),
    "same": np.array([1.0, 2.0, 3.0]),
}


def test_differences_are_paired_and_corrected_for_their_number() -> None:
    differences = paired_differences(FINALS, "mine")
    assert list(differences) == ["other", "same"]
    gaps = np.array([1.0, 1.5, 1.0])
    width = t.ppf(1 - 0.05 / 2 / 2, 2) * gaps.std(ddof=1) / math.sqrt(3)
    assert differences["other"].mean == pytest.approx(gaps.mean())
    assert differences["other"].half_width == pytest.approx(width)
    assert differences["same"] == Difference(0.0, 0.0)


def test_verdict_follows_from_the_interval() -> None:
    finals = FINALS | {"far": FINALS["mine"] + np.array([9.0, 9.1, 9.0]), "good": FINALS["mine"] - [0.9, 0.91, 0.9]}
    verdicts = {label: difference.verdict for label, difference in paired_differences(finals, "mine").items()}
    undecided = "no difference shown"
    assert verdicts == {"other": undecided, "same": undecided, "far": "worse", "good": "better"}


def test_single_seed_has_no_interval_and_no_verdict() -> None:
    difference = paired_differences({"mine": np.array([1.0]), "other": np.array([5.0])}, "mine")["other"]
    assert difference == Difference(4.0, None)
    assert difference.verdict == "no difference shown"
    assert difference.text(1) == "+4.0: no difference shown"


def test_single_policy_has_no_differences() -> None:
    assert paired_differences({"mine": np.array([1.0, 2.0])}, "mine") == {}


def test_unknown_reference_is_an_error() -> None:
    with pytest.raises(UnknownName, match="unknown policy as reference 'mne'; did you mean 'mine'"):
        paired_differences(FINALS, "mne")


def equal_on_average(kind: str, rng: np.random.Generator, policies: int, seeds: int) -> Floats:
    """Return final regrets of policies with the same mean, on problems of different difficulty."""
    own: Floats = rng.gamma(1.0, 5.0, (policies, seeds)) if kind == "skewed" else rng.normal(5, 2, (policies, seeds))
    if kind == "skewed reference":
        own[0] = rng.gamma(1.0, 5.0, seeds)
    return own + rng.gamma(2.0, 10.0, seeds)


@pytest.mark.parametrize("kind", ["normal", "skewed", "skewed reference"])
def test_at_most_one_table_of_ties_in_twenty_has_a_false_verdict(kind: str) -> None:
    rng, tables = np.random.default_rng(7), 2000
    wrong = 0
    for _ in range(tables):
        finals = dict(zip("abcdef", equal_on_average(kind, rng, 6, 60), strict=True))
        wrong += any(each.verdict != "no difference shown" for each in paired_differences(finals, "a").values())
    low, high = beta.ppf([0.025, 0.975], [wrong, wrong + 1], [tables - wrong + 1, tables - wrong])
    assert wrong / tables <= 0.05, f"{wrong / tables:.3f} [{low:.3f}, {high:.3f}]"
    assert high < 0.06
