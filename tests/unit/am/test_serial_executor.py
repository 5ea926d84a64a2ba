"""Blocking ports in threads: order within a executor, none between executors."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from yarnam.am.serial_executor import ThreadSerialExecutor

pytestmark = pytest.mark.asyncio


async def test_calls_of_one_lane_keep_their_order() -> None:
    executor = ThreadSerialExecutor("one")
    done: list[int] = []

    def work(number: int) -> None:
        time.sleep(0.05 if number == 0 else 0.0)
        done.append(number)

    calls = [executor.call(lambda number=number: work(number)) for number in range(5)]  # type: ignore[misc]
    await asyncio.gather(*calls)
    executor.close()
    assert done == [0, 1, 2, 3, 4]


async def test_a_blocked_lane_blocks_neither_the_loop_nor_another_lane() -> None:
    slow, quick = ThreadSerialExecutor("slow"), ThreadSerialExecutor("quick")
    gate = threading.Event()
    blocked = asyncio.ensure_future(slow.call(lambda: gate.wait(5.0)))
    assert await asyncio.wait_for(quick.call(lambda: 7), 2.0) == 7
    assert not blocked.done()
    gate.set()
    assert await blocked
    slow.close()
    quick.close()


async def test_an_error_comes_back_to_the_caller() -> None:
    executor = ThreadSerialExecutor("one")
    with pytest.raises(ZeroDivisionError):
        await executor.call(lambda: 1 // 0)
    executor.close()
