"""The queues as lines of text and as plain values."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from xml.sax.saxutils import escape

from yarnam.cli.rendering.console import Line, table
from yarnam.core.model.printable import duration
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Closure, Scheduler, cordoned_nodes, cordons_text
from yarnam.core.queues.capacity.capacity_conversion import Conversion
from yarnam.core.queues.queue_state import QueueState
from yarnam.core.queues.queues_now import QueueJob, QueuesNow, Stage, largest_gangs
from yarnam.core.queues.waiting import why_waiting
from yarnam.wire import codec

BAR = 16
"""Characters of a bar; all of them are the GPUs of the cluster."""
MOST_JOBS = 30
"""Jobs that are listed of each kind."""

_FANCY = ("█", "░", "·")
_PLAIN = ("#", "-", ".")
_HEADERS = ("QUEUE", "USED, SHARE", "USED", "PENDING", "FAIR", "STEADY", "MIN", "MAX", "CAN TAKE",
           "WEIGHT", "POLICY", "AM SHARE", "APPLICATIONS")  # fmt: skip
_CAPACITY_HEADERS = ("QUEUE", "USED, CAPACITY", "USED", "PENDING", "CAPACITY", "MAX", "ONE USER",
                     "CAN TAKE", "ORDER", "AM SHARE", "APPLICATIONS")  # fmt: skip


def queue_lines(
    now: QueuesNow, shown: QueueState, policies: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Line]:
    """The tree from this queue down, its jobs, and what fits now. ``policies``: yarnam's own, in
    words, by the queues for which one is chosen."""
    total = now.root.maximum.gpus
    yield f"{total} GPUs, {now.free_gpus} free; all amounts but the AM share are GPUs"
    yield from (f"Missing: {trouble}" for trouble in now.troubles)
    top = shown.name.count(".")
    rows = [
        (f"{'  ' * (queue.name.count('.') - top)}{_own_name(queue, shown)}", *_cells(queue, now))
        for queue in shown.walk()
    ]
    is_fair = now.scheduler is Scheduler.FAIR
    yield from table(_HEADERS if is_fair else _CAPACITY_HEADERS, rows)
    used, share, rest = _marks()
    name = "fair share" if is_fair else "capacity"
    yield f"({used} in use, {share} the rest of the {name}, {rest} above it)"
    names = {queue.name for queue in shown.walk()}
    for queue in shown.walk():
        if is_fair and queue.promised_gpus > queue.fair_share.gpus > 0:
            yield (
                f"The fair shares below {queue.name} add up to {queue.promised_gpus} GPUs, and it"
                f" has {queue.fair_share.gpus}: not all of them can be met (yarnam queues lint)"
            )
    for name, chosen in sorted(policies.items()):
        if name in names:
            yield f"The gangs of {name} start by the policy {chosen}"
    for name, closure in sorted(now.closures.queues.items()):
        if name in names:
            yield f"{name} is stopped {closure.words}{_drain_text(closure, now.taken_at_s)}"
    if cordoned := cordoned_nodes(now.nodes):
        gpus = sum(node.total.gpus for node in cordoned)
        yield f"{gpus} GPUs are on cordoned nodes: {cordons_text(now.nodes)}"
    yield from _job_lines(now, shown)
    yield ""
    yield "GPUs of the largest gang that fits now"
    yield from table(
        ("GPUS PER TASK", "ONE NODE", "ONE RACK", "CLUSTER"),
        [
            (str(one.gpus_per_task), str(one.on_node), str(one.in_rack), str(one.in_cluster))
            for one in largest_gangs(now.nodes)
        ],
    )


def _drain_text(closure: Closure, now_s: float) -> str:
    if closure.drain_by_s is None:
        return ""
    left_s = closure.drain_by_s - now_s
    return f"; its gangs leave within {duration(left_s)}" if left_s > 0 else "; it was drained"


def _own_name(queue: QueueState, shown: QueueState) -> str:
    return queue.name if queue is shown else queue.name.rpartition(".")[2]


def _cells(queue: QueueState, now: QueuesNow) -> tuple[str, ...]:
    weight = now.weights.get(queue.name)
    limit = now.own_maximum(queue).gpus
    most = "-" if limit > now.root.maximum.gpus else str(limit)
    bar = _bar(queue, now.root.maximum.gpus), str(queue.used.gpus), str(queue.pending.gpus)
    last = (
        queue.policy or "-",
        _am_share(queue) if queue.is_leaf else "-",
        f"{queue.running_jobs} active, {queue.pending_jobs} pending"
        + (f" (at most {queue.max_jobs})" if queue.max_jobs is not None else ""),
    )
    can_take = str(now.usable_gpus(queue))
    if now.scheduler is Scheduler.CAPACITY:
        one_user = "-" if queue.user_limit is None else str(queue.user_limit.gpus)
        return (*bar, str(queue.minimum.gpus), most, one_user, can_take, *last)
    return (
        *bar,
        str(queue.fair_share.gpus),
        str(queue.steady_share.gpus),
        str(queue.minimum.gpus),
        most,
        can_take,
        "-" if weight is None else f"{weight:g}",
        *last,
    )


def _bar(queue: QueueState, total: int) -> str:
    used_mark, share_mark, rest_mark = _marks()
    scale = BAR / total if total else 0.0
    used = min(BAR, round(queue.used.gpus * scale))
    share = min(BAR, max(used, round(queue.fair_share.gpus * scale)))
    return used_mark * used + share_mark * (share - used) + rest_mark * (BAR - share)


def _marks() -> tuple[str, str, str]:
    try:
        "".join(_FANCY).encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return _PLAIN
    return _FANCY


def _am_share(queue: QueueState) -> str:
    if queue.am_limit == Resources():
        return f"{queue.am_used.memory_mib} MiB"
    return f"{queue.am_used.memory_mib} of {queue.am_limit.memory_mib} MiB"


def _job_lines(now: QueuesNow, shown: QueueState) -> Iterator[Line]:
    for title, stages in (
        ("Waiting", (Stage.WAITS_FOR_AM, Stage.WAITS_FOR_GANG)),
        ("Running", (Stage.RUNNING,)),
    ):
        jobs = jobs_of(now, shown, stages)
        if not jobs:
            continue
        yield ""
        yield f"{title}: {len(jobs)}"
        headers = ("ID", "NAME", "USER", "QUEUE", "GPUS", "FOR")
        is_waiting = title == "Waiting"
        yield from table(
            (*headers, "WHY") if is_waiting else headers,
            [_job_row(job, now, is_waiting=is_waiting) for job in jobs[:MOST_JOBS]],
        )
        if len(jobs) > MOST_JOBS:
            yield f"... and {len(jobs) - MOST_JOBS} more; --json has all of them"


def jobs_of(now: QueuesNow, shown: QueueState, stages: Sequence[Stage]) -> list[QueueJob]:
    """The jobs of this queue and of those below it, the longest wait first."""
    found = [
        job
        for job in now.jobs
        if job.stage in stages
        and (job.queue == shown.name or job.queue.startswith(f"{shown.name}."))
    ]
    return sorted(found, key=lambda job: (job.since_s, job.application))


def why_lines(job: QueueJob, now: QueuesNow, own_reason: str = "") -> Iterator[Line]:
    """Why the job waits, and what would start it. ``own_reason`` is from its own status."""
    found = why_waiting(job, now)
    yield f"{job.application} ({job.name}) in {job.queue}: {found.reason}."
    if own_reason:
        yield f"  Its own status says: {own_reason}."
    if found.change:
        yield f"  What would start it: {found.change}."


def _job_row(job: QueueJob, now: QueuesNow, *, is_waiting: bool) -> tuple[str, ...]:
    row = (
        job.application,
        job.name,
        job.user,
        job.queue,
        "-" if job.gpus is None else str(job.gpus),
        duration(now.taken_at_s - job.since_s),
    )
    return (*row, why_waiting(job, now).reason) if is_waiting else row


def queues_plain(now: QueuesNow, shown: QueueState) -> dict[str, Any]:
    """For ``--json``."""
    return {
        "taken_at_s": now.taken_at_s,
        "troubles": list(now.troubles),
        "queues": [_queue_plain(queue, now) for queue in shown.walk()],
        "stopped": {name: codec.to_plain(one) for name, one in now.closures.queues.items()},
        "jobs": [job_plain(job, now) for job in jobs_of(now, shown, tuple(Stage))],
        "largest_gangs": [
            {
                "gpus_per_task": one.gpus_per_task,
                "node": one.on_node,
                "rack": one.in_rack,
                "cluster": one.in_cluster,
            }
            for one in largest_gangs(now.nodes)
        ],
    }


def _queue_plain(queue: QueueState, now: QueuesNow) -> dict[str, Any]:
    return {
        "name": queue.name,
        "is_leaf": queue.is_leaf,
        "policy": queue.policy,
        "weight": now.weights.get(queue.name),
        "steady_share": _amounts(queue.steady_share),
        "fair_share": _amounts(queue.fair_share),
        "minimum": _amounts(queue.minimum),
        "maximum": _amounts(queue.maximum),
        "used": _amounts(queue.used),
        "pending": _amounts(queue.pending),
        "am_used": _amounts(queue.am_used),
        "am_limit": _amounts(queue.am_limit),
        "can_take_gpus": now.usable_gpus(queue),
        "running_jobs": queue.running_jobs,
        "pending_jobs": queue.pending_jobs,
        "max_jobs": queue.max_jobs,
        "is_preemptable": queue.is_preemptable,
        "user_limit": None if queue.user_limit is None else _amounts(queue.user_limit),
    }


def job_plain(job: QueueJob, now: QueuesNow) -> dict[str, Any]:
    """One job for ``--json``."""
    wait = why_waiting(job, now)
    is_waiting = job.stage is not Stage.RUNNING
    return {
        "application": job.application,
        "name": job.name,
        "user": job.user,
        "queue": job.queue,
        "stage": job.stage.value,
        "since_s": job.since_s,
        "gpus": job.gpus,
        "cause": wait.cause if is_waiting else None,
        "reason": wait.reason if is_waiting else None,
        "change": wait.change if is_waiting else None,
    }


def _amounts(amounts: Resources) -> dict[str, int]:
    return {"memory_mib": amounts.memory_mib, "vcores": amounts.vcores, "gpus": amounts.gpus}


def conversion_lines(found: Conversion) -> Iterator[Line]:
    """A move to the Capacity Scheduler, in GPUs."""
    yield "GPUs of each queue under the Fair Scheduler and under the Capacity Scheduler"
    yield from table(
        ("QUEUE", "FAIR: MIN", "SHARE", "CAPACITY", "AT MOST"),
        [
            (one.name, str(one.minimum), str(one.share), f"{one.capacity:.4g}", str(one.maximum))
            for one in found.queues
        ],
    )
    for queue in found.queues:
        for change in queue.changes:
            yield f"{queue.name}: {change}"
    yield ""
    yield from found.changes


def conversion_plain(found: Conversion) -> dict[str, Any]:
    """For ``--json``."""
    return {
        "queues": [
            {
                "name": one.name,
                "minimum_gpus": one.minimum,
                "share_gpus": one.share,
                "capacity_gpus": one.capacity,
                "maximum_gpus": one.maximum,
                "changes": list(one.changes),
            }
            for one in found.queues
        ],
        "settings": dict(found.settings),
        "changes": list(found.changes),
    }


def settings_xml(settings: Mapping[str, str]) -> str:
    """A Hadoop configuration file."""
    rows = "".join(
        f"  <property>\n    <name>{escape(name)}</name>\n    <value>{escape(text)}</value>\n"
        "  </property>\n"
        for name, text in settings.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{rows}</configuration>\n'
