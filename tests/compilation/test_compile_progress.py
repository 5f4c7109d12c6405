"""The estimate of the time left follows the plan, and finished tasks correct it."""

import pytest

from glbandits.compilation.compile_progress import CompilePlan


def test_time_left_falls_to_a_small_rest_while_a_task_is_late() -> None:
    plan = CompilePlan([20.0, 10.0, 10.0], processes=2, slowness=1.0)
    assert [plan.left(elapsed, []) for elapsed in (0.0, 5.0, 20.0, 80.0)] == [20.0, 15.0, 11.0, 11.0]


def test_finished_tasks_correct_the_guess() -> None:
    plan = CompilePlan([10.0] * 4, processes=1, slowness=1.0)
    assert plan.left(20.0, [0]) == 45.0  # the mean of the guess and of twice as slow
    assert plan.left(40.0, [0, 1]) == pytest.approx(100 / 3)
    assert plan.left(80.0, [0, 1, 2, 3]) == 1.0


def test_tasks_may_finish_in_another_order() -> None:
    plan = CompilePlan([10.0, 10.0, 10.0], processes=1, slowness=1.0)
    assert plan.left(5.0, [2]) == 15.0
    assert plan.left(10.0, [1, 2]) == 1.0
