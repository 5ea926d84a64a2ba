"""The AM's record of one process, from which it sees whether the process makes progress. No I/O."""

from __future__ import annotations

import statistics
from collections import deque
from math import isfinite

from yarnam.adapters.grpc.finding_messages import finding_of_report
from yarnam.core.failures.rank_activity import Collective, RankActivity
from yarnam.core.model.ids import AskId
from yarnam.core.model.outcomes import Finding
from yarnam.core.model.printable import printable
from yarnam.wire.pb import yarnam_pb2 as pb

KEPT_STEPS = 32
"""Times of steps of which the median is taken."""

LEAST_STEPS = 3
"""Fewer say nothing of what is usual: the first ones compile."""


MAX_TEXT = 100
"""Characters of a name that an agent tells."""


class RankWatch:
    """One process of one launch. Times are the AM's own: clocks of nodes differ."""

    def __init__(self, ask: AskId, rank: int, now_s: float) -> None:
        self._ask = ask
        self._rank = rank
        self._step: int | None = None
        self._step_at_s = now_s
        self._takes_s: deque[float] = deque(maxlen=KEPT_STEPS)
        self._steps = 0
        """Those that were seen to be done, with a pause or without."""
        self._pause = ""
        self._had_pause = False
        self._is_stopped = False
        self._has_ended = False
        self._idle_since_s: float | None = None
        self._stack: tuple[str, ...] | None = None
        self._collective: Collective | None = None
        self._raised: Finding | None = None
        self._raised_at_s = now_s

    def see(self, report: pb.ProcessReport, now_s: float) -> None:
        """A report on the process."""
        self._is_stopped = report.stopped
        self._has_ended = report.ended
        if not report.idle_s:
            self._idle_since_s = None
        elif self._idle_since_s is None:
            self._idle_since_s = now_s - report.idle_s
        self._stack = tuple(report.stack) if report.dumped else None
        self._collective = _collective(report) if report.dumped else None
        has_raised = report.dumped and report.HasField("raised_age_s")
        self._raised = finding_of_report(report.finding) if has_raised else None
        self._raised_at_s = now_s - _seconds(report.raised_age_s)
        if not report.HasField("metrics"):
            return
        self._pause = report.metrics.pause
        self._had_pause = self._had_pause or bool(self._pause)
        step = report.metrics.step if report.metrics.HasField("step") else None
        if step is None or step == self._step:
            return
        at_s = max(self._step_at_s, now_s - _seconds(report.metrics.age_s))
        if self._step is not None and step > self._step:
            steps = step - self._step  # a poll comes every 2 s, short steps more often
            self._steps += steps
            if not self._had_pause:
                took_s = (at_s - self._step_at_s) / steps
                self._takes_s.extend([took_s] * min(steps, KEPT_STEPS // 4))
        self._step, self._step_at_s, self._had_pause = step, at_s, bool(self._pause)

    def activity(self, now_s: float) -> RankActivity:
        """As of now."""
        known = len(self._takes_s) >= LEAST_STEPS
        idle_since_s = self._idle_since_s
        return RankActivity(
            ask=self._ask,
            rank=self._rank,
            step=self._step,
            step_age_s=max(0.0, now_s - self._step_at_s),
            step_s=statistics.median(self._takes_s) if known else None,
            has_stepped=self._steps >= LEAST_STEPS,
            has_ended=self._has_ended,
            pause=self._pause,
            is_stopped=self._is_stopped,
            idle_s=0.0 if idle_since_s is None else max(0.0, now_s - idle_since_s),
            stack=self._stack,
            collective=self._collective,
            raised=self._raised,
            raised_age_s=max(0.0, now_s - self._raised_at_s),
        )


def _seconds(value: float) -> float:
    return value if isfinite(value) and value > 0 else 0.0


def _collective(report: pb.ProcessReport) -> Collective | None:
    if not report.HasField("collective"):
        return None
    one = report.collective
    group, operation, state = (
        printable(text, max_length=MAX_TEXT) for text in (one.group, one.operation, one.state)
    )
    return Collective(group, operation, state, one.number)
