"""Calling again what failed for a while: one loop for threads, one for asyncio.

The pauses grow exponentially to a cap, by default with full jitter, so that the ranks of a gang
do not all return together:
https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from hdfs_utils.concurrency.deadline import DeadlineExceeded
from hdfs_utils.errors import HdfsError, LeaseLost, SafeMode, Starting, Unavailable

T = TypeVar("T")

# Dice of its own: this runs in a thread of the training program, whose `random` must give the same
# numbers after the same seed, whatever HDFS does meanwhile.
_dice = random.Random()  # noqa: S311 - spreads load, guards nothing


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pauses between calls.

    The defaults are for HDFS: a NameNode in safe mode looks at its blocks every few seconds, and a
    pair of them fails over in seconds; asking less often only makes everybody wait longer.

    Attributes:
        first_s: the longest first pause, in seconds; each later one may be twice as long.
        cap_s: no pause is longer.
        is_jittered: whether a pause is drawn between 0 and what it may be at most.
    """

    first_s: float = 0.2
    cap_s: float = 5.0
    is_jittered: bool = True

    def pause_s(self, failures: int) -> float:
        """The pause after that many failures in a row (from 1), in seconds."""
        longest_s = min(self.cap_s, self.first_s * 2.0 ** min(failures - 1, 16))
        return _dice.uniform(0.0, longest_s) if self.is_jittered else longest_s


BACKOFF = Backoff()


def is_transient(error: Exception) -> bool:
    """Whether HDFS may get over it: it does not answer, is in safe mode, a lease was lost."""
    return isinstance(error, HdfsError) and (error.retriable or isinstance(error, LeaseLost))


def retry(
    call: Callable[[], T],
    limit_s: float,
    *,
    is_retriable: Callable[[Exception], bool] = is_transient,
    on_failure: Callable[[Any, float], object] | None = None,
    at_least: int = 1,
    backoff: Backoff = BACKOFF,
    sleep: Callable[[float], object] = time.sleep,
) -> T:
    """Call until it succeeds.

    Args:
        call: must be harmless to repeat.
        limit_s: no call begins later than that many seconds after the first; then the last error
            is raised.
        is_retriable: other errors are raised immediately.
        on_failure: told of each error that is retried, and of the seconds spent so far.
        at_least: this many calls are made even where they take longer than the limit.
        backoff: the pauses.
        sleep: waits that many seconds; what it raises ends it all.
    """
    failures = _Failures(limit_s, is_retriable, on_failure, at_least, backoff, time.monotonic)
    while True:
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - raised again where it is not retriable
            pause_s = failures.pause_after(error)
        sleep(pause_s)


async def retry_async(
    call: Callable[[], Awaitable[T]],
    limit_s: float,
    *,
    is_retriable: Callable[[Exception], bool] = is_transient,
    on_failure: Callable[[Any, float], object] | None = None,
    at_least: int = 1,
    backoff: Backoff = BACKOFF,
    sleep: Callable[[float], Awaitable[object]],
    now_s: Callable[[], float] = time.monotonic,
) -> T:
    """:func:`retry` for coroutines; ``sleep`` (``asyncio.sleep``) and ``now_s`` are the clock."""
    failures = _Failures(limit_s, is_retriable, on_failure, at_least, backoff, now_s)
    while True:
        try:
            return await call()
        except Exception as error:  # noqa: BLE001 - raised again where it is not retriable
            pause_s = failures.pause_after(error)
        await sleep(pause_s)


@dataclass(slots=True)
class _Failures:
    limit_s: float
    is_retriable: Callable[[Exception], bool]
    on_failure: Callable[[Any, float], object] | None
    at_least: int
    backoff: Backoff
    now_s: Callable[[], float]
    count: int = 0
    began_s: float = 0.0

    def __post_init__(self) -> None:
        self.began_s = self.now_s()

    def pause_after(self, error: Exception) -> float:
        """The pause before the next call, in seconds; raises ``error`` if there is to be none."""
        spent_s = self.now_s() - self.began_s
        left_s = self.limit_s - spent_s
        self.count += 1
        if not self.is_retriable(error) or (left_s <= 0 and self.count >= self.at_least):
            raise error
        if self.on_failure is not None:
            self.on_failure(error, spent_s)
        pause_s = self.backoff.pause_s(self.count)
        return min(pause_s, left_s) if left_s > 0 else pause_s


def retry_over_failover(call: Callable[[], T], limit_s: float) -> T:
    """Call again while a pair of NameNodes fails over and neither of them takes the question.

    The native client asks both once and gives up; Hadoop's own continues for minutes
    (dfs.client.failover.max.attempts: 15, with pauses of up to 15 s).

    Args:
        call: must be harmless to repeat: a NameNode may have died between the deed and its answer.
        limit_s: seconds.

    Raises:
        Unavailable: the last one's; immediately where a call itself took its whole limit.
    """
    return retry(call, limit_s, is_retriable=_is_failing_over)


def _is_failing_over(error: Exception) -> bool:
    if not isinstance(error, Unavailable) or isinstance(error.cause, DeadlineExceeded):
        return False
    return not isinstance(error, SafeMode) or isinstance(error, Starting)
