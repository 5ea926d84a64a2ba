"""Looks for GPUs that idle, by what the agents measure and the processes report."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from math import isfinite

from yarnam.core.failures.idle_gpus import IdleGpuWatch, RankUse, watch_idle_gpus
from yarnam.core.failures.rank_activity import RankActivity
from yarnam.core.gang import Gang, MemberState
from yarnam.core.model.events import IdleGpusFound
from yarnam.core.model.job_status import Phase
from yarnam.core.model.metrics import (
    COMPUTE_S,
    CPU_CORES,
    GPU_PERCENT,
    MEASURED_STEPS,
    READ_RATE,
    STEP_S,
    AgentMetrics,
)
from yarnam.ports import Clock, Inbox

log = logging.getLogger("yarnam.am")


class IdleGpuWatcher:
    """``poll`` is to be called at each look at the gang, every second or two."""

    def __init__(self, clock: Clock, inbox: Inbox) -> None:
        self._clock = clock
        self._inbox = inbox
        self._attempt = 0
        self._watch = IdleGpuWatch()

    def poll(
        self, gang: Gang, metrics: Sequence[AgentMetrics], activity: Sequence[RankActivity]
    ) -> None:
        """While some tasks start or have ended, the others wait for something else."""
        if gang.phase is not Phase.RUNNING or gang.is_pre_run:
            return
        if any(member.state is not MemberState.STARTED for member in gang.members):
            return
        if self._attempt != gang.attempt:
            self._attempt, self._watch = gang.attempt, IdleGpuWatch()
        before, now_s = self._watch.reported, self._clock.now_s()
        self._watch = watch_idle_gpus(self._watch, _uses(gang, metrics, activity), now_s)
        idle = self._watch.reported
        if idle != before:
            if idle is not None:
                log.warning("%s", idle.words)
            self._inbox(IdleGpusFound(now_s, gang.attempt, idle))


def _uses(
    gang: Gang, metrics: Sequence[AgentMetrics], activity: Sequence[RankActivity]
) -> list[RankUse]:
    asks = {member.ask for member in gang.members}
    paused = {one.rank for one in activity if one.pause}
    found = (
        use_of(one, is_paused=one.rank in paused)
        for one in metrics
        if one.attempt == gang.attempt and one.ask in asks
    )
    return [one for one in found if one is not None]


def use_of(metrics: AgentMetrics, *, is_paused: bool) -> RankUse | None:
    """None: its GPUs are not measured."""
    values = {name: value for name, value in metrics.values if isfinite(value) and value >= 0}
    percent = values.get(GPU_PERCENT)
    if percent is None:
        return None
    step_s, compute_s = values.get(STEP_S, 0.0), values.get(COMPUTE_S)
    return RankUse(
        gpu_percent=min(100.0, percent),
        cpu_cores=values.get(CPU_CORES, 0.0),
        read_bytes_per_s=values.get(READ_RATE, 0.0),
        is_paused=is_paused,
        has_steps=values.get(MEASURED_STEPS, 0.0) >= 1,
        own_share=None if compute_s is None or not step_s else min(1.0, compute_s / step_s),
    )
