"""What a gang looks like to its user: ``JobStatus`` as far as the gang knows it."""

from __future__ import annotations

from datetime import datetime, timezone

from yarnam.gang.refusing import refused_in_words
from yarnam.gang.running import exit_text
from yarnam.gang.state import Gang, Member, MemberState, Recovery
from yarnam.model.events import TimerKind
from yarnam.model.outcomes import ProcessExit
from yarnam.model.status import JobState, JobStatus, Phase, RefusedNode, TaskStatus

STATES = {
    Phase.PENDING: JobState.QUEUED,
    Phase.ACQUIRING: JobState.ACQUIRING,
    Phase.LAUNCHING: JobState.STAGING,
    Phase.RUNNING: JobState.RUNNING,
    Phase.STOPPING: JobState.RUNNING,
    Phase.STORING: JobState.STORING,
    Phase.BACKING_OFF: JobState.QUEUED,
    Phase.SUSPENDED: JobState.SUSPENDED,
    Phase.SUCCEEDED: JobState.SUCCEEDED,
    Phase.FAILED: JobState.FAILED,
    Phase.CANCELLED: JobState.CANCELLED,
}

DEADLINES = {
    Phase.PENDING: (TimerKind.WAIT,),
    Phase.ACQUIRING: (TimerKind.RECOVERY, TimerKind.HOLD, TimerKind.ASK),
    Phase.LAUNCHING: (TimerKind.STAGING, TimerKind.LAUNCH),
    Phase.STOPPING: (TimerKind.STOP,),
    Phase.STORING: (TimerKind.STORE, TimerKind.STOP),
    Phase.BACKING_OFF: (TimerKind.BACKOFF,),
}
"""Which timers end a phase's wait, the first one that runs."""

HISTORY_SHOWN = 50
"""Attempts shown; the journal has them all."""


def describe(gang: Gang, now_s: float) -> JobStatus:
    """The gang's part of the status. Application, name, user, queue, addresses and metrics are the
    caller's to fill in (``dataclasses.replace``)."""
    granted = [member for member in gang.members if member.state is not MemberState.ASKED]
    levels: dict[str, int] = {}
    for member in granted:
        level = member.level.name.lower()
        levels[level] = levels.get(level, 0) + 1
    return JobStatus(
        application="",
        name="",
        user="",
        queue="",
        state=STATES[gang.phase],
        phase=gang.phase.value,
        reason=reason_line(gang, now_s),
        at_s=now_s,
        attempt=gang.attempt,
        max_attempts=gang.attempt - gang.failures - 1 + gang.max_attempts,
        am_attempt=gang.am_attempt,
        asked=gang.size if gang.recovery else len(gang.members) or gang.size,
        granted=len(granted),
        granted_by_level=tuple(levels.items()),
        ready=sum(member.agent is not None for member in granted),
        deadline_s=deadline_s(gang),
        restarts=gang.restarts,
        preemptions=gang.preemptions,
        blacklist=tuple(
            RefusedNode(one.node, one.until_s, one.why)
            for one in gang.exclusions
            if now_s < one.until_s
        ),
        tasks=tuple(_task(member) for member in gang.everyone),
        history=gang.history[-HISTORY_SHOWN:],
        verdict=gang.verdict,
    )


def deadline_s(gang: Gang) -> float | None:
    """When the current wait ends by its limit, or the back-off is over; None: nothing is waited
    for."""
    found = (gang.deadline_s(kind) for kind in DEADLINES.get(gang.phase, ()))
    return next((deadline for deadline in found if deadline is not None), None)


