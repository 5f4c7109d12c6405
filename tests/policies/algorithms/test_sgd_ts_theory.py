import math

import pytest

from glbandits import InvalidInput
from glbandits.policies import TheoryConstants

CONSTANTS = TheoryConstants(noise=0.5, c1=0.2, c3=0.1, sigma_0=0.5, lambda_f=0.2, horizon=10**6)


def test_theory_constants_match_a_manual_computation() -> None:
    # d = 3, log T = 13.815510558: alpha = 13.8155 / 0.2 = 69.07755279.
    assert CONSTANTS.alpha(3) == pytest.approx(69.07755279, rel=1e-9)
    # tau_1 = ((sqrt 3 + sqrt 27.631021116) / 0.25)^2 + 32 * 0.25 * (3 + 27.631021116) / (0.04 * 0.25)
    #       = (6.9885726 / 0.25)^2 + 24504.81689 = 781.43 + 24504.82 = 25286.25
    # tau_2 = ((sqrt 3 + sqrt 41.446531674) / 0.2)^2 + 2 * 69.07755279 / (0.1 * 0.2) = 1668.67 + 6907.76 = 8576.4
    tau_1 = ((math.sqrt(3) + math.sqrt(27.631021116)) / 0.25) ** 2 + 24504.8168928
    assert CONSTANTS.block_length(3) == math.ceil(tau_1) == 25287
    # g1(2) = 2.5 sqrt(1.5 log(1 + 4 * 25287 / 3) + 27.631021116) = 2.5 sqrt(1.5 * 10.425892 + 27.631021) = 16.447
    assert CONSTANTS.g1(2, 3) == pytest.approx(2.5 * math.sqrt(1.5 * math.log(1 + 101148 / 3) + 27.631021116), rel=1e-9)
    # g2(2) = 25287 / 69.07755279 * sqrt(1 + 0.69314718) = 366.06681 * 1.30120989 = 476.33
    assert CONSTANTS.g2(2, 3) == pytest.approx(476.3297, rel=1e-5)
    # A_2 = 2 * 0.1 * g1^2 / (69.07755 * 2) + 2 * g2^2 / 2
    assert CONSTANTS.variance(2, 3) == pytest.approx(
        0.2 * CONSTANTS.g1(2, 3) ** 2 / 138.15510558 + 476.3297**2, rel=1e-5
    )


def test_regret_bound_matches_theorem_1() -> None:
    T, tau, alpha, J = 10**6, 25287, 69.07755278982137, 39
    g1, g2 = CONSTANTS.g1(J, 3), CONSTANTS.g2(J, 3)
    u = math.sqrt(2 * math.log(20 * tau * T**2))
    p = 1 + 2 / (1 / (4 * math.sqrt(math.pi * math.e)) - 1e-12)
    first = 0.25 * p * math.sqrt(tau * T) * (2 * math.sqrt(0.1 / alpha) * g1 + 2 * g2)
    second = 0.25 * p * math.sqrt(tau * T) * u * math.sqrt(0.2 * g1**2 / alpha + 2 * g2**2) * math.sqrt(1 + math.log(J))
    assert CONSTANTS.regret_bound(dim=3, arms=20, lipschitz=0.25) == pytest.approx(
        tau + 7 / T + first + second, rel=1e-12
    )


def test_theory_block_exceeds_the_horizon_of_the_simulation() -> None:
    # d = 6, sigma_0^2 = 1/18, ||theta*|| <= 1 so c1 = mu'(2) = 0.105; the second term of tau_1 alone is 2.6e5.
    paper = TheoryConstants(noise=0.5, c1=0.105, c3=0.0177, sigma_0=math.sqrt(1 / 18), lambda_f=0.02, horizon=1000)
    assert paper.block_length(6) > 260_000
    assert paper.regret_bound(dim=6, arms=100, lipschitz=0.25) == 1000.0


def test_constants_must_be_positive() -> None:
    with pytest.raises(InvalidInput, match="lambda_f must be a finite number above 0"):
        TheoryConstants(noise=0.5, c1=0.2, c3=0.1, sigma_0=0.5, lambda_f=0, horizon=1000)
