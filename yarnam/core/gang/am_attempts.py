"""AM attempts: which failed ones count, and what a new one takes over from the one before.

YARN keeps an application's containers when its ApplicationMaster dies and hands them to the next
attempt. A gang that was launched continues in them: no process is restarted. A container that is
missing ends as any other: its end is reported. A gang in any other phase has nothing that is worth
keeping: it starts over, and what YARN has kept is released.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from yarnam.core.gang.context import StepContext
from yarnam.core.gang.elastic.in_place import resizes_in_place
from yarnam.core.gang.phases.barrier import gang_member
from yarnam.core.gang.state import Member, MemberState
from yarnam.core.model.actions import Action, AdoptedTask, AdoptGang, ReleaseKept
from yarnam.core.model.events import AmRestarted, Event, LeftRequest
from yarnam.core.model.job_spec import AmSpec


def replaced_from_s(am: AmSpec, earlier_ends_s: Iterable[float]) -> float | None:
    """From when on YARN starts another attempt if this one fails: 0 if it does at any time,
    ``None`` if it never does. Counted as in ``ends_the_job``."""
    allowed = am.attempts - 1
    if allowed <= 0:
        return None
    newest = sorted((end_s for end_s in earlier_ends_s if end_s), reverse=True)[:allowed]
    return newest[-1] + am.attempts_interval_s if len(newest) == allowed else 0.0


def ends_the_job(am: AmSpec, earlier_ends_s: Iterable[float], now_s: float) -> bool:
    """Whether one more failed AM attempt now is one too many. ``earlier_ends_s`` are the ends of
    the others; 0 for one that lives. YARN counts in the same way
    (``RMAppImpl.getNumFailedAppAttempts``), but leaves out those that were not the application's
    own fault (preempted, lost with their node)."""
    began_s = now_s - am.attempts_interval_s
    return 1 + sum(end_s > began_s for end_s in earlier_ends_s) >= am.attempts


# ---- guards --------------------------------------------------------------------------------------


def is_kept(ctx: StepContext, event: AmRestarted) -> bool:
    """YARN has kept a container of the gang, and no task is leaving or joining it in place."""
    resizing, kept = ctx.resizing, set(event.kept)
    is_joining = resizing.growth is not None and bool(resizing.growth.members)
    if resizing.leaving or (is_joining and resizes_in_place(ctx.policy)):
        return False
    return any(
        member.is_holding and member.grant is not None and member.grant.container in kept
        for member in ctx.gang.members
    )


# ---- operations ----------------------------------------------------------------------------------


def adopt(ctx: StepContext, event: AmRestarted) -> None:
    """AdoptGang; start the timers again with the time left. The gang does not grow now."""
    ctx.gang = replace(ctx.gang, am_attempt=event.am_attempt)
    ctx.drop_growth("the ApplicationMaster was started again")
    ctx.resizing = replace(ctx.resizing, is_probing=False)
    ctx.rearm()
    members = ctx.gang.members
    ctx.do(
        AdoptGang(
            ctx.gang.attempt,
            tuple(gang_member(member) for member in members),
            tuple(member.ask for member in members if member.is_waiting),
            tuple(
                _adopted(member)
                for member in members
                if member.is_holding and member.grant is not None
            ),
        )
    )


def _adopted(member: Member) -> AdoptedTask:
    assert member.grant is not None
    has_exited = member.state is MemberState.EXITED
    return AdoptedTask(
        member.ask,
        member.grant.container,
        member.grant.node,
        is_started=has_exited or member.state is MemberState.STARTED,
        is_ready=member.is_serving,
        has_exited=has_exited,
        log_address=member.agent.log_address if member.agent is not None else "",
    )


def release_others(ctx: StepContext, event: AmRestarted) -> None:
    """ReleaseKept for the containers that nothing has adopted."""
    adopted = {
        task.container for one in ctx.actions if isinstance(one, AdoptGang) for task in one.tasks
    }
    others = tuple(container for container in event.kept if container not in adopted)
    if others:
        release: Action = ReleaseKept(others)
        ctx.actions.insert(0, release)


# ---- requests that were left for it --------------------------------------------------------------


def is_obeyed(request: LeftRequest, journal: Iterable[Event]) -> bool:
    """Whether an AM attempt that died before it could remove the request has journaled it."""
    return any(
        isinstance(event, type(request))
        and event.at_s >= request.at_s
        and replace(event, at_s=request.at_s) == request
        for event in journal
    )
