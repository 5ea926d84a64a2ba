"""A job's outlook as text and as JSON: shared by ``plan`` and ``submit --dry-run``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from yarnam._light_imports import on_first_use
from yarnam.cli.rendering.cluster_picture import picture
from yarnam.cli.rendering.console import Line, table
from yarnam.cli.rendering.status_text import start_text
from yarnam.core.admission.forecast import Forecast, UnknownStart, as_status
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_spec import COPIES_SHARE, SAVES_IN_MEMORY, PreRunMode
from yarnam.core.model.job_status import measured_words
from yarnam.core.model.plans import NoFit, PlacementPlan, Rung
from yarnam.core.model.printable import duration

if TYPE_CHECKING:
    from yarnam.client.planning.outlook import Outlook
    from yarnam.client.planning.queue_comparison import QueueOutlook

with on_first_use():
    from yarnam.client.submit import upload
    from yarnam.wire import codec

MOST_RANK_LINES = 16
"""Tasks of a longer list to show, half of them from each end."""


def as_plain(found: Outlook) -> dict[str, Any]:
    """What ``--json`` shows."""
    public, _ = upload.without_secrets(found.job)
    now: dict[str, Any] = {"fits": found.fits_now, "rungs": [], "no_fit": None}
    if isinstance(found.now, PlacementPlan):
        now["rungs"] = [codec.to_plain(rung) for rung in found.now.rungs]
    else:
        now["no_fit"] = codec.to_plain(found.now)
    return {
        "job": codec.to_plain(public),
        "plan": codec.to_plain(found.ladder),
        "now": now,
        "ranks": [codec.to_plain(task) for task in found.tasks],
        "forecast": _forecast_plain(found.start),
        "predicted": None if found.predicted is None else codec.to_plain(found.predicted),
        "measured": None if found.measured is None else codec.to_plain(found.measured),
        "taken_at_s": found.snapshot.taken_at_s,
    }


def as_text(found: Outlook) -> Iterator[Line]:
    """The job, its placements, ranks, the cluster and the expected wait."""
    yield from _job(found)
    yield ""
    yield "Placements, tightest first. The job requests the first that fits:"
    yield from _ladder(found)
    if extra := len(found.ladder.extra_targets):
        yield f"and {extra} tasks pinned to nodes, so that YARN cannot swap them"
    yield ""
    if found.fits_now:
        yield f"Ranks on rung {found.best.number} (YARN may choose other nodes at the same level):"
    else:
        yield "Ranks on the first rung:"
    yield from _ranks(found)
    yield ""
    yield from picture(found.snapshot, _mine(found))
    yield ""
    yield from _now(found)


def queues_text(rows: Sequence[QueueOutlook]) -> Iterator[Line]:
    """When the job would start in each queue."""
    yield from table(
        ("QUEUE", "FITS NOW", "LIKELY START", "9 IN 10 WITHIN", "WHY NOT KNOWN"),
        [_queue_row(row) for row in rows],
    )
    yield "The times assume that gangs end as their ages and declared durations suggest."


def _queue_row(row: QueueOutlook) -> tuple[str, ...]:
    start = row.start
    if isinstance(start, Forecast):
        latest = "-" if start.latest_s == inf else duration(start.latest_s)
        likely = "now" if start.likely_s <= 0.0 else duration(start.likely_s)
        return (row.queue, _yes(row.fits_now), likely, latest, "")
    if start is None:
        return (row.queue, "no", "never", "-", row.never)
    return (row.queue, _yes(row.fits_now), "-", "-", start.reason)


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def queues_plain(rows: Sequence[QueueOutlook]) -> list[dict[str, Any]]:
    """For ``--json``. ``forecast`` is null where the job can never run."""
    return [
        {
            "queue": row.queue,
            "fits_now": row.fits_now,
            "never": row.never or None,
            "forecast": None if row.start is None else _forecast_plain(row.start),
        }
        for row in rows
    ]


def _job(found: Outlook) -> Iterator[str]:
    job = found.job
    yield f"{job.name}: {job.gpus} GPUs, queue {job.queue}, {job.framework}"
    steps = found.snapshot.steps
    for role in job.roles:
        each, taken = role.resources, steps.rounded(role.resources)
        tasks = f"{role.tasks}" if role.min_tasks is None else f"{role.min_tasks} to {role.tasks}"
        yield (
            f"  {role.name}: {tasks} x ({each.gpus} GPUs, {each.vcores} vcores, "
            f"{each.memory_mib} MiB), {role.processes_per_task} processes each"
            + (
                f"; YARN rounds up to {taken.memory_mib} MiB"
                * (taken.memory_mib != each.memory_mib)
            )
            + (f"; YARN rounds up to {taken.vcores} vcores" * (taken.vcores != each.vcores))
        )
    if job.flexible_shape:
        yield "  The planner may choose another number of tasks with the same total of GPUs."
    yield from _larger(found)
    yield from _copies(found)
    if job.may_have_pre_run:
        [role] = job.as_pre_run().roles
        passed = ", unless it has passed one" if job.pre_run.mode is PreRunMode.AUTO else ""
        yield f"  Pre-run of one process first ({role.resources}){passed}"
    yield from _measured(found)
    if found.predicted is not None:
        yield f"  By earlier runs: {found.predicted.reason}. Other sizes: yarnam advise"
    am = steps.rounded(job.am.resources)
    yield f"  ApplicationMaster: {am.vcores} vcores, {am.memory_mib} MiB"


def _measured(found: Outlook) -> Iterator[str]:
    if found.measured is None:
        return
    words = measured_words(found.measured.step_s, found.measured.peak_memory_mib)
    yield f"  Passed a pre-run in {found.measured.application}" + (f": {words}" if words else "")
    if (needed := found.needs_more_memory) is not None:
        yield f"  By that a container of it needs {needed} MiB, more than it asks for"


def _larger(found: Outlook) -> Iterator[str]:
    """To what its containers are enlarged when it runs out of memory."""
    job = found.job
    if job.retry.more_memory is None:
        return
    held = max((target.memory_level for target in found.checked.larger), default=0)
    steps = [
        " and ".join(
            f"{role.resources.memory_mib} MiB ({role.name})"
            for role in job.at_memory_level(level).roles
        )
        + (", which no node could hold" if level > held else "")
        for level in range(1, job.memory_levels + 1)
    ]
    yield f"  After running out of memory: {'; then '.join(steps)}"


def _copies(found: Outlook) -> Iterator[str]:
    """What ``checkpoint.memory`` may use."""
    job = found.job
    if not job.checkpoint.in_memory:
        return
    roles = [role for role in job.roles if not role.service]
    for role in roles:
        memory_mib = role.resources.memory_mib
        yield (
            f"  Checkpoints in memory: at most {int(memory_mib * COPIES_SHARE)} of the "
            f"{memory_mib} MiB of each container of {role.name}, which is enough for "
            f"{int(memory_mib * COPIES_SHARE / SAVES_IN_MEMORY)} MiB saved by each task"
        )
    if len({task.node for task in found.tasks}) > 1:
        yield "  Their copies on other nodes use the network for at most half of the time"
    else:
        yield "  They have no copies on other nodes: all tasks are on one node"


def _ladder(found: Outlook) -> Iterator[Line]:
    fitting = _fitting(found)
    rows = []
    for rung in found.ladder.rungs:
        sums: dict[tuple[str, int], int] = {}
        for ask in rung.asks:
            key = (ask.target.role, ask.target.resources.gpus)
            sums[key] = sums.get(key, 0) + ask.count
        asks = " + ".join(
            f"{count} x {gpus} GPUs" if gpus else f"{count} {role}"
            for (role, gpus), count in sums.items()
        )
        mark = "now" if _rung_key(rung) in fitting else ""
        level = rung.level.name
        rows.append((str(rung.number), level, asks, f"{rung.score:.2f}", mark, rung.reason))
    return table(("RUNG", "LEVEL", "CONTAINERS", "SCORE", "FITS", "REASON"), rows)


def _fitting(found: Outlook) -> set[object]:
    if isinstance(found.now, NoFit):
        return set()
    # Rungs of pinned tasks differ only in their nodes.
    return {_rung_key(rung) for rung in found.now.rungs}


def _rung_key(rung: Rung) -> object:
    nodes = sorted(node for ask in rung.asks for node in ask.expected_nodes)
    return rung.number, rung.level, rung.score, tuple(nodes), rung.reason


def _ranks(found: Outlook) -> Iterator[Line]:
    rows: list[tuple[str, ...]] = [
        (
            _ranks_of(task.first_rank, task.processes),
            task.task,
            task.node,
            task.rack,
            str(task.gpus),
        )
        for task in found.tasks
    ]
    if len(rows) > MOST_RANK_LINES:
        half = MOST_RANK_LINES // 2
        hidden = f"({len(rows) - 2 * half} more)"
        rows = [*rows[:half], ("…", hidden, "", "", ""), *rows[-half:]]
    return table(("RANKS", "TASK", "NODE", "RACK", "GPUS"), rows)


def _ranks_of(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first}-{first + count - 1}"


def _mine(found: Outlook) -> dict[NodeId, int]:
    mine: dict[NodeId, int] = {}
    for task in found.tasks:
        mine[task.node] = mine.get(task.node, 0) + task.gpus
    return mine if found.fits_now else {}


def _now(found: Outlook) -> Iterator[str]:
    if isinstance(found.now, PlacementPlan):
        yield (
            f"The job fits now, on rung {found.best.number}. YARN grants the containers with the "
            "next node heartbeats."
        )
        if found.wait_s:
            yield f"But other jobs start first. {_forecast_words(found.start)}"
        return
    yield f"The job does not fit now: {found.now.message} ({found.now.reason.value})."
    for change in found.now.changes:
        yield f"  {change.text}"
    if not found.now.changes and found.now.hint:
        yield f"  {found.now.hint}"
    yield _forecast_words(found.start)


def _forecast_plain(start: Forecast | UnknownStart) -> dict[str, Any]:
    """Seconds from now; ``None`` means unknown."""
    if isinstance(start, UnknownStart):
        return {"wait_s": None, "reason": start.reason}
    latest_s = None if start.latest_s == inf else start.latest_s
    return {
        "wait_s": start.likely_s,
        "soonest_s": start.soonest_s,
        "latest_s": latest_s,
        "passed_until_s": start.bypassed_until_s,
        "reason": None,
    }


def _forecast_words(start: Forecast | UnknownStart) -> str:
    if isinstance(start, UnknownStart):
        return f"Start time unknown: {start.reason}. The job would wait until its gang fits."
    if start.likely_s <= 0.0:
        return "No wait expected."
    return f"It would be {start_text(as_status(start, 0.0), 0.0)}."
