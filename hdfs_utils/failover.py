"""While a pair of NameNodes changes over, neither of them answers: whoever asks waits for that.

The native client asks both once and gives up; Hadoop's own goes on for minutes
(dfs.client.failover.max.attempts, 15 with pauses of up to 15 s).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from hdfs_utils.deadline import DeadlineExceeded
from hdfs_utils.errors import SafeMode, Starting, Unavailable
from hdfs_utils.insist import pause_s

T = TypeVar("T")


def until_one_is_active(call: Callable[[], T], limit_s: float) -> T:
    """Call again while no NameNode takes the question, for ``limit_s`` seconds.

    ``call`` must be harmless to repeat: a NameNode may have died between the deed and its answer.

    Raises:
        Unavailable: the last one's; at once where a call itself took its whole limit.
    """
    deadline = time.monotonic() + limit_s
    tries = 0
    while True:
        try:
            return call()
        except Unavailable as error:
            tries += 1
            wait = pause_s(tries)
            is_silent = isinstance(error.cause, DeadlineExceeded)
            is_over = time.monotonic() + wait > deadline
            is_closed = isinstance(error, SafeMode) and not isinstance(error, Starting)
            if is_silent or is_over or is_closed:
                raise
        time.sleep(wait)
