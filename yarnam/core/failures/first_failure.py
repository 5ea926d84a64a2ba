"""Find the failed process of a gang that was the first cause.

The first process to end is seldom the cause: a process that runs out of memory takes seconds to
end, while its peers notice the closed connection immediately. So evidence counts more than time:

1. processes that failed on their own, and whose evidence names the cause;
2. processes that failed on their own for an unknown reason;
3. processes that seem to have been stopped in time, but whose evidence names a cause of their own;
4. processes that waited in vain for another one;
5. processes that found another one gone: it may have been one of those that waited.

Within each group the earliest failure is the first cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from yarnam.core.model.outcomes import FailureClass, FailureRole, Finding


class Weight(IntEnum):
    """The value of one process's evidence, best first."""

    CAUSE = 0
    UNKNOWN = 1
    STOPPED = 2
    WAITED = 3
    SYMPTOM = 4


@dataclass(frozen=True, slots=True)
class FailedProcess:
    """A process that did not end well. The caller chooses ``key``."""

    key: int
    rank: int
    ended_at_s: float
    finding: Finding | None
    was_stopped: bool = False
    """The process ended after it had been asked to."""

    @property
    def at_s(self) -> float:
        """The time of the failure, as near as known."""
        known = self.finding.at_s if self.finding is not None else None
        return self.ended_at_s if known is None else min(known, self.ended_at_s)


def in_order_of_cause(processes: Sequence[FailedProcess]) -> list[FailedProcess]:
    """Return the first cause, then the other processes in the order in which they failed. A process
    that was stopped and shows no cause of its own is left out."""
    weights = {process.key: weight_of(process) for process in processes}
    known = [process for process in processes if weights[process.key] is not None]
    known.sort(key=lambda process: (process.at_s, process.rank))
    first = min(known, key=lambda process: weights[process.key] or 0, default=None)
    return [] if first is None else [first, *(process for process in known if process is not first)]


def weight_of(process: FailedProcess) -> Weight | None:
    """``None`` if the process was stopped and its evidence shows no cause of its own."""
    finding = process.finding
    if process.was_stopped:
        if finding is None or finding.role is not FailureRole.ROOT or finding.is_weak:
            return None
        return Weight.STOPPED if finding.line else None
    if finding is None or (finding.is_weak and finding.role is FailureRole.ROOT):
        return Weight.UNKNOWN
    if finding.role is FailureRole.ROOT:
        return Weight.CAUSE
    is_timeout = finding.failure is FailureClass.COMMUNICATION_ERROR
    return Weight.WAITED if is_timeout and finding.role is FailureRole.CASCADE else Weight.SYMPTOM
