"""The status of a gang for its user: ``JobStatus`` as far as the gang knows it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from yarnam.core.gang.fitness import refusals_text
from yarnam.core.gang.phases.first_cause import exit_text
from yarnam.core.gang.state import Gang, Member, MemberState
from yarnam.core.model.events import TimerKind
from yarnam.core.model.job_status import (
    AttemptRecord,
    AwaitedJob,
    Condition,
    JobState,
    JobStatus,
    Phase,
    RefusedNode,
    TaskStatus,
    granted_text,
)
from yarnam.core.model.outcomes import ProcessExit, Straggler

STATES = {
    Phase.PENDING: JobState.QUEUED,
    Phase.ACQUIRING: JobState.ACQUIRING,
    Phase.CHECKING: JobState.ACQUIRING,
    Phase.STAGING: JobState.STAGING,
    Phase.LAUNCHING: JobState.LAUNCHING,
    Phase.RUNNING: JobState.RUNNING,
    Phase.STOPPING: JobState.RUNNING,
    Phase.REPLACING: JobState.REPLACING,
    Phase.STORING: JobState.STORING,
    Phase.BACKING_OFF: JobState.QUEUED,
    Phase.SUSPENDED: JobState.SUSPENDED,
    Phase.SUCCEEDED: JobState.SUCCEEDED,
    Phase.FAILED: JobState.FAILED,
    Phase.CANCELLED: JobState.CANCELLED,
}

IN_A_PRE_RUN = frozenset(
    {Phase.ACQUIRING, Phase.STAGING, Phase.LAUNCHING, Phase.RUNNING, Phase.STOPPING}
)
"""Phases in which a job with a pre-run under way is PRE_RUN to its user."""

DEADLINES = {
    Phase.PENDING: (TimerKind.WAIT,),
    Phase.ACQUIRING: (TimerKind.LOCALIZE, TimerKind.HOLD, TimerKind.ASK),
    Phase.CHECKING: (TimerKind.CHECK,),
    Phase.STAGING: (TimerKind.STAGING,),
    Phase.LAUNCHING: (TimerKind.LAUNCH, TimerKind.READY),
    Phase.RUNNING: (TimerKind.PRE_RUN, TimerKind.REFORM),
    Phase.STOPPING: (TimerKind.STOP,),
    Phase.REPLACING: (TimerKind.LOCALIZE, TimerKind.RECOVERY),
    Phase.STORING: (TimerKind.STORE, TimerKind.STOP),
    Phase.BACKING_OFF: (TimerKind.BACKOFF,),
    Phase.SUSPENDED: (TimerKind.SUSPENSION,),
}
"""Which timers end a phase's wait, the first one that runs."""

HISTORY_SHOWN = 50
"""Attempts shown; the journal has them all."""


def describe(gang: Gang, now_s: float) -> JobStatus:
    """The gang's part of the status. Application, name, user, queue, addresses and metrics are the
    caller's to fill in (``dataclasses.replace``)."""
    granted = [member for member in gang.members if member.state is not MemberState.ASKED]
    return JobStatus(
        application="",
        name="",
        user="",
        queue="",
        state=_state(gang),
        phase=gang.phase.value,
        reason=reason_line(gang, now_s),
        at_s=now_s,
        attempt=gang.attempt,
        max_attempts=gang.retries.max_attempts,
        free_attempts=max(0, gang.attempt - gang.acquisition.failures - 1),
        am_attempt=gang.am_attempt,
        asked=gang.size if gang.search else len(gang.members) or gang.size,
        granted=len(granted),
        granted_by_level=tuple(_by_level(gang).items()),
        ready=sum(member.agent is not None for member in granted),
        deadline_s=deadline_s(gang),
        restarts=gang.retries.restarts,
        preemptions=gang.retries.preemptions,
        blacklist=tuple(
            RefusedNode(one.node, one.until_s, one.why)
            for one in gang.nodes.exclusions
            if now_s < one.until_s
        ),
        tasks=tuple(_task(member) for member in gang.everyone),
        stragglers=_stragglers(gang),
        idle_gpus=gang.history[-1].idle_gpus
        if gang.history and gang.phase is Phase.RUNNING
        else None,
        conditions=_conditions(gang),
        history=_history(gang),
        verdict=gang.verdict,
        pre_run=gang.pre_run,
        awaited=still_awaited(gang),
    )


def _history(gang: Gang) -> tuple[AttemptRecord, ...]:
    """The last attempts; the one in progress shows its grants so far."""
    shown = gang.history[-HISTORY_SHOWN:]
    if not shown or shown[-1].ended_at_s is not None:
        return shown
    last = shown[-1]
    return (*shown[:-1], replace(last, granted=len(gang.granted_in(last.attempt))))


def _state(gang: Gang) -> JobState:
    is_pre_run = gang.is_pre_run and gang.phase in IN_A_PRE_RUN
    return JobState.PRE_RUN if is_pre_run else STATES[gang.phase]


def deadline_s(gang: Gang) -> float | None:
    """When the current wait ends by its limit, or the back-off is over; ``None`` without a wait."""
    found = (gang.deadline_s(kind) for kind in DEADLINES.get(gang.phase, ()))
    return next((deadline for deadline in found if deadline is not None), None)


