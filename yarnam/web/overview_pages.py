"""What ``yarnam ui`` shows first, and its page of nodes: values in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from yarnam.core.model.job_status import JobStatus
from yarnam.core.model.printable import duration
from yarnam.core.model.snapshot import Closure, Node, NodeState, NodeStrike
from yarnam.core.model.tickets import MustWait
from yarnam.core.queues.overview.alerts import Alert
from yarnam.core.queues.overview.cluster_overview import (
    ClusterInfo,
    GpuUse,
    NodeRow,
    gpu_use,
    node_counts,
    node_rows,
)
from yarnam.core.queues.queues_now import QueueJob, QueuesNow, Stage
from yarnam.core.queues.waiting import Wait, why_waiting
from yarnam.web.charts import WIDTH
from yarnam.web.rendering import html

MOST_ALERTS = 20
MOST_QUEUES = 60
MOST_WAITING = 8
MOST_TROUBLED = 12
MOST_NODES = 1000
MOST_GANGS = 8
"""Gangs that are named on a node's row."""
MOST_STRIKES = 3
MOST_PLACES = 64
"""Jobs whose place in the wait queue is worked out for one page: each costs a look at all."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster as far as it is known; ``None`` where it is not."""

    info: ClusterInfo | None = None
    queues: QueuesNow | None = None
    strikes: Sequence[NodeStrike] = ()
    alerts: Sequence[Alert] = ()


