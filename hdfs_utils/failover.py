"""While a pair of NameNodes changes over, neither of them answers: whoever asks waits for that.

The native client asks both once and gives up; Hadoop's own goes on for minutes
(dfs.client.failover.max.attempts, 15 with pauses of up to 15 s).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hdfs_utils.deadline import DeadlineExceeded
from hdfs_utils.errors import HdfsError, SafeMode, Starting, Unavailable
from hdfs_utils.insist import insist

T = TypeVar("T")


def until_one_is_active(call: Callable[[], T], limit_s: float) -> T:
    """Call again while no NameNode takes the question, for ``limit_s`` seconds.

    ``call`` must be harmless to repeat: a NameNode may have died between the deed and its answer.

    Raises:
        Unavailable: the last one's; at once where a call itself took its whole limit.
    """
    return insist(call, limit_s, passes=_may_change_over)


def _may_change_over(error: HdfsError) -> bool:
    is_closed = isinstance(error, SafeMode) and not isinstance(error, Starting)
    is_silent = isinstance(error.cause, DeadlineExceeded)
    return isinstance(error, Unavailable) and not is_closed and not is_silent
