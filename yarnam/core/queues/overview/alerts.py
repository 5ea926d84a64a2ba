"""Alerts for administrators: a node that jobs have struck thrice, a queue without its minimum for
an hour, a gang that waits beyond its forecast.

``step_alerts`` is all there is to it: from what was known at the last look, and what is seen now,
follow the new state and what to say. Each alert is said once and cleared once. What could not be
read at a look neither raises nor clears anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from yarnam.core.model.printable import duration
from yarnam.core.model.snapshot import NodeStrike
from yarnam.core.model.tickets import NOT_ITS_TURN
from yarnam.core.queues.queue_state import QueueState
from yarnam.core.queues.queues_now import QueueJob, QueuesNow, Stage
from yarnam.core.queues.waiting import why_waiting

STRIKES = 3
"""So many strikes against one node are an alert. Two already exclude it from the job that they are
of (``BlacklistSpec.strikes``); one more is beyond what one job learns."""

STRIKES_FOR_S = 86400.0
"""How long a strike counts. A job tells others of one for half an hour; a fault that comes with
load shows once a shift. The figure is our own choice."""

SHORT_FOR_S = 3600.0
"""How long a queue has to be without its minimum. Preemption and the end of a checkpoint take
minutes."""

LONGEST_GAP_S = 7200.0
"""Looks that are further apart say nothing of the time between: the hour begins again."""

MOST_ALERTS = 1000
"""Alerts that are watched at a time; more would be one and the same fault."""

MOST_STRIKES = 2000
MOST_OF_A_NODE = 8
"""Strikes that are remembered: in all, and against one node, the newest."""

MOST_EXPLAINED = 50
"""Late gangs whose reason is worked out."""

MOST_TEXT = 500


class AlertKind(Enum):
    NODE_STRUCK = "node-struck"
    QUEUE_SHORT = "queue-short"
    GANG_LATE = "gang-late"


@dataclass(frozen=True, slots=True)
class Alert:
    """``subject``: the node, the queue or the application."""

    kind: AlertKind
    subject: str
    since_s: float
    """When the condition began, as far as was seen; seconds since the epoch."""
    text: str
    is_said: bool = True
    """``False``: it holds, and not for long enough yet."""
    seen_s: float = 0.0
    """The last look at which it held."""


@dataclass(frozen=True, slots=True)
class AlertState:
    """What one look leaves to the next."""

    alerts: tuple[Alert, ...] = ()
    strikes: tuple[NodeStrike, ...] = ()

    @property
    def active(self) -> tuple[Alert, ...]:
        """Those that were said and not cleared, the oldest first."""
        return tuple(sorted((one for one in self.alerts if one.is_said), key=_age))


NO_ALERTS = AlertState()


@dataclass(frozen=True, slots=True)
class Waiting:
    """A gang that waits, and whether that is beyond its forecast."""

    is_late: bool
    since_s: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at the cluster. ``None``: this part could not be read."""

    strikes: tuple[NodeStrike, ...] | None = None
    short: Mapping[str, str] | None = None
    """The queues without their minimum, and that in words."""
    waiting: Mapping[str, Waiting] | None = None
    """The gangs that wait, by application."""


@dataclass(frozen=True, slots=True)
class AlertStep:
    state: AlertState
    said: tuple[Alert, ...] = ()
    cleared: tuple[Alert, ...] = ()


@dataclass(slots=True)
class _Book:
    """Lives inside one call of ``step_alerts``."""

    now_s: float
    kept: dict[tuple[AlertKind, str], Alert] = field(default_factory=dict)
    said: list[Alert] = field(default_factory=list)
    cleared: list[Alert] = field(default_factory=list)


def step_alerts(previous: AlertState, seen: Observation, now_s: float) -> AlertStep:
    """The new state, and the alerts that are new and over since the previous look."""
    book = _Book(now_s)
    before = {(one.kind, one.subject): one for one in previous.alerts}
    strikes = previous.strikes
    if seen.strikes is not None:
        strikes = _remembered((*previous.strikes, *seen.strikes), now_s)
    known = {
        AlertKind.NODE_STRUCK: None if seen.strikes is None else _struck(strikes),
        AlertKind.QUEUE_SHORT: _short(before, seen.short, now_s),
        AlertKind.GANG_LATE: _late(before, seen.waiting),
    }
    for key, old in before.items():
        now_holding = known[old.kind]
        if now_holding is None:
            book.kept[key] = old
        elif old.subject in now_holding:
            new = now_holding[old.subject]
            if new.is_said and not old.is_said:
                book.said.append(new)
            # The words are those in which it was said.
            book.kept[key] = replace(old, seen_s=now_s) if old.is_said else _at(new, now_s)
        elif old.is_said:
            book.cleared.append(old)
    for kind, holding in known.items():
        for subject, new in sorted((holding or {}).items()):
            if (kind, subject) in before or len(book.kept) >= MOST_ALERTS:
                continue
            book.kept[kind, subject] = _at(new, now_s)
            if new.is_said:
                book.said.append(book.kept[kind, subject])
    state = AlertState(tuple(sorted(book.kept.values(), key=_age)), strikes)
    return AlertStep(state, tuple(book.said), tuple(book.cleared))


def _at(alert: Alert, now_s: float) -> Alert:
    return replace(alert, seen_s=now_s)


def _age(alert: Alert) -> tuple[float, str, str]:
    return alert.since_s, alert.kind.value, alert.subject


