"""A few threads for many calls. Not an executor: those refuse work while Python shuts down, which
is when the last checkpoint is often on its way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

# Calls at once: what the native client needs to be fast (see docs/reference/hdfs-utils.md).
THREADS = 8


def for_each(call: Callable[[T], R], items: Iterable[T], threads: int = THREADS) -> list[R]:
    """``[call(item) for item in items]``, several at once; the first error ends it and is raised.

    The items are drawn one by one, so that a generator need not be held in memory.
    """
    waiting = enumerate(items)
    lock = threading.Lock()
    results: dict[int, R] = {}
    errors: list[BaseException] = []

    def work() -> None:
        while not errors:
            try:
                with lock:
                    number, item = next(waiting)
            except StopIteration:
                return
            try:
                results[number] = call(item)
            except BaseException as error:  # noqa: BLE001 - carried to the caller's thread
                errors.append(error)

    others = [
        threading.Thread(target=work, name="checkpoint", daemon=True) for _ in range(threads - 1)
    ]
    # One item needs no thread, so the first is done here while the others start.
    started = []
    for thread in others if threads > 1 else []:
        thread.start()
        started.append(thread)
    work()
    for thread in started:
        thread.join()
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(results))]
