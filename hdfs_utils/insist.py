"""Trying again while HDFS is in trouble that passes: with back-off, and not for ever."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from hdfs_utils.errors import HdfsError, LeaseLost

T = TypeVar("T")

FIRST_PAUSE_S = 0.2
# A NameNode in safe mode looks at its blocks every few seconds, and a pair of them changes over in
# seconds; asking less often than this only makes everybody wait longer.
MAX_PAUSE_S = 5.0

# Dice of its own: this runs in a thread of the training program, whose `random` must give the same
# numbers after the same seed, whatever HDFS does meanwhile.
_dice = random.Random()  # noqa: S311 - spreads load, guards nothing

# Full jitter, so that the ranks of a gang do not come back all at once:
# https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/


def is_passing(error: HdfsError) -> bool:
    """Whether it may go away by itself: unreachable, in safe mode, a lease that was lost."""
    return error.retriable or isinstance(error, LeaseLost)


def pause_s(tries: int) -> float:
    """How long to wait after so many tries in vain (from 1), in seconds."""
    most = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(tries - 1, 16))
    return _dice.uniform(0.0, most)


def insist(
    call: Callable[[], T],
    limit_s: float,
    *,
    on_trouble: Callable[[HdfsError, float], None] | None = None,
    stop: threading.Event | None = None,
    at_least: int = 1,
    passes: Callable[[HdfsError], bool] = is_passing,
) -> T:
    """Call until it works.

    Args:
        call: must be harmless to repeat.
        limit_s: after so many seconds of trouble the last error is raised.
        on_trouble: told of each error and of the seconds spent so far.
        stop: set it to end the waiting early, with the last error.
        at_least: how often it is called even where that takes longer than the limit.
        passes: which trouble may go away by itself.
    """
    began = time.monotonic()
    tries = 0
    while True:
        try:
            return call()
        except HdfsError as error:
            spent = time.monotonic() - began
            tries += 1
            wait = pause_s(tries)
            is_enough = spent + wait > limit_s and tries >= at_least
            if not passes(error) or is_enough or (stop and stop.is_set()):
                raise
            if on_trouble is not None:
                on_trouble(error, spent)
        if stop is None:
            time.sleep(wait)
        else:
            stop.wait(wait)