@dataclass(frozen=True, slots=True)
class NodesView:
    """``nodes`` are those of ``yarnam nodes``; ``queues`` is ``None`` where it is not known who
    runs there. ``chosen`` is one of ``NodeRow.kinds``, or empty."""

    now_s: float
    nodes: Sequence[Node]
    queues: QueuesNow | None = None
    strikes: Sequence[NodeStrike] = ()
    chosen: str = ""
    troubles: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the bar of all GPUs, from ``x`` of its ``WIDTH`` on."""

    name: str
    style: str
    gpus: int
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class ShownNode:
    """A node as a row of text."""

    row: NodeRow
    why: str
    """Each reason on a line of its own; empty without any."""
    gangs: Sequence[tuple[QueueJob, int]]
    more_gangs: int


@dataclass(frozen=True, slots=True)
class LongWait:
    job: QueueJob
    wait: Wait
    location: str
    forecast: str


@dataclass(frozen=True, slots=True)
class ActiveJob:
    """A job that has not ended, of what YARN, the wait queue and its own status say."""

    application: str
    name: str
    user: str
    queue: str
    state: str
    gpus: int | None
    location: str
    forecast: str
    age_s: float | None
    training: JobStatus | None
    why: str


@dataclass(frozen=True, slots=True)
class Overview:
    """The cluster as the template of the first page shows it."""

    info: ClusterInfo | None
    use: GpuUse | None = None
    parts: Sequence[Part] = ()
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    nodes: Sequence[ShownNode] = ()
    more_nodes: int = 0
    waits: Sequence[LongWait] = ()
    running: int = 0
    waiting: int = 0
    wanted: Mapping[str, int] = field(default_factory=dict[str, int])
    """The GPUs that waiting jobs want, by queue with those below it."""
    alerts: Sequence[Alert] = ()
    more_alerts: int = 0


def overview_of(view: ClusterView) -> Overview:
    """Work out what is shown of the cluster."""
    alerts, now = tuple(view.alerts), view.queues
    shown, more = alerts[:MOST_ALERTS], max(0, len(alerts) - MOST_ALERTS)
    if now is None:
        return Overview(view.info, alerts=shown, more_alerts=more)
    nodes = now.all_nodes or now.nodes
    rows = node_rows(nodes, now.jobs, now.closures.nodes, view.strikes)
    troubled = [row for row in rows if row.needs_attention]
    waiting = [job for job in now.jobs if job.stage is not Stage.RUNNING]
    use = gpu_use(nodes)
    return Overview(
        view.info,
        use,
        _parts(use),
        node_counts(rows),
        [_shown(row, now.taken_at_s) for row in troubled[:MOST_TROUBLED]],
        max(0, len(troubled) - MOST_TROUBLED),
        _longest(waiting, now),
        len(now.jobs) - len(waiting),
        len(waiting),
        _wanted(waiting, now),
        shown,
        more,
    )


def nodes_page(view: NodesView) -> bytes:
    """All nodes, those that need attention first."""
    now = view.queues
    rows = node_rows(
        view.nodes,
        now.jobs if now is not None else (),
        now.closures.nodes if now is not None else {},
        view.strikes,
    )
    chosen = [row for row in rows if not view.chosen or view.chosen in row.kinds]
    return html(
        "nodes.html",
        is_live=True,
        now_s=view.now_s,
        use=gpu_use(view.nodes),
        parts=_parts(gpu_use(view.nodes)),
        counts=node_counts(rows),
        chosen=view.chosen,
        all_nodes=len(rows),
        nodes=[_shown(row, view.now_s) for row in chosen[:MOST_NODES]],
        more=max(0, len(chosen) - MOST_NODES),
        has_models=any(node.gpu_model for node in view.nodes),
        has_labels=any(node.labels for node in view.nodes),
        troubles=view.troubles,
    )


def active_jobs(
    active: Iterable[JobStatus],
    now: QueuesNow | None,
    now_s: float,
    passes: Callable[[str, str, str], bool],
    most: int,
) -> tuple[list[ActiveJob], int]:
    """The newest jobs that have not ended, as YARN and the wait queue have them, with what their
    own statuses add; and how many pass. ``passes`` is asked with queue, user and state."""
    statuses = {one.application: one for one in active if not one.state.is_final}
    jobs = {job.application: job for job in (now.jobs if now is not None else ())}
    chosen: list[str] = []
    for name in {*statuses, *jobs}:
        facts = statuses.get(name) or jobs[name]
        if passes(facts.queue, facts.user, _state(jobs.get(name), statuses.get(name))):
            chosen.append(name)
    newest = sorted(chosen, key=_number, reverse=True)[:most]
    positions = _QueuePositions(now)
    rows = [_active(name, jobs.get(name), statuses.get(name), positions, now_s) for name in newest]
    return rows, len(chosen)


def _number(application: str) -> tuple[int, ...]:
    return tuple(int(part) for part in application.split("_") if part.isdecimal())


def _active(
    application: str,
    job: QueueJob | None,
    status: JobStatus | None,
    positions: _QueuePositions,
    now_s: float,
) -> ActiveJob:
    facts = status or job
    assert facts is not None
    submitted_at_s = facts.submitted_at_s
    return ActiveJob(
        application,
        facts.name,
        facts.user,
        facts.queue,
        _state(job, status),
        _gpus(job, status),
        _location(job, status, positions),
        _forecast(job, status, now_s),
        now_s - submitted_at_s if submitted_at_s else None,
        status if status is not None and status.step is not None else None,
        status.reason.split("\n")[0] if status is not None else "",
    )


def _state(job: QueueJob | None, status: JobStatus | None) -> str:
    if status is not None:
        return status.state.value
    return "RUNNING" if job is not None and job.stage is Stage.RUNNING else "QUEUED"


def _gpus(job: QueueJob | None, status: JobStatus | None) -> int | None:
    if job is not None and job.gpus is not None:
        return job.gpus
    held = sum(len(task.gpu_ids) for task in status.tasks) if status is not None else 0
    return held or None


class _QueuePositions:
    """Where waiting jobs stand in the wait queue, for some of them."""

    def __init__(self, now: QueuesNow | None) -> None:
        self._now = now
        self._left = MOST_PLACES

    def of(self, job: QueueJob) -> str:
        if job.ticket is None or self._now is None or self._now.admission is None or not self._left:
            return ""
        self._left -= 1
        found = self._now.admission(job.ticket)
        if not isinstance(found, MustWait):
            return "next"
        return f"{found.ahead} ahead" if found.ahead else "next"


def _location(job: QueueJob | None, status: JobStatus | None, positions: _QueuePositions) -> str:
    names: list[str] = []
    if status is not None:
        names = [task.node for task in status.tasks if task.node]
    if not names and job is not None and job.gang is not None:
        names = [str(node) for node, _ in job.gang.nodes]
    names = sorted(set(names))
    if names:
        more = f" and {len(names) - 2} more" if names[2:] else ""
        return ", ".join(names[:2]) + more
    queue = status.wait_queue if status is not None else None
    if queue is not None:
        return f"{queue.ahead} ahead" if queue.ahead else "next"
    return positions.of(job) if job is not None and job.stage is not Stage.RUNNING else ""


def _forecast(job: QueueJob | None, status: JobStatus | None, now_s: float) -> str:
    if status is not None:
        end = status.predicted_end
        if end is not None and end.end_at_s is not None:
            return _until("ends", end.end_at_s, now_s)
        start = status.wait_queue.start if status.wait_queue is not None else None
        if start is not None and start.likely_at_s is not None:
            return _until("likely starts", start.likely_at_s, now_s)
    if job is None:
        return ""
    if job.gang is not None and job.gang.ends_at_s is not None:
        return _until("ends", job.gang.ends_at_s, now_s)
    return _until("starts", job.expected_by_s, now_s) if job.expected_by_s is not None else ""


def _until(verb: str, at_s: float, now_s: float) -> str:
    left_s = at_s - now_s
    late = f"{verb[:-1]} overdue by {duration(-left_s)}"
    return f"{verb} within {duration(left_s)}" if left_s >= 0 else late


def _longest(waiting: Sequence[QueueJob], now: QueuesNow) -> list[LongWait]:
    positions = _QueuePositions(now)
    longest = sorted(waiting, key=lambda job: (job.since_s, job.application))[:MOST_WAITING]
    return [
        LongWait(
            job, why_waiting(job, now), positions.of(job), _forecast(job, None, now.taken_at_s)
        )
        for job in longest
    ]


def _wanted(waiting: Iterable[QueueJob], now: QueuesNow) -> dict[str, int]:
    """Gangs that wait have not asked YARN for anything yet: its own word is the rest."""
    wanted = dict.fromkeys(now.by_name, 0)
    for job in waiting:
        for queue in now.path(job.queue):
            wanted[queue.name] += job.gpus or 0
    return {name: max(gpus, now.by_name[name].pending.gpus) for name, gpus in wanted.items()}


def _parts(use: GpuUse) -> list[Part]:
    found: list[Part] = []
    x = 0.0
    for name, style, gpus in (
        ("used", "training-kept", use.used), ("free", "waiting", use.free),
        ("closed", "held-incomplete", use.closed), ("broken", "training-lost", use.broken),
    ):  # fmt: skip
        width = WIDTH * gpus / use.total if use.total else 0.0
        found.append(Part(name, style, gpus, round(x, 1), round(width, 1)))
        x += width
    return found


def _shown(row: NodeRow, now_s: float) -> ShownNode:
    lines = [row.node.health] if row.node.health else []
    if row.closure is not None:
        if not row.node.health:
            lines.append(f"cordoned {row.closure.words}")
        lines.append(_order(row.closure, now_s))
    if row.node.state is NodeState.DECOMMISSIONING and row.closure is None:
        lines.append("it leaves the cluster; YARN's REST API does not tell until when")
    if row.is_stranded:
        free = row.node.free
        lacking = "memory" if free.memory_mib < 1 else "vcores"
        lines.append(f"no {lacking} is left for its {free.gpus} free GPUs")
    for strike in row.strikes[:MOST_STRIKES]:
        why = f": {strike.why}" if strike.why else ""
        lines.append(f"struck {duration(now_s - strike.at_s)} ago by {strike.job}{why}")
    if row.strikes[MOST_STRIKES:]:
        lines.append(f"and {len(row.strikes) - MOST_STRIKES} more strikes")
    gangs = row.gangs[:MOST_GANGS]
    return ShownNode(row, "\n".join(filter(None, lines)), gangs, len(row.gangs) - len(gangs))


def _order(closure: Closure, now_s: float) -> str:
    if closure.drain_by_s is None:
        return ""
    left_s = closure.drain_by_s - now_s
    if left_s > 0:
        return f"its gangs leave within {duration(left_s)}"
    return f"its drain ended {duration(-left_s)} ago"
