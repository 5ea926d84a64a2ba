"""The result of a simulation for each queue: waits, GPU time, preemptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from yarnam.sim.report import percentile
from yarnam.sim.simulation import Outcome
from yarnam.sim.what_if.replay import Replay
from yarnam.sim.world import JobRecord

ALL = "all"
"""The row of all queues together."""


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """One leaf queue, or ``ALL``. Waits, in seconds, are those of jobs that started, from the
    submission until the whole gang stood."""

    queue: str
    jobs: int
    """Submitted jobs, including those that were refused."""
    refused: int
    """Jobs whose queue does not exist or takes no jobs, or whose tasks fit on no node."""
    unstarted: int
    """Jobs that never got their gang by the end of the run."""
    wait_mean_s: float
    wait_p50_s: float
    wait_p90_s: float
    wait_max_s: float
    gpu_hours: float
    """The GPU hours in its containers, idle or not."""
    share: float
    """Its share of all GPU time until the last job was submitted, in [0, 1]."""
    preemptions: int
    """How often a gang lost containers to queues below their share, and gave back the rest."""
    preempted_gpus: int
    """The GPUs in the containers that were taken."""


def queue_figures(outcome: Outcome, given: Replay) -> tuple[QueueFigures, ...]:
    """A row for each queue with jobs, by name, and one for all."""
    missing = {
        name: given.refused.get(name, 0) + given.too_large.get(name, 0)
        for name in (*given.refused, *given.too_large)
    }
    by_queue: dict[str, list[JobRecord]] = {name: [] for name in missing}
    for record in outcome.records:
        by_queue.setdefault(record.job.queue, []).append(record)
    until_s = max((record.job.submit_s for record in outcome.records), default=0.0)
    held, shares = _held(outcome, until_s)
    capacity = until_s * outcome.settings.rm.gpus
    taken = dict.fromkeys(by_queue, 0)
    for one in outcome.preempted:
        taken[one.queue] = taken.get(one.queue, 0) + one.gpus

    def row(name: str, queues: Iterable[str]) -> QueueFigures:
        names = list(queues)
        records = [record for queue in names for record in by_queue[queue]]
        waits = sorted(record.wait_s for record in records if record.wait_s is not None)
        refused = sum(missing.get(queue, 0) for queue in names)
        used = sum(shares.get(queue, 0.0) for queue in names)
        return QueueFigures(
            queue=name,
            jobs=len(records) + refused,
            refused=refused,
            unstarted=len(records) - len(waits),
            wait_mean_s=_mean(waits),
            wait_p50_s=percentile(waits, 0.5),
            wait_p90_s=percentile(waits, 0.9),
            wait_max_s=waits[-1] if waits else 0.0,
            gpu_hours=sum(held.get(queue, 0.0) for queue in names) / 3600.0,
            share=used / capacity if capacity else 0.0,
            preemptions=sum(record.preemptions for record in records),
            preempted_gpus=sum(taken.get(queue, 0) for queue in names),
        )

    rows = tuple(row(name, [name]) for name in sorted(by_queue))
    return (*rows, row(ALL, by_queue))


def _held(outcome: Outcome, until_s: float) -> tuple[dict[str, float], dict[str, float]]:
    """GPU-seconds by queue: until the end, and until ``until_s``."""
    whole: dict[str, float] = {}
    part: dict[str, float] = {}
    for container in outcome.containers:
        queue = outcome.records[container.job].job.queue
        end_s = outcome.ended_s if container.freed_s is None else container.freed_s
        gpus = container.resources.gpus
        whole[queue] = whole.get(queue, 0.0) + gpus * (end_s - container.granted_s)
        early_s = max(0.0, min(end_s, until_s) - container.granted_s)
        part[queue] = part.get(queue, 0.0) + gpus * early_s
    return whole, part


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