def reason_line(gang: Gang, now_s: float) -> str:
    """Why the job is in this state, in one line."""
    if gang.verdict is not None:
        return gang.verdict.message.splitlines()[0]
    text = _reason(gang, now_s)
    return f"pre-run: {text}" if gang.is_pre_run and gang.is_started else text


def _reason(gang: Gang, now_s: float) -> str:
    left = _left(gang, now_s)
    match gang.phase:
        case Phase.PENDING if not gang.is_started:
            return "the ApplicationMaster is starting"
        case Phase.PENDING:
            return _awaiting(gang) or "searching for free capacity"
        case Phase.ACQUIRING:
            return _acquiring(gang, now_s)
        case Phase.CHECKING:
            asked = [member for member in gang.members if member.check == gang.checks]
            have = sum(member.measures is not None for member in asked)
            return f"checking nodes: {have} of {len(asked)} have answered{left}"
        case Phase.STAGING:
            staged = sum(member.is_staged for member in gang.members)
            return f"{staged} of {gang.size} tasks have their inputs"
        case Phase.LAUNCHING:
            up = {MemberState.STARTED, MemberState.EXITED}
            started = sum(member.state in up for member in gang.members)
            waiting = sum(member.is_to_start for member in gang.members)
            later = f", {waiting} wait for other roles" if waiting else ""
            return f"starting the processes: {started} of {gang.size} tasks started{later}{left}"
        case Phase.RUNNING:
            return f"{_running(gang)}{left}"
        case Phase.STOPPING:
            return f"stopping: {gang.reason}{left}"
        case Phase.REPLACING:
            return _replacing(gang, left)
        case Phase.STORING:
            text = "all processes have succeeded, storing the outputs"
            return f"{text}; {gang.reason}" if gang.reason else text
        case Phase.BACKING_OFF:
            return _backing_off(gang)
        case _:
            return gang.reason


def _awaiting(gang: Gang) -> str:
    """``waiting for prep (application_1_0001, RUNNING) to succeed, and 2 more jobs``."""
    left = still_awaited(gang)
    if not left:
        return ""
    others = len(left) - 1
    more = f", and {others} more job{'s' if others > 1 else ''}" if others else ""
    return f"waiting for {left[0].words}{more}"


def still_awaited(gang: Gang) -> tuple[AwaitedJob, ...]:
    """The jobs that have not ended."""
    awaited = gang.awaited if gang.verdict is None else ()
    return tuple(job for job in awaited if not job.has_ended)


def _running(gang: Gang) -> str:
    ended = sum(member.state is MemberState.EXITED for member in gang.members)
    if ended:
        return f"{ended} of {gang.size} tasks have ended{_past(gang)}"
    tasks = "1 task runs" if gang.size == 1 else f"{gang.size} tasks run"
    reforming = ", re-forming their group" if gang.timer(TimerKind.REFORM) else ""
    changing = f"{reforming}{_leaving(gang)}{_growing(gang)}{_departing(gang)}"
    return f"{tasks}{changing}{_slowed(gang)}{_past(gang)}"


def _departing(gang: Gang) -> str:
    """``; worker-1: n2 leaves the cluster, and the gang stops before that, by 14:20:05 UTC``."""
    going = [member for member in gang.members if member.leaves]
    if not going:
        return ""
    due_s = gang.deadline_s(TimerKind.LEAVE)
    more = f" and {len(going) - 1} more" if len(going) > 1 else ""
    by = f", by {_clock(due_s)}" if due_s is not None else ""
    return f"; {going[0].name}{more}: {going[0].leaves}, and the gang stops before that{by}"


def _leaving(gang: Gang) -> str:
    count = len(gang.resizing.leaving)
    if not count:
        return ""
    if gang.timer(TimerKind.NOTICE):
        return f", {count} more leave{'s' if count == 1 else ''}"
    return f", {count} more {'is' if count == 1 else 'are'} being stopped"


def _stragglers(gang: Gang) -> tuple[Straggler, ...]:
    return gang.history[-1].stragglers if gang.history and gang.phase is Phase.RUNNING else ()


def _conditions(gang: Gang) -> tuple[Condition, ...]:
    if not gang.history or gang.phase is not Phase.RUNNING:
        return ()
    return tuple(one for one in gang.history[-1].conditions if one.ended_at_s is None)


def _slowed(gang: Gang) -> str:
    """``; rank 3 on n2 computes ... times as fast, and 1 more``."""
    found = _stragglers(gang)
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f"; {found[0].words}{more}" if found else ""


def _past(gang: Gang) -> str:
    """``; 1 restart, 2 preemptions so far; containers enlarged to 3072 MiB``."""
    counts = (
        ("restart", gang.retries.restarts),
        ("preemption", gang.retries.preemptions),
        ("move of stragglers", gang.retries.straggler_moves),
    )
    parts = [f"{count} {name}{'s' if count > 1 else ''}" for name, count in counts if count]
    text = f"; {', '.join(parts)} so far" if parts else ""
    if gang.retries.memory_level and gang.members:
        most = max(member.target.resources.memory_mib for member in gang.members)
        text += f"; containers enlarged to {most} MiB"
    return text


