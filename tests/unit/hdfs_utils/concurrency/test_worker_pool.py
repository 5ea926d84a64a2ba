"""Threads that work through items: results, errors, stuck calls, few threads."""

from __future__ import annotations

import threading

import pytest

from hdfs_utils.concurrency.deadline import DeadlinePool
from hdfs_utils.concurrency.worker_pool import WorkerPool
from hdfs_utils.errors import Unavailable


def test_results_come_in_the_order_of_the_items() -> None:
    assert WorkerPool(3).map(lambda item: item * 2, range(50)) == list(range(0, 100, 2))
    assert WorkerPool(3).map(lambda item: item * 2, iter([1, 2])) == [2, 4]
    assert WorkerPool(3).map(str, []) == []


def test_a_stuck_call_ends_the_pool_and_the_error_names_the_operation() -> None:
    stuck = threading.Event()
    deadlines = DeadlinePool()

    def call(_: int) -> None:
        deadlines.run(stuck.wait, 0.2)

    pool = WorkerPool(2, operation="read", abandon_after_s=0.1)
    try:
        with pytest.raises(Unavailable, match=r"did not return within 0\.2 s") as caught:
            pool.run(call, range(5))
    finally:
        stuck.set()
    assert (caught.value.operation, caught.value.outcome_unknown) == ("read", True)


def test_the_first_error_ends_the_pool() -> None:
    seen: list[int] = []

    def call(item: int) -> None:
        seen.append(item)
        if item == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        WorkerPool(1).run(call, range(100))
    assert seen == [0, 1, 2, 3]


def test_threads_that_the_system_does_not_give_are_done_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin, begun = threading.Thread.start, []

    def start(thread: threading.Thread) -> None:
        if len(begun) == 3:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    done: list[int] = []
    WorkerPool(100, stack=256 << 10).run(done.append, range(50))
    assert sorted(done) == list(range(50))
    assert threading.stack_size() == 0