def reason_line(gang: Gang, now_s: float) -> str:
    """Why the job is in this state, in one line."""
    phase = gang.phase
    if phase is Phase.ACQUIRING:
        return _acquiring(gang, now_s)
    if phase is Phase.BACKING_OFF:
        return _backing_off(gang)
    if phase is Phase.PENDING:
        return "looking for room" if gang.is_started else "the ApplicationMaster is starting"
    if gang.is_staging:
        staged = sum(member.is_staged for member in gang.members)
        return f"{staged}/{gang.size} tasks have their inputs"
    if phase is Phase.LAUNCHING:
        started = sum(m.state in {MemberState.STARTED, MemberState.EXITED} for m in gang.members)
        return f"starting the processes: {started}/{gang.size} tasks{_left(gang, now_s)}"
    if phase is Phase.RUNNING:
        ended = sum(member.state is MemberState.EXITED for member in gang.members)
        if ended:
            return f"{ended}/{gang.size} tasks have ended{_past(gang)}"
        return f"{gang.size} tasks run{_growing(gang)}{_past(gang)}"
    if phase is Phase.STOPPING:
        return f"stopping: {gang.reason}{_left(gang, now_s)}"
    if phase is Phase.STORING:
        text = "the gang has succeeded, its outputs are being stored"
        return f"{text}; {gang.reason}" if gang.reason else text
    if gang.verdict is not None:
        return gang.verdict.message.splitlines()[0]
    return gang.reason


def _past(gang: Gang) -> str:
    """``; 1 restart, 2 preemptions so far``."""
    counts = (("restart", gang.restarts), ("preemption", gang.preemptions))
    told = [f"{count} {name}{'s' if count > 1 else ''}" for name, count in counts if count]
    return f"; {', '.join(told)} so far" if told else ""


def _replacing(gang: Gang, recovery: Recovery, now_s: float) -> str:
    """``lost worker-3 on n5 (agent silent): replacing it in place, 7/8 tasks held, 40 s left``."""
    held = sum(member.state is not MemberState.ASKED for member in gang.members)
    text = f"lost {recovery.text}: replacing in place, {held}/{gang.size} tasks held"
    if recovery.missing and not recovery.is_looking:
        text += f", no room yet ({gang.reason})"
    return f"{text}{_left(gang, now_s)}"


def _growing(gang: Gang) -> str:
    """What becomes of a growth, or became of the last one."""
    growth = gang.growth
    if growth is None:
        return f"; {gang.reason}" if gang.reason else ""
    if not growth.members:
        return f"; {growth.text}: looking for room"
    held = sum(member.state is not MemberState.ASKED for member in growth.members)
    return f"; {growth.text}: {held} of {len(growth.members)} more containers granted"


def _acquiring(gang: Gang, now_s: float) -> str:
    if gang.recovery is not None and not gang.recovery.is_first:
        return _replacing(gang, gang.recovery, now_s)
    levels: dict[str, int] = {}
    for member in gang.members:
        if member.state is not MemberState.ASKED:
            level = member.level.name.lower()
            levels[level] = levels.get(level, 0) + 1
    held = sum(levels.values())
    by_level = f" ({', '.join(f'{name} {n}' for name, n in levels.items())})" if levels else ""
    text = f"ACQUIRING {held}/{gang.size}{by_level}, attempt {_try(gang)}"
    limit = gang.deadline_s(TimerKind.HOLD)
    if limit is not None:
        text += f", hold ends in {max(0.0, limit - now_s):.0f} s"
    else:
        limit = gang.deadline_s(TimerKind.ASK)
        if limit is not None:
            text += f", first grant awaited for {max(0.0, limit - now_s):.0f} s more"
    if gang.recovery is not None and gang.recovery.missing:
        places = "no other place yet" if not gang.recovery.is_looking else "looking elsewhere"
        text += f"; {len(gang.recovery.missing)} not asked for any more, {places}"
    refused = refused_in_words(gang)
    return f"{text}; {refused}" if refused else text


def _backing_off(gang: Gang) -> str:
    until = gang.deadline_s(TimerKind.BACKOFF)
    clock = _clock(until) if until is not None else "soon"
    if gang.looks:
        return f"waiting for room: {gang.reason}; next look at {clock}"
    return f"backing off until {clock}, then attempt {_try(gang)}: {gang.reason}"


def _try(gang: Gang) -> str:
    return f"{gang.failures + 1} of {gang.max_attempts}"


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
