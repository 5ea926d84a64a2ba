"""Calls with a time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from hdfs_utils.concurrency.deadline import (
    MAX_ABANDONED,
    DeadlineExceeded,
    DeadlinePool,
    TooManyStuckCalls,
)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What stuck calls wait for; opened at the end, so that no thread stays."""
    event = threading.Event()
    yield event
    event.set()


def test_results_and_errors_come_back() -> None:
    pool = DeadlinePool()
    assert pool.run(lambda: 7, 5) == 7

    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        pool.run(fail, 5)


def test_a_stuck_call_is_left_behind_in_time(gate: threading.Event) -> None:
    pool = DeadlinePool()
    start = time.monotonic()
    with pytest.raises(DeadlineExceeded, match=r"0\.1 s"):
        pool.run(gate.wait, 0.1)
    assert 0.1 <= time.monotonic() - start < 2
    assert pool.run(lambda: 1, 5) == 1


def test_threads_are_used_again() -> None:
    pool = DeadlinePool()
    threads = {pool.run(threading.get_ident, 5) for _ in range(50)}
    assert len(threads) == 1


def test_calls_run_side_by_side() -> None:
    pool = DeadlinePool()
    barrier = threading.Barrier(8)
    callers = [
        threading.Thread(target=pool.run, args=(lambda: barrier.wait(5), 5)) for _ in range(8)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(10)
    assert not barrier.broken


def test_stuck_calls_are_bounded_and_leave(gate: threading.Event) -> None:
    pool = DeadlinePool()
    for _ in range(MAX_ABANDONED):
        with pytest.raises(DeadlineExceeded):
            pool.run(gate.wait, 0.001)
    with pytest.raises(TooManyStuckCalls):
        pool.run(lambda: 1, 5)
    gate.set()
    deadline = time.monotonic() + 5
    while True:
        try:
            assert pool.run(lambda: 1, 5) == 1
            break
        except TooManyStuckCalls:
            assert time.monotonic() < deadline
            time.sleep(0.01)
