"""What running jobs and their tasks use: a row for each, and their order. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from yarnam.client.monitor.live.live_jobs import LiveJob
from yarnam.core.model.job_status import JobState, TaskStatus
from yarnam.core.model.metrics import (
    CPU_CORES,
    GPU_MEMORY_BYTES,
    GPU_PERCENT,
    GPU_WATTS,
    MEMORY_BYTES,
)

STALE_S = 10.0
"""Figures of this age are shown with it: a job that answers is read every other second."""


@dataclass(frozen=True, slots=True)
class JobUse:
    """The use of a job or of a task. What is not measured is ``None``."""

    id: str
    """An application, or the name of a task."""
    name: str
    """The job's name, or the task's node."""
    state: str
    ranks: tuple[int, ...] = ()
    gpu_ids: tuple[str, ...] = ()
    """Empty for a job."""
    gpus: int = 0
    gpu_percent: float | None = None
    """The mean of all its GPUs."""
    gpu_memory_bytes: float | None = None
    gpu_watts: float | None = None
    cpu_cores: float | None = None
    memory_bytes: float | None = None
    memory_limit_bytes: float | None = None
    """YARN ends a container that uses more. A job has the sum over the tasks that report memory."""
    step: int | None = None
    steps_per_s: float | None = None
    age_s: float | None = None
    """Set if the figures are old: the job does not answer. Infinite if it never has."""
    reason: str = ""
    """Why they are."""

    @property
    def memory_share(self) -> float | None:
        if self.memory_bytes is None or not self.memory_limit_bytes:
            return None
        return self.memory_bytes / self.memory_limit_bytes


class UsageOrder(Enum):
    """What rows are sorted by: the most first, and by name as a list of names."""

    NAME = "name"
    GPU = "gpu"
    GPU_MEMORY = "gpu-memory"
    POWER = "power"
    CPU = "cpu"
    MEMORY = "memory"
    STEP = "step"
    RATE = "rate"


def in_order(rows: Iterable[JobUse], order: UsageOrder | None) -> list[JobUse]:
    """Sorted; equal ones stay as they were, and those without the figure are last. Memory is
    compared as a share of the limit: at the whole the container ends."""
    if order is None:
        return list(rows)
    if order is UsageOrder.NAME:
        return sorted(rows, key=lambda row: row.name)

    def key(row: JobUse) -> float:
        value = _figure(row, order)
        return math.inf if value is None else -value

    return sorted(rows, key=key)


def _figure(row: JobUse, order: UsageOrder) -> float | None:
    figures = {
        UsageOrder.GPU: row.gpu_percent,
        UsageOrder.GPU_MEMORY: row.gpu_memory_bytes,
        UsageOrder.POWER: row.gpu_watts,
        UsageOrder.CPU: row.cpu_cores,
        UsageOrder.MEMORY: row.memory_share,
        UsageOrder.STEP: row.step,
        UsageOrder.RATE: row.steps_per_s,
    }
    return figures.get(order)


def job_use(job: LiveJob, now_s: float) -> JobUse:
    """The sums over its tasks, and the mean of what is in percent."""
    status = job.status
    tasks = [_task_use(job, task) for task in status.tasks]
    measured = [(task.gpu_percent, task.gpus) for task in tasks if task.gpu_percent is not None]
    weight = sum(gpus for _, gpus in measured)
    age_s = age_of(job, now_s)
    return JobUse(
        id=status.application,
        name=status.name,
        state=status.state.value,
        gpus=sum(task.gpus for task in tasks),
        gpu_percent=sum(share * gpus for share, gpus in measured) / weight if weight else None,
        gpu_memory_bytes=_sum(task.gpu_memory_bytes for task in tasks),
        gpu_watts=_sum(task.gpu_watts for task in tasks),
        cpu_cores=_sum(task.cpu_cores for task in tasks),
        memory_bytes=_sum(task.memory_bytes for task in tasks),
        memory_limit_bytes=_sum(
            task.memory_limit_bytes for task in tasks if task.memory_bytes is not None
        ),
        step=status.step,
        steps_per_s=_pace(job, "") or _predicted_pace(job),
        age_s=age_s,
        reason="" if age_s is None else status.reason,
    )


def task_uses(job: LiveJob) -> list[JobUse]:
    """In the order of their ranks; those without a process last."""
    tasks = sorted(job.status.tasks, key=lambda task: task.ranks or (math.inf,))
    return [_task_use(job, task) for task in tasks]


def age_of(job: LiveJob, now_s: float) -> float | None:
    """The age of figures that are old; ``None`` of those that are not, and of a job that has not
    begun."""
    status = job.status
    if status.state.is_final:
        return None
    if not job.read_at_s:
        return None if status.state is JobState.QUEUED else math.inf
    age_s = max(0.0, now_s - job.read_at_s)
    return age_s if status.is_last_known or age_s >= STALE_S else None


def _task_use(job: LiveJob, task: TaskStatus) -> JobUse:
    usage = {name: float(value) for name, value in task.usage if 0 <= value < math.inf}
    limit = task.memory_limit_bytes
    return JobUse(
        id=task.name,
        name=task.node,
        state=task.state,
        ranks=task.ranks,
        gpu_ids=task.gpu_ids,
        gpus=len(task.gpu_ids),
        gpu_percent=usage.get(GPU_PERCENT),
        gpu_memory_bytes=usage.get(GPU_MEMORY_BYTES),
        gpu_watts=usage.get(GPU_WATTS),
        cpu_cores=usage.get(CPU_CORES),
        memory_bytes=usage.get(MEMORY_BYTES),
        memory_limit_bytes=None if limit is None else float(limit),
        step=task.step,
        steps_per_s=_pace(job, task.name),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known: Sequence[float] = [value for value in values if value is not None]
    return sum(known) if known else None


def _pace(job: LiveJob, name: str) -> float | None:
    """Return the rate of the last minute, or ``None`` before two readings."""
    pace = job.paces.get(name)
    return pace.steps_per_s if pace is not None and len(pace.points) > 1 else None


def _predicted_pace(job: LiveJob) -> float | None:
    """By the AM's own forecast of the end: one reading is enough for it."""
    end, at_s = job.status.predicted_end, job.status.at_s
    if end is None or end.steps_left is None or end.end_at_s is None or end.end_at_s <= at_s:
        return None
    return end.steps_left / (end.end_at_s - at_s)
