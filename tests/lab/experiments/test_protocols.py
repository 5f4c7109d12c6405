import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from glbandits import EpsilonGreedy, InvalidInput, SgdTs, Uniform
from glbandits.common.arrays import Floats
from glbandits.lab import Synthetic, play_together, recorded_rounds, simulate
from glbandits.lab.experiments import protocols
from glbandits.lab.experiments.experiment import Experiment, PolicyEntry, describe_settings
from glbandits.lab.experiments.outcomes import FRESH, PAPER, ExperimentResult, ProtocolResult, expected_best
from glbandits.lab.experiments.protocols import ExperimentRunner
from glbandits.lab.experiments.result_store import ResultStore
from glbandits.lab.experiments.run_spec import RunSpec
from glbandits.lab.experiments.summary import summarise
from glbandits.lab.paper.experiments import simulation
from glbandits.policies import OnlineLaplace
from glbandits.policies.agents import PolicyOrAgent

T4 = 2.7764451  # Student's t with four degrees of freedom, 97.5 %
GRID = {"step": (0.1, 1.0), "block_factor": (2, 4)}
SMALL = Experiment(
    name="small",
    title="Small",
    environment=Synthetic(dim=3, arms=6),
    horizon=100,
    policies=(PolicyEntry(SgdTs, {"horizon": 100}, GRID), PolicyEntry(Uniform, {"link": "logistic"})),
    repeats=(1, 2, 3),
    finals=(21, 22, 23, 24),
    fresh=(11, 12, 13, 14, 15),
)


def specs(
    experiment: Experiment, policies: Sequence[PolicyOrAgent], seeds: Sequence[int], *, own_noise: bool = False
) -> list[RunSpec]:
    return experiment.specs(experiment.problem(), policies, seeds, own_noise=own_noise)


def run(experiment: Experiment, protocol: str, folder: Path) -> ProtocolResult:
    (result,) = ExperimentRunner(ResultStore(folder), jobs=1).run([experiment], [protocol])
    return result.protocols[0]


def finals(policy: SgdTs, seeds: tuple[int, ...]) -> Floats:
    return simulate(policy, SMALL.environment, 100, seeds).final_regret


def own_noise_finals(policy: SgdTs, seeds: tuple[int, ...]) -> Floats:
    """Final regrets of runs with their own noise."""
    (noise_seed,) = {spec.noise_seed for spec in specs(SMALL, [policy], seeds, own_noise=True)}
    rounds = recorded_rounds(100, 200)
    runs = [
        play_together([policy], SMALL.environment, 100, seed, rounds, noise_seeds=[noise_seed])[0] for seed in seeds
    ]
    return np.array([run.regret[-1] for run in runs])


def test_each_setting_has_its_own_reproducible_noise() -> None:
    one, other = SgdTs(horizon=100, step=0.1), SgdTs(horizon=100, step=1.0)
    noise_seeds = [specs(SMALL, [policy], [1], own_noise=True)[0].noise_seed for policy in (one, other, one)]
    assert noise_seeds[0] == noise_seeds[2] != noise_seeds[1]
    assert 0 not in noise_seeds
    rounds = recorded_rounds(100, 200)
    shared, own, repeated = play_together([one] * 3, SMALL.environment, 100, 1, rounds, noise_seeds=[0, 7, 7])
    np.testing.assert_array_equal(own.regret, repeated.regret)
    assert not np.array_equal(shared.regret, own.regret)


def test_paper_protocol_averages_the_minimum_of_each_repeat(tmp_path: Path) -> None:
    result = run(SMALL, PAPER, tmp_path)
    sgd_ts, uniform = result.outcomes
    by_setting = np.array(
        [
            own_noise_finals(SgdTs(horizon=100, step=s, block_factor=c), (1, 2, 3))
            for s in GRID["step"]
            for c in GRID["block_factor"]
        ]
    )
    np.testing.assert_allclose(sgd_ts.final, by_setting.min(axis=0))
    assert (sgd_ts.tried, uniform.tried) == (4, 1)
    assert uniform.pulls.sum(axis=1).tolist() == [100.0] * 3


def test_fresh_protocol_tunes_and_reports_on_different_seeds(tmp_path: Path) -> None:
    result = run(SMALL, FRESH, tmp_path)
    settings = [(s, c) for s in GRID["step"] for c in GRID["block_factor"]]
    tuned = [finals(SgdTs(horizon=100, step=s, block_factor=c), tuple(SMALL.finals)).mean() for s, c in settings]
    step, factor = settings[int(np.argmin(tuned))]  # four settings are all finalists
    expected = finals(SgdTs(horizon=100, step=step, block_factor=factor), tuple(SMALL.fresh))
    sgd_ts, uniform = result.outcomes
    np.testing.assert_allclose(sgd_ts.final, expected)
    assert sgd_ts.chosen == f"step={step:g}, block_factor={factor:g}"
    assert sgd_ts.half_width[-1] == pytest.approx(T4 * expected.std(ddof=1) / math.sqrt(5))
    summary = summarise(ExperimentResult(SMALL, (result,), quick=False)).fresh
    assert summary is not None
    best, other = sorted((sgd_ts, uniform), key=lambda outcome: outcome.final.mean())
    difference = other.final - best.final
    assert (summary[best.label].behind, summary[other.label].behind) == pytest.approx((0.0, difference.mean()))
    assert summary[other.label].behind_half_width == pytest.approx(T4 * difference.std(ddof=1) / math.sqrt(5))


