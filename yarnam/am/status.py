"""The whole job's status: what the gang knows, what the agents measure, what the AM knows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from yarnam.gang import Gang, describe
from yarnam.model.outcomes import Verdict
from yarnam.model.status import JobStatus, TaskStatus
from yarnam.ports import AgentMetrics
from yarnam.wire.records import JobRecord

_JOB_WORD = re.compile(r"(yarnam \w+ )JOB\b")

LOSS_NAMES = ("loss", "train_loss")
"""Metrics shown as the loss, the first that is there."""


@dataclass(frozen=True, slots=True)
class AmFacts:
    """What is the same during one AM attempt."""

    application: str
    am_attempt: int
    tracking_url: str = ""


def addressed(verdict: Verdict, application: str) -> Verdict:
    """With commands that can be typed as they stand: the core does not know the job's own id and
    writes ``JOB`` for it."""
    return replace(verdict, hint=_JOB_WORD.sub(rf"\g<1>{application}", verdict.hint))


def job_status(
    gang: Gang,
    record: JobRecord,
    facts: AmFacts,
    metrics: Sequence[AgentMetrics],
    now_s: float,
    trouble: str = "",
) -> JobStatus:
    """``trouble``: what holds the AM itself back (HDFS or the RM not answering); it comes before
    the gang's own reason."""
    by_rank = {metric.rank: metric for metric in metrics}
    lead = by_rank.get(0) or (metrics[0] if metrics else None)
    status = describe(gang, now_s)
    return replace(
        status,
        application=facts.application,
        name=record.job.name,
        user=record.job.user,
        queue=record.job.queue,
        reason=f"{trouble}; {status.reason}" if trouble else status.reason,
        submitted_at_s=record.submitted_at_s,
        am_attempt=facts.am_attempt,
        step=lead.step if lead else None,
        total_steps=lead.total_steps if lead else None,
        loss=_loss(lead),
        metrics=lead.values if lead else (),
        tasks=tuple(_measured(task, by_rank) for task in status.tasks),
        tracking_url=facts.tracking_url,
        checkpoint=record.job.checkpoint.directory,
        verdict=addressed(status.verdict, facts.application) if status.verdict else None,
    )


def _measured(task: TaskStatus, by_rank: dict[int, AgentMetrics]) -> TaskStatus:
    """With the metrics of the task's first rank that has any."""
    for rank in task.ranks:
        metric = by_rank.get(rank)
        if metric is not None and str(metric.ask) == task.ask:
            return replace(task, step=metric.step, loss=_loss(metric), metrics=metric.values)
    return task


def _loss(metric: AgentMetrics | None) -> float | None:
    values = dict(metric.values) if metric else {}
    return next((values[name] for name in LOSS_NAMES if name in values), None)


def progress(status: JobStatus) -> float | None:
    """In [0, 1]; None: not told by the job."""
    if status.step is None or not status.total_steps:
        return None
    return min(1.0, max(0.0, status.step / status.total_steps))
