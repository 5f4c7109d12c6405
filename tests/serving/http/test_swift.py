import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from glbandits.serving.http.swift import run_swiftly
from tests.serving.makers import run


async def swiftly(coroutine: Coroutine[Any, None, Any]) -> Any:
    """What a coroutine hands over in the end."""
    done = asyncio.get_running_loop().create_future()
    run_swiftly(coroutine, done.set_result)
    return await done


def test_without_a_wait_the_result_is_there_at_once() -> None:
    async def answer() -> int:
        return 1

    results: list[int] = []
    run_swiftly(answer(), results.append)
    assert results == [1]


def test_it_runs_at_once_until_it_waits_and_goes_on_when_that_is_over() -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()
        steps: list[str] = []

        async def answer() -> str:
            steps.append("began")
            told: str = await future
            steps.append(told)
            return "end"

        run_swiftly(answer(), steps.append)
        assert steps == ["began"]
        await asyncio.sleep(0)
        assert steps == ["began"]
        future.set_result("told")
        await asyncio.sleep(0)
        assert steps == ["began", "told", "end"]

    run(main())


def test_it_may_wait_many_times_also_for_what_is_done() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def answer() -> int:
            total = 0
            for i in range(5_000):  # more than calls may be nested
                future = loop.create_future()
                if i % 2:
                    future.set_result(1)
                else:
                    loop.call_soon(future.set_result, 1)
                total += await future
            return total

        assert await swiftly(answer()) == 5_000

    run(main())


def test_an_exception_of_what_is_awaited_reaches_it() -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()

        async def answer() -> str:
            with pytest.raises(ValueError, match="what was wrong"):
                await future
            return "caught"

        asyncio.get_running_loop().call_soon(future.set_exception, ValueError("what was wrong"))
        assert await swiftly(answer()) == "caught"

    run(main())


def test_a_cancelled_future_reaches_it_too() -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()

        async def answer() -> str:
            with pytest.raises(asyncio.CancelledError):
                await future
            return "caught"

        asyncio.get_running_loop().call_soon(future.cancel)
        assert await swiftly(answer()) == "caught"

    run(main())


def test_it_may_wait_for_a_task_which_may_do_all_that_tasks_do() -> None:
    async def limited() -> str:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)
        return "not in time"

    async def main() -> None:
        async def answer() -> str:
            try:
                return await asyncio.get_running_loop().create_task(limited())
            except TimeoutError:
                return "in time"

        assert await swiftly(answer()) == "in time"

    run(main())


def test_several_take_turns() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in range(3)]
        results: list[int] = []

        async def answer(place: int) -> int:
            await futures[place]
            return place

        for place in range(3):
            run_swiftly(answer(place), results.append)
        for place in (2, 0, 1):
            futures[place].set_result(None)
            await asyncio.sleep(0)
        assert results == [2, 0, 1]

    run(main())