def _remembered(strikes: tuple[NodeStrike, ...], now_s: float) -> tuple[NodeStrike, ...]:
    """Each once, the newest first; none that is too old, or of the future."""
    of_node: dict[str, int] = {}
    kept: list[NodeStrike] = []
    for strike in sorted(set(strikes), key=lambda one: (-one.at_s, one.node, one.job, one.why)):
        is_recent = now_s - STRIKES_FOR_S < strike.at_s <= now_s
        count = of_node.get(strike.node, 0)
        if is_recent and count < MOST_OF_A_NODE and len(kept) < MOST_STRIKES:
            of_node[strike.node] = count + 1
            kept.append(strike)
    return tuple(kept)


def _struck(strikes: tuple[NodeStrike, ...]) -> dict[str, Alert]:
    of_node: dict[str, list[NodeStrike]] = {}
    for strike in strikes:
        of_node.setdefault(strike.node, []).append(strike)
    found: dict[str, Alert] = {}
    for node, mine in of_node.items():
        if len(mine) < STRIKES:
            continue
        jobs = len({one.job for one in mine})
        by = "one job" if jobs == 1 else f"{jobs} jobs"
        last = f"; the last time: {mine[0].why}" if mine[0].why else ""
        text = f"node {node} was struck {len(mine)} times within a day by {by}{last}"
        found[node] = Alert(AlertKind.NODE_STRUCK, node, mine[-1].at_s, text[:MOST_TEXT])
    return found


def _short(
    before: Mapping[tuple[AlertKind, str], Alert], short: Mapping[str, str] | None, now_s: float
) -> dict[str, Alert] | None:
    if short is None:
        return None
    found: dict[str, Alert] = {}
    for queue, text in short.items():
        old = before.get((AlertKind.QUEUE_SHORT, queue))
        was_said = old is not None and old.is_said
        goes_on = old is not None and 0 <= now_s - old.seen_s <= LONGEST_GAP_S
        since_s = old.since_s if old is not None and (goes_on or was_said) else now_s
        is_said = was_said or now_s - since_s >= SHORT_FOR_S
        words = f"{text}, for {duration(now_s - since_s)}"
        found[queue] = Alert(AlertKind.QUEUE_SHORT, queue, since_s, words[:MOST_TEXT], is_said)
    return found


def _late(
    before: Mapping[tuple[AlertKind, str], Alert], waiting: Mapping[str, Waiting] | None
) -> dict[str, Alert] | None:
    """Once late, a gang is late until it waits no more: forecasts move."""
    if waiting is None:
        return None
    return {
        job: Alert(AlertKind.GANG_LATE, job, one.since_s, one.text[:MOST_TEXT])
        for job, one in waiting.items()
        if one.is_late or (AlertKind.GANG_LATE, job) in before
    }


# ---- one look ------------------------------------------------------------------------------------


def observe(now: QueuesNow, strikes: tuple[NodeStrike, ...] | None) -> Observation:
    """Look at the cluster as an administrator's alerts do. Strikes against nodes that the cluster
    does not have are forged or old."""
    if strikes is not None:
        known = {node.node_id for node in now.all_nodes or now.nodes}
        strikes = tuple(one for one in strikes if one.node in known)
    if not now.knows_gangs:
        # Without the tickets nobody knows which queue wants its minimum.
        return Observation(strikes)
    waiting = [job for job in now.jobs if job.stage is Stage.WAITS_FOR_GANG]
    short = {
        queue.name: _shortage(queue)
        for queue in now.root.walk()
        if queue.is_leaf and _is_short(queue, waiting, now)
    }
    found: dict[str, Waiting] = {}
    explained = 0
    for job in sorted(waiting, key=lambda one: (one.since_s, one.application)):
        is_late = _is_late(job, now.taken_at_s)
        why = ""
        if is_late and explained < MOST_EXPLAINED:
            explained += 1
            why = f": {why_waiting(job, now).reason}"
        text = _lateness(job, now.taken_at_s) + why if is_late else ""
        found[job.application] = Waiting(is_late, job.since_s, text)
    return Observation(strikes, short, found)


def _is_short(queue: QueueState, waiting: list[QueueJob], now: QueuesNow) -> bool:
    left = queue.minimum.gpus - queue.used.gpus
    if left < 1 or now.closures.of_queue(queue.name) is not None:
        return False
    return queue.pending.gpus > 0 or any(
        job.queue == queue.name and _wants_gpus(job) and 0 < (job.gpus or 0) <= left
        for job in waiting
    )


def _wants_gpus(job: QueueJob) -> bool:
    return job.ticket is not None and job.ticket.blocked_reason in ("", NOT_ITS_TURN)


def _shortage(queue: QueueState) -> str:
    return (
        f"queue {queue.name} uses {queue.used.gpus} of its minimum of {queue.minimum.gpus} GPUs "
        "while its jobs wait"
    )


def _is_late(job: QueueJob, now_s: float) -> bool:
    return job.expected_by_s is not None and _wants_gpus(job) and now_s > job.expected_by_s


def _lateness(job: QueueJob, now_s: float) -> str:
    limit_s = (job.expected_by_s or now_s) - job.since_s
    return (
        f"{job.name or 'a job'} ({job.application}) of {job.user} in {job.queue} has waited "
        f"{duration(now_s - job.since_s)}, and was forecast to start within {duration(limit_s)}"
    )
