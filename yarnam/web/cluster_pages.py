"""The pages of ``yarnam ui`` over all jobs and queues: values in, HTML out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.accounting.job_summary import JobSummary, sum_of
from yarnam.core.accounting.use_over_time import ROOT, UsePoint
from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.core.model.snapshot import Scheduler
from yarnam.core.queues.queue_state import QueueState
from yarnam.core.queues.queues_now import QueueJob, QueuesNow, Stage, largest_gangs
from yarnam.core.queues.waiting import Wait, why_waiting
from yarnam.web.charts import WIDTH, UseChart, use_chart
from yarnam.web.job_page import JobView
from yarnam.web.overview_pages import MOST_QUEUES, ClusterView, active_jobs, overview_of
from yarnam.web.rendering import html

WAITING_SHOWN = RUNNING_SHOWN = 200
CHARTS_SHOWN = 12
ACTIVE_SHOWN = ENDED_SHOWN = 100
"""Jobs in the lists, the newest; counts and sums are over all of them."""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """A filter of the listed jobs; an empty field matches any."""

    queue: str = ""
    """The queue with those below it."""
    user: str = ""
    state: str = ""

    def has(self, queue: str, user: str, state: str) -> bool:
        """Whether one job passes."""
        return (
            (not self.queue or queue == self.queue or queue.startswith(f"{self.queue}."))
            and self.user in ("", user)
            and self.state in ("", state)
        )


@dataclass(frozen=True, slots=True)
class JobsView:
    """``active`` and ``ended`` are all jobs, which ``chosen`` filters. ``troubles`` names the
    parts that are missing."""

    now_s: float
    active: Sequence[JobStatus] = ()
    ended: Sequence[JobSummary] = ()
    chosen: JobFilter = field(default_factory=JobFilter)
    troubles: Sequence[str] = ()
    cluster: ClusterView = ClusterView()


def jobs_page(view: JobsView) -> bytes:
    """The first page: the cluster, the jobs that have not ended, and the newest of those that
    have."""
    chosen, now = view.chosen, view.cluster.queues
    active, active_count = active_jobs(view.active, now, view.now_s, chosen.has, ACTIVE_SHOWN)
    ended = [one for one in view.ended if chosen.has(one.queue, one.user, one.state)]
    return html(
        "jobs.html",
        is_live=True,
        now_s=view.now_s,
        chosen=chosen,
        states=[state.value for state in JobState],
        troubles=view.troubles,
        overview=overview_of(view.cluster),
        now=now,
        share_name=_share_name(now),
        queues=[_queue_row(queue, now) for queue in now.root.walk()] if now is not None else [],
        most_queues=MOST_QUEUES,
        active=active,
        more_active=active_count - len(active),
        ended=ended[:ENDED_SHOWN],
        total=sum_of(ended),
    )


@dataclass(frozen=True, slots=True)
class UseView:
    """GPUs over time, ``root`` first; ``total_gpus`` of the cluster, if known. ``notes`` say what
    is not counted."""

    step_s: float
    queues: Mapping[str, Sequence[UsePoint]]
    total_gpus: int | None = None
    notes: Sequence[str] = ()


def queues_page(now: QueuesNow, troubles: Sequence[str] = (), use: UseView | None = None) -> bytes:
    """The queues, their use over time, why jobs wait, and what fits now."""
    jobs = sorted(now.jobs, key=lambda job: (job.since_s, job.application))
    stages = [job for job in jobs if job.stage is not Stage.RUNNING]
    # Each reason costs a look at all jobs.
    waiting = [(job, why_waiting(job, now)) for job in stages[:WAITING_SHOWN]]
    running: list[tuple[QueueJob, Wait | None]] = [
        (job, None) for job in jobs if job.stage is Stage.RUNNING
    ]
    return html(
        "queues.html",
        is_live=True,
        now=now,
        share_name=_share_name(now),
        titles=_titles(now.scheduler),
        queues=[_queue_row(queue, now) for queue in now.root.walk()],
        waiting=waiting,
        running=running[:RUNNING_SHOWN],
        waiting_count=len(stages),
        running_count=len(running),
        largest=largest_gangs(now.nodes),
        troubles=troubles,
        charts=_use_charts(use, now) if use is not None else [],
        use=use,
    )


def _use_charts(use: UseView, now: QueuesNow) -> list[UseChart]:
    """Draw the whole cluster, and the leaf queues with the most use."""
    sums = {
        name: sum(point.used + point.held_in_vain + point.waiting for point in points)
        for name, points in use.queues.items()
        if name in now.by_name and now.by_name[name].is_leaf
    }
    largest = sorted((name for name in sums if sums[name] > 0), key=lambda name: -sums[name])
    return [
        use_chart(name, points, use.step_s, use.total_gpus if name == ROOT else None)
        for name in (ROOT, *largest[:CHARTS_SHOWN])
        if (points := use.queues.get(name))
    ]


def _share_name(now: QueuesNow | None) -> str:
    return "fair share" if now is None or now.scheduler is Scheduler.FAIR else "capacity"


def problem_page(message: str, hint: str) -> bytes:
    """In place of a page that cannot be shown now."""
    return html("problem.html", is_live=True, message=message, hint=hint)


def view_of_record(record: HistoryRecord, now_s: float, home: str) -> JobView:
    """An ended job as its page shows it, from its history record."""
    status = JobStatus(
        record.application,
        record.name,
        record.user,
        record.queue,
        JobState(record.verdict.kind.value),
        at_s=record.ended_at_s,
        submitted_at_s=record.submitted_at_s,
        attempt=record.attempt_count,
        am_attempt=record.am_attempts,
        restarts=record.restarts,
        preemptions=record.preemptions,
        excluded_files=record.excluded_files,
        step=record.step,
        history=record.attempts,
        verdict=record.verdict,
        checkpoint=record.checkpoint,
        ledger=record.ledger,
        holdings=record.holdings,
    )
    return JobView(
        status, now_s, saved_step=record.saved_step, placements=record.placements, home=home
    )


def _queue_row(
    queue: QueueState, now: QueuesNow
) -> tuple[QueueState, int, int, int, tuple[int | None, ...]]:
    """The queue, its depth, the ends of its bar, and its amounts below ``_titles`` (None: no
    limit)."""
    total = now.root.maximum.gpus
    scale = WIDTH / total if total else 0.0
    used = min(WIDTH, round(queue.used.gpus * scale))
    share = min(WIDTH, max(used, round(queue.fair_share.gpus * scale)))
    depth = queue.name.count(".") - now.root.name.count(".")
    return queue, depth, used, share, _amounts(queue, now)


def _titles(scheduler: Scheduler) -> tuple[str, ...]:
    if scheduler is Scheduler.CAPACITY:
        return "Used", "Pending", "Capacity", "Max", "One user", "Can take"
    return "Used", "Pending", "Fair share", "Steady", "Min", "Max", "Can take"


def _amounts(queue: QueueState, now: QueuesNow) -> tuple[int | None, ...]:
    own = now.own_maximum(queue).gpus
    limit = None if own > now.root.maximum.gpus else own
    used, can_take = (queue.used.gpus, queue.pending.gpus), now.usable_gpus(queue)
    if now.scheduler is Scheduler.CAPACITY:
        one_user = None if queue.user_limit is None else queue.user_limit.gpus
        return (*used, queue.minimum.gpus, limit, one_user, can_take)
    shares = queue.fair_share.gpus, queue.steady_share.gpus, queue.minimum.gpus
    return (*used, *shares, limit, can_take)
