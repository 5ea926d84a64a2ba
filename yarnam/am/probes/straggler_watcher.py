"""Looks for ranks that slow the gang, by what the processes report of their steps."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from math import isfinite

from yarnam.core.failures.straggler_detection import (
    RankPace,
    StragglerWatch,
    watch_stragglers,
)
from yarnam.core.gang import Gang, MemberState
from yarnam.core.model.events import StragglersFound
from yarnam.core.model.job_spec import StragglerSpec
from yarnam.core.model.job_status import Phase
from yarnam.core.model.metrics import COMPUTE_S, MEASURED_STEPS, STEP_S, AgentMetrics
from yarnam.ports import Clock, Inbox

log = logging.getLogger("yarnam.am")

MAX_STEPS = 1 << 53
"""A metric is a float of the program's own: beyond this it does not count."""


class StragglerWatcher:
    """``poll`` is to be called at each look at the gang, every second or two."""

    def __init__(self, spec: StragglerSpec, clock: Clock, inbox: Inbox) -> None:
        self._spec = spec
        self._clock = clock
        self._inbox = inbox
        self._attempt = 0
        self._watch = StragglerWatch()

    def poll(self, gang: Gang, metrics: Sequence[AgentMetrics]) -> None:
        """While some tasks start or have ended, the others wait for something else."""
        if gang.phase is not Phase.RUNNING or not self._spec.detect:
            return
        if any(member.state is not MemberState.STARTED for member in gang.members):
            return
        if self._attempt != gang.attempt:
            self._attempt, self._watch = gang.attempt, StragglerWatch()
        had_some = any(record.stragglers for record in gang.history)
        now_s = self._clock.now_s()
        self._watch, found = watch_stragglers(
            self._watch, _paces(gang, metrics), self._spec, now_s, is_none_news=had_some
        )
        if found is not None:
            for one in found:
                log.warning("%s", one.words)
            self._inbox(StragglersFound(now_s, gang.attempt, found))


def _paces(gang: Gang, metrics: Sequence[AgentMetrics]) -> list[RankPace]:
    """Of all ranks; empty: some have not said how fast they are."""
    nodes = {
        member.ask: str(member.grant.node) for member in gang.members if member.grant is not None
    }
    found = [
        pace
        for one in metrics
        if one.attempt == gang.attempt and one.ask in nodes
        if (pace := pace_of(one, nodes[one.ask])) is not None
    ]
    processes = sum(member.target.processes_per_task for member in gang.members)
    return found if len(found) == processes else []


def pace_of(metrics: AgentMetrics, node: str) -> RankPace | None:
    """None: it has measured no step, or says what cannot be."""
    values = dict(metrics.values)
    steps, step_s = values.get(MEASURED_STEPS, 0.0), values.get(STEP_S, 0.0)
    if not (isfinite(step_s) and step_s > 0 and 1 <= steps < MAX_STEPS):
        return None
    compute_s = values.get(COMPUTE_S)
    if compute_s is not None and not (isfinite(compute_s) and compute_s >= 0):
        return None
    return RankPace(metrics.rank, node, int(steps), float(step_s), compute_s)