def test_finalists_are_the_best_distinct_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocols, "MIN_FINALISTS", 2)
    grid = {"step": (0.1, 1.0), "exploration_a1": (0.1, 1.0), "exploration_a2": (0.1, 1.0)}
    experiment = replace(SMALL, policies=(PolicyEntry(SgdTs, {"horizon": 100}, grid),), finals=(21, 22, 23))
    store = ResultStore(tmp_path)
    ExperimentRunner(store, jobs=1).run([experiment], [FRESH])
    policies = experiment.policies[0].policies()
    tuned = {
        p: np.mean([store[s].regret[-1] for s in specs(experiment, [p], (1, 2, 3), own_noise=True)]) for p in policies
    }
    played = [p for p in policies if specs(experiment, [p], [21])[0] in store]
    keys = {specs(experiment, [p], [21])[0].key for p in played}
    assert len(keys) == 2  # a1 and a2 exchanged are the same setting
    best = sorted(set(tuned.values()))[:2]
    assert {tuned[p] for p in played} == set(best)


def test_fresh_seeds_must_differ_from_tuning_seeds(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="must differ from repeats and finals"):
        run(replace(SMALL, fresh=(3, 4)), FRESH, tmp_path)


def test_finals_must_differ_from_repeats(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="finals must differ from repeats; both have"):
        run(replace(SMALL, finals=(3, 4)), FRESH, tmp_path)


def test_paper_grids_are_complete() -> None:
    sizes = {c.label: len(c.policies()) for c in simulation().policies}
    assert sizes == {
        "sgd-ts": 1750,
        "ucb-glm": 50,
        "glm-tsl": 50,
        "supcb-glm": 50,
        "gloc": 35,
        "laplace-ts": 7,
        "epsilon-greedy": 5,
    }
    experiment = simulation()
    sgd_ts = experiment.policies[0].policies()
    keys = {spec.key for spec in specs(experiment, sgd_ts, [1])}
    assert len(keys) == 10 * 7 * 15  # a1 and a2 act through one number


def test_thin_grid_is_part_of_the_full_grid() -> None:
    for entry in simulation().policies:
        whole, thin = entry.policies(), entry.policies(quick=True)
        assert 0 < len(thin) < len(whole)
        assert all(policy in whole for policy in thin)
    assert len(PolicyEntry(EpsilonGreedy, grid={"warm_up": (3, 4)}).policies(quick=True)) == 2
    with pytest.raises(InvalidInput, match="has a setting without values"):
        PolicyEntry(EpsilonGreedy, grid={"exploration": ()}).policies()


def test_settings_are_described_as_text() -> None:
    grid = {"rule": ("fp", "ucb"), "exploration": (0.1, 1.0)}
    assert describe_settings(OnlineLaplace(rule="ucb", exploration=0.1), grid) == "rule=ucb, exploration=0.1"
    assert describe_settings(Uniform(), {}) == "nothing to tune"


def test_extra_policies_play_on_fresh_seeds_only(tmp_path: Path) -> None:
    with_extra = replace(SMALL, extras=(PolicyEntry(EpsilonGreedy, grid={"exploration": (0.1, 1.0)}),))
    (result,) = ExperimentRunner(ResultStore(tmp_path), jobs=1).run([with_extra], [PAPER, FRESH])
    paper, fresh = result.protocols
    assert [outcome.label for outcome in paper.outcomes] == ["sgd-ts", "uniform"]
    assert [(outcome.label, outcome.is_extra) for outcome in fresh.outcomes][2:] == [("epsilon-greedy", True)]
    assert [outcome.label for outcome in fresh.compared] == ["sgd-ts", "uniform"]
    assert fresh.outcomes[2].tried == 2
    np.testing.assert_array_equal(run(SMALL, FRESH, tmp_path / "other").outcomes[0].final, fresh.outcomes[0].final)


def test_expected_best_equals_the_mean_over_all_subsets() -> None:
    regret = np.random.default_rng(0).uniform(size=(7, 4))
    for size in range(1, 8):
        subsets = [regret[list(chosen)].min(axis=0).mean() for chosen in combinations(range(7), size)]
        assert expected_best(regret, size) == pytest.approx(np.mean(subsets))
    assert expected_best(regret, 100) == pytest.approx(regret.min(axis=0).mean())
