import asyncio

import pytest
from glbandits.serving.runtime.deadlines import OFTEN, Patience


def test_ends_waits_that_take_too_long_and_leaves_the_others() -> None:
    async def wait() -> float:
        loop, patience = asyncio.get_running_loop(), Patience()
        done, late = loop.create_future(), loop.create_future()
        for waiter in (done, late):
            patience.end_after(0.02, waiter)
        done.set_result(1)
        assert await done == 1
        began = loop.time()
        with pytest.raises(TimeoutError):
            await late
        return loop.time() - began

    # Half a minute late only if the machine stands still for so long.
    assert 0.01 < asyncio.run(wait()) < 30


def test_looks_again_for_those_whose_time_was_not_over() -> None:
    async def wait() -> None:
        loop, patience = asyncio.get_running_loop(), Patience()
        first, second = loop.create_future(), loop.create_future()
        patience.end_after(2 * OFTEN, first)
        await asyncio.sleep(OFTEN)
        patience.end_after(2 * OFTEN, second)
        for waiter in (first, second):
            with pytest.raises(TimeoutError):
                await waiter

    asyncio.run(wait())


def test_goes_on_in_another_event_loop() -> None:
    patience = Patience()

    async def wait() -> None:
        waiter = asyncio.get_running_loop().create_future()
        patience.end_after(0.01, waiter)
        with pytest.raises(TimeoutError):
            await waiter

    async def leave() -> None:
        patience.end_after(60.0, asyncio.get_running_loop().create_future())

    asyncio.run(wait())
    asyncio.run(leave())
    asyncio.run(wait())
