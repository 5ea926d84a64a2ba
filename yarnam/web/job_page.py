"""A job's page: values in, HTML out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from statistics import median
from urllib.parse import quote

from yarnam.core.accounting.history_record import RunPlacement
from yarnam.core.model.job_status import JobState, JobStatus, Ledger, TaskStatus
from yarnam.core.model.metrics import Measured
from yarnam.core.observers.observer_registry import status_lines
from yarnam.web.charts import WIDTH, gang_timeline, line_chart
from yarnam.web.rendering import html
from yarnam.web.training_series import Series

SLOW = 1.5
"""A task's step time is marked from this multiple of the median of the gang on."""

_WAITS = frozenset(
    {JobState.QUEUED, JobState.ACQUIRING, JobState.STAGING, JobState.LAUNCHING, JobState.REPLACING}
)


@dataclass(frozen=True, slots=True)
class JobView:
    """The content of one job's page. ``status`` is the one that ``yarnam status`` shows."""

    status: JobStatus
    now_s: float
    events: Sequence[tuple[float, str]] = ()
    """Time and text, the newest first."""
    series: Sequence[Series] = ()
    step_times: Mapping[int, float] = field(default_factory=dict[int, float])
    """Step times by rank, in seconds."""
    saved_step: int | None = None
    placements: Sequence[RunPlacement] = ()
    """The nodes of each run, for a job that has ended."""
    home: str = ""
    """The address of the list of all jobs; empty if there is none."""
    has_api: bool = False
    logs: str = ""
    """The address of the job's logs as text; empty if they are not here."""
    node_scheme: str = "http"
    """The scheme of the NodeManagers' pages."""


@dataclass(frozen=True, slots=True)
class LedgerUse:
    """A part of the ledger's bar, from ``x`` of its ``WIDTH`` on."""

    name: str
    text: str
    x: float
    width: float
    wall_s: float
    gpu_s: float


def job_page(view: JobView) -> bytes:
    """The page, in UTF-8."""
    status = view.status
    drawn = [(series, line_chart(series.points)) for series in view.series]
    ended_at_s = status.verdict.decided_at_s if status.verdict is not None else 0.0
    return html(
        "job.html",
        status=status,
        findings=list(status_lines(status, view.now_s)),
        now_s=view.now_s,
        home=view.home,
        has_api=view.has_api,
        own_page=_own_page(status),
        logs=view.logs,
        container_logs={task.ask: container_logs(task, status, view) for task in status.tasks},
        is_live=not status.state.is_final,
        waits_since_s=waits_since_s(status),
        charts=[(series, chart) for series, chart in drawn if chart is not None],
        tasks=_tasks(status.tasks, view.step_times),
        spread=_spread(status.tasks),
        placements=view.placements,
        timeline=gang_timeline(
            status.holdings, status.history, status.submitted_at_s, ended_at_s or view.now_s
        ),
        uses=ledger_uses(status.ledger),
        saved_step=view.saved_step,
        events=view.events,
    )


def waits_since_s(status: JobStatus) -> float | None:
    """When the present wait began; ``None`` if the job does not wait."""
    if status.state not in _WAITS:
        return None
    if not status.history:
        return status.submitted_at_s or None
    last = status.history[-1]
    return last.started_at_s if last.ended_at_s is None else last.ended_at_s


def _own_page(status: JobStatus) -> str:
    """The page of a job that runs, if there is one. Others may write anything there."""
    is_link = status.tracking_url.startswith(("http://", "https://"))
    return status.tracking_url if is_link and not status.state.is_final else ""


_HOST_AND_PORT = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[0-9]{1,5}")
_CONTAINER = re.compile(r"container_[0-9a-z_]{1,60}")


def container_logs(task: TaskStatus, status: JobStatus, view: JobView) -> str:
    """The NodeManager's own page of the container's logs, where YARN decides who may read them;
    empty if there is none, or it is unknown."""
    is_known = _HOST_AND_PORT.fullmatch(task.http_address) and _CONTAINER.fullmatch(task.container)
    if not is_known or status.state.is_final:
        return ""
    path = f"node/containerlogs/{task.container}/{quote(status.user, safe='')}"
    return f"{view.node_scheme}://{task.http_address}/{path}"


def ledger_uses(ledger: Ledger | None) -> list[LedgerUse]:
    """The ledger as a bar, without what took no time."""
    found: list[LedgerUse] = []
    if ledger is None or not ledger.wall_s:
        return found
    x = 0.0
    for entry in ledger.entries:
        width = WIDTH * entry.wall_s / ledger.wall_s
        if entry.wall_s > 0:
            name = entry.use.value
            text = name.replace("-", " ")
            found.append(
                LedgerUse(name, text, round(x, 1), round(width, 1), entry.wall_s, entry.gpu_s)
            )
        x += width
    return found


def _tasks(
    tasks: Sequence[TaskStatus], step_times: Mapping[int, float]
) -> list[tuple[TaskStatus, float | None, bool, dict[str, Measured]]]:
    """Each task with the step time of its slowest rank, whether that is slow, and what it uses by
    name; by rack and node."""
    usual = median(step_times.values()) if step_times else 0.0
    rows = []
    for task in sorted(tasks, key=_position):
        step_s = max((step_times[rank] for rank in task.ranks if rank in step_times), default=None)
        rows.append((task, step_s, step_s is not None and step_s > SLOW * usual, _finite(task)))
    return rows


def _position(task: TaskStatus) -> tuple[list[tuple[bool, int, str]], tuple[int, ...]]:
    """Sort by rack, node and rank; ``node9`` comes before ``node10``."""
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", f"{task.rack} {task.node}", re.ASCII)
    named = [(one.isdecimal() and one.isascii(), one) for one in parts]
    return [(is_number, int(one) if is_number else 0, one) for is_number, one in named], (
        task.ranks or (1 << 30,)
    )


def _finite(task: TaskStatus) -> dict[str, Measured]:
    return {name: value for name, value in task.usage if isfinite(value)}


def _spread(tasks: Sequence[TaskStatus]) -> str:
    """``3 nodes in 2 racks``; empty if nothing is granted yet."""
    nodes = Counter(task.node for task in tasks if task.node)
    racks = {task.rack for task in tasks if task.rack}
    if not nodes:
        return ""
    text = f"{len(nodes)} node{'' if len(nodes) == 1 else 's'}"
    return text + (f" in {len(racks)} rack{'' if len(racks) == 1 else 's'}" if racks else "")
