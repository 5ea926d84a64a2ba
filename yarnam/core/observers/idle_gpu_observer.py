"""Finds GPUs that idle, by what the agents measure and the processes report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite

from yarnam.core.failures.idle_gpus import IdleGpuWatch, RankUse, watch_idle_gpus
from yarnam.core.model.events import IdleGpusFound
from yarnam.core.model.job_status import AttemptRecord, JobStatus
from yarnam.core.model.metrics import (
    COMPUTE_S,
    CPU_CORES,
    GPU_PERCENT,
    MEASURED_STEPS,
    READ_RATE,
    STEP_S,
    AgentMetrics,
)
from yarnam.core.observers.observer import NOTHING, Observation, Observer, StatusLine, View


@dataclass(frozen=True, slots=True)
class AttemptIdleGpus:
    attempt: int = 0
    watch: IdleGpuWatch = field(default_factory=IdleGpuWatch)


def observe(state: AttemptIdleGpus, view: View) -> tuple[AttemptIdleGpus, Observation]:
    gang = view.gang
    if not view.is_training or not view.is_whole:
        return state, NOTHING
    before = state.watch if state.attempt == gang.attempt else IdleGpuWatch()
    watch = watch_idle_gpus(before, _uses(view), view.now_s)
    state, idle = AttemptIdleGpus(gang.attempt, watch), watch.reported
    if idle == before.reported:
        return state, NOTHING
    warnings = () if idle is None else (idle.words,)
    return state, Observation((IdleGpusFound(view.now_s, gang.attempt, idle),), warnings)


def _uses(view: View) -> list[RankUse]:
    asks = {member.ask for member in view.gang.members}
    paused = {rank.rank for rank in view.activity if rank.pause}
    uses = (
        use_of(metrics, is_paused=metrics.rank in paused)
        for metrics in view.metrics
        if metrics.ask in asks
    )
    return [use for use in uses if use is not None]


def use_of(metrics: AgentMetrics, *, is_paused: bool) -> RankUse | None:
    """``None`` if nobody measures the GPUs of this process."""
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


def _event_text(event: IdleGpusFound) -> str:
    return "the GPUs are busy again" if event.idle is None else f"idle GPUs: {event.idle.words}"


def _lines(status: JobStatus, now_s: float) -> Iterator[StatusLine]:
    if status.idle_gpus is not None:
        yield StatusLine(f"idle GPUs: {status.idle_gpus.words}")


def _past(record: AttemptRecord) -> Iterator[str]:
    if record.idle_gpus is not None:
        yield f"idle GPUs: {record.idle_gpus.words}"


IDLE_GPUS = Observer(
    "idle-gpus", "", AttemptIdleGpus(), observe, IdleGpusFound, _event_text, _lines, _past
)
