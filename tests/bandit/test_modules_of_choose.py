import os
import subprocess
import sys

ENTERED = """
import sys
import numpy as np
from glbandits import Bandit

bandit, arms, modules = Bandit("lin-ucb", dim=3, seed=1), np.eye(3), {}
for _ in range(5):
    bandit.learn(arms[bandit.choose(arms)], 1.0)

def enter(frame, event, _):
    name = frame.f_globals.get("__name__", "")
    if event == "call" and name.startswith("glbandits."):
        modules.setdefault(name)

sys.setprofile(enter)
bandit.choose(arms)
sys.setprofile(None)
print(*modules)
"""
ARITHMETIC = "glbandits.maths.posteriors.gaussian_posterior"
"""Where scores are computed. Before it, a decision is checked, converted and passed on."""


def test_choose_reaches_arithmetic_through_nine_modules() -> None:
    plain = os.environ | {"GLBANDITS_COMPILE": "never"}
    result = subprocess.run([sys.executable, "-c", ENTERED], env=plain, capture_output=True, text=True, check=True)
    modules = result.stdout.split()
    assert modules[0] == "glbandits.bandit.bandit"
    assert len(modules[: modules.index(ARITHMETIC)]) <= 9, modules
    assert len(modules) <= 14, modules
