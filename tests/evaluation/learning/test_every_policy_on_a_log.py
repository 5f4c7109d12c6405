import pytest

from glbandits import Policy
from glbandits.evaluation import play_log
from glbandits.policies import POLICIES
from tests.evaluation.learning.test_play_log import assert_has_weights, weights_by_hand
from tests.evaluation.learning_problem import write_log
from tests.laws.test_every_policy import named, short


@pytest.mark.filterwarnings("ignore:the effective sample size of")
@pytest.mark.parametrize("policy", named({name: short(kind) for name, kind in POLICIES.items()}))
def test_policy_chooses_like_a_bandit(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    if policy.name not in ("lin-ucb", "pg-ts"):  # the loop is the same for all, so two of them compile it
        monkeypatch.setenv("GLBANDITS_COMPILE", "never")
    log = write_log(200, seed=2)
    curve = play_log(policy, log, seed=3)
    assert_has_weights(curve, weights_by_hand(policy, log, 3, "matched", 1 / 4), log)
    assert curve.kept > 30  # so that warm-ups of 20 rewards are behind