def _replacing(gang: Gang, left: str) -> str:
    """``lost worker-3 on n5 (agent silent): replacing in place, 7 of 8 tasks held, 40 s left``."""
    search = gang.search
    assert search is not None
    held = sum(member.state is not MemberState.ASKED for member in gang.members)
    text = f"lost {search.why}: replacing in place, {held} of {gang.size} tasks held"
    if search.missing and not search.is_planning:
        text += f", no free capacity yet ({gang.reason})"
    if gang.is_localizing:
        text += f", {_localizing(gang)}"
    return f"{text}{left}"


def _growing(gang: Gang) -> str:
    """Describe the growth under way, or the result of the last one."""
    growth = gang.resizing.growth
    if growth is None:
        return f"; {gang.reason}" if gang.reason else ""
    if not growth.members:
        return f"; {growth.text}: searching for free capacity"
    if any(member.task is not None for member in growth.members):
        return f"; {growth.text}: {len(growth.members)} more tasks start"
    held = sum(member.state is not MemberState.ASKED for member in growth.members)
    return f"; {growth.text}: {held} of {len(growth.members)} more containers granted"


def _localizing(gang: Gang) -> str:
    ready = sum(member.state is MemberState.READY for member in gang.members)
    return f"localizing: {ready} of {gang.size} tasks are ready"


def _acquiring(gang: Gang, now_s: float) -> str:
    """``ACQUIRING, 3 of 4 granted (3 on planned nodes), attempt 2 of 3, hold ends in 100 s``, or
    ``localizing: 2 of 4 tasks are ready, attempt 2 of 3, 1700 s left``."""
    if gang.is_localizing:
        return f"{_localizing(gang)}, attempt {_try(gang)}{_left(gang, now_s)}"
    by_level = _by_level(gang)
    held = sum(by_level.values())
    granted = granted_text(held, gang.size, tuple(by_level.items()))
    text = f"ACQUIRING, {granted}, attempt {_try(gang)}"
    limit = gang.deadline_s(TimerKind.HOLD)
    if limit is not None:
        text += f", hold ends in {max(0.0, limit - now_s):.0f} s"
    else:
        limit = gang.deadline_s(TimerKind.ASK)
        if limit is not None:
            text += f", waiting up to {max(0.0, limit - now_s):.0f} s for the first grant"
    search = gang.search
    if search is not None and search.missing:
        places = "searching other nodes" if search.is_planning else "no other place yet"
        text += f"; {len(search.missing)} not asked for any more, {places}"
    refused = refusals_text(gang)
    return f"{text}; {refused}" if refused else text


def _backing_off(gang: Gang) -> str:
    until = gang.deadline_s(TimerKind.BACKOFF)
    if gang.acquisition.refused_plans:
        when = f"at {_clock(until)}" if until is not None else "soon"
        return f"waiting for free capacity: {gang.reason}; next try {when}"
    clock = _clock(until) if until is not None else "soon"
    return f"backing off until {clock}, then attempt {_try(gang)}: {gang.reason}"


def _by_level(gang: Gang) -> dict[str, int]:
    """Granted members by locality level, in the order of the members."""
    levels: dict[str, int] = {}
    for member in gang.members:
        if member.state is not MemberState.ASKED:
            level = member.level.name.lower()
            levels[level] = levels.get(level, 0) + 1
    return levels


def _try(gang: Gang) -> str:
    return f"{gang.acquisition.failures + 1} of {gang.retries.max_attempts}"


def _left(gang: Gang, now_s: float) -> str:
    deadline = deadline_s(gang)
    return "" if deadline is None else f", {max(0.0, deadline - now_s):.0f} s left"


def _clock(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, tz=timezone.utc).strftime("%H:%M:%S UTC")


def _task(member: Member) -> TaskStatus:
    grant, agent = member.grant, member.agent
    ranks: tuple[int, ...] = ()
    if member.task is not None:
        count = member.target.processes_per_task
        ranks = tuple(range(member.first_rank, member.first_rank + count))
    return TaskStatus(
        task=member.name,
        ask=str(member.ask),
        state=member.state.value,
        node=grant.node if grant else "",
        rack=grant.rack if grant else "",
        container=grant.container if grant else "",
        ranks=ranks,
        gpu_ids=agent.gpu_ids if agent else (),
        log_address=agent.log_address if agent else "",
        exit_text=_exit_text(member),
        http_address=grant.http_address if grant else "",
        memory_limit_bytes=member.target.resources.memory_mib * 2**20,
    )


def _exit_text(member: Member) -> str:
    if member.loss is not None:
        return f"{member.loss.kind.value}: {member.loss.text}"
    if not member.exits:
        return ""
    return exit_text(min(member.exits, key=_badness))


def _badness(process: ProcessExit) -> tuple[bool, float]:
    """Failures before the others, the earliest first."""
    return process.kind.value in {"ok", "stopped"}, process.ended_at_s
