"""From the barrier to the end of the processes: starts, exits, losses, stops, first causes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from signal import Signals

from yarnam.errors import ExitCode
from yarnam.gang import nodes, recovery, resizing, storing
from yarnam.gang.ending import back_off, count_preemption, fail_attempt, finish
from yarnam.gang.state import (
    PS_ROLE,
    Gang,
    Loss,
    LossKind,
    Member,
    MemberState,
    StopKind,
    Stopping,
)
from yarnam.gang.turn import Turn
from yarnam.model.actions import StopTask
from yarnam.model.events import TaskExited, TaskStarted, TimerKind
from yarnam.model.outcomes import ContainerEnd, ExitKind, ProcessExit, VerdictKind
from yarnam.model.status import Phase

LAUNCHED = frozenset({Phase.LAUNCHING, Phase.RUNNING})

MAY_RUN = frozenset({MemberState.READY, MemberState.STARTED})
"""States of a launched member whose processes may run: the agent's word is awaited."""

HARMLESS = frozenset({ExitKind.OK, ExitKind.STOPPED})

LOSS_OF_END = {
    ContainerEnd.LOST: LossKind.NODE,
    ContainerEnd.PREEMPTED: LossKind.PREEMPTED,
    ContainerEnd.FAILED: LossKind.ENDED,
    ContainerEnd.EXITED: LossKind.ENDED,
    ContainerEnd.RELEASED: LossKind.ENDED,
}

AGAINST_THE_NODE = frozenset({LossKind.NODE, LossKind.SILENT, LossKind.UNABLE})

CAUSE_SLACK_S = 5.0
"""A loss noticed up to this much after a process failed may have caused it: peers of a lost task
fail at once, YARN's word comes a NodeManager heartbeat (1 s), an AM heartbeat (1 s) and a poll
later, and the nodes' clocks differ."""

LAST_LINES = 20
"""Lines of output in a verdict; the rest is in the logs."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """The process that failed first."""

    member: Member
    process: ProcessExit


def task_started(turn: Turn, event: TaskStarted) -> None:
    """Its processes run; with the last one the job runs."""
    member = turn.gang.find(event.ask)
    if member is None or event.attempt != turn.gang.attempt:
        return
    if member.state is not MemberState.READY or turn.gang.phase is Phase.ACQUIRING:
        return
    turn.put(member, replace(member, state=MemberState.STARTED))
    _run_when_all_started(turn)


def task_exited(turn: Turn, event: TaskExited) -> None:
    """The agent's word on how its processes ended: it wins over what YARN says of the container."""
    member = turn.gang.find(event.ask)
    if member is None or event.attempt != turn.gang.attempt:
        return
    phase = turn.gang.phase
    if phase not in LAUNCHED and phase is not Phase.STOPPING:
        return
    if member.state is MemberState.EXITED:
        return
    if member.loss is not None and member.loss.kind not in {LossKind.ENDED, LossKind.SILENT}:
        return
    has_ended = member.loss is not None and member.loss.kind is LossKind.ENDED
    exited = replace(
        member,
        state=MemberState.EXITED,
        exits=event.exits,
        loss=None,
        is_gone=member.is_gone or has_ended,
    )
    turn.put(member, exited)
    if phase is Phase.STOPPING:
        settle(turn)
    elif not exited.is_ok:
        stop_gang(turn, StopKind.FAILED, f"{member.name} {_exits_text(event.exits)}")
    elif _is_done(turn.gang):
        stop_gang(turn, StopKind.SUCCEEDED, "every other task has succeeded")
    else:
        _run_when_all_started(turn)


def lose_launched(turn: Turn, member: Member, kind: LossKind, at_s: float, text: str) -> None:
    """A launched member is gone: the gang is whole or it is stopped."""
    if member.state is MemberState.LOST or member.is_gone:
        return
    if member.state is MemberState.EXITED:
        # Its processes have said how they ended: only a recovery in place must know.
        turn.put(member, replace(member, is_gone=True))
        return
    loss = Loss(kind, at_s, turn.at_s, text)
    turn.put(member, replace(member, state=MemberState.LOST, loss=loss))
    if kind is LossKind.NODE:
        # A NodeManager's end is not the end of what it started: its agent may go on training.
        turn.release(member, "its node is lost")
    _strike(turn, member, loss)
    if turn.gang.phase is Phase.STOPPING:
        settle(turn)
    else:
        stop_gang(turn, StopKind.FAILED, f"{member.name} {kind.value}: {text}")


def _strike(turn: Turn, member: Member, loss: Loss) -> None:
    """What speaks against the node. A container that ended unexplained does not: it may have been
    the program's own doing."""
    if member.grant is None or loss.kind not in AGAINST_THE_NODE:
        return
    why = f"{loss.kind.value}: {loss.text}"
    nodes.strike(turn, member.grant.node, why, is_full=loss.kind is LossKind.NODE)


def stop_gang(
    turn: Turn,
    kind: StopKind,
    text: str,
    *,
    grace_s: float | None = None,
    to: int | None = None,
) -> None:
    """Stop every process that may run, and wait for the agents to say how they ended. ``grace_s``:
    in place of the job's usual one; ``to``: see ``Stopping``."""
    was_running = turn.gang.phase is Phase.RUNNING
    ran_s = turn.at_s - turn.gang.since_s if was_running else 0.0
    grace_s = turn.policy.stop_grace_s if grace_s is None else grace_s
    if kind is not StopKind.RESIZED:
        turn.drop_growth(text)
    turn.disarm(TimerKind.LAUNCH, TimerKind.RESIZE)
    turn.enter(Phase.STOPPING, text)
    turn.gang = replace(turn.gang, stopping=Stopping(kind, text, was_running, ran_s, to))
    awaited = [m for m in turn.gang.members if m.state in MAY_RUN]
    for member in awaited:
        turn.do(StopTask(member.ask, turn.gang.attempt, grace_s, text))
    if awaited:
        turn.arm(TimerKind.STOP, grace_s + turn.policy.stop_margin_s)
    settle(turn)


def settle(turn: Turn) -> None:
    """Conclude as soon as every member's end is known and explained."""
    members = turn.gang.members
    if any(m.state in MAY_RUN for m in members):
        return
    wait_s = 0.0
    may_have_failed = {StopKind.FAILED, StopKind.RESIZED}
    if turn.gang.stopping is not None and turn.gang.stopping.kind in may_have_failed:
        unexplained = [m.loss for m in members if m.loss and m.loss.kind is LossKind.ENDED]
        explained_by_s = max((loss.noticed_at_s for loss in unexplained), default=turn.at_s)
        if unexplained:
            wait_s = explained_by_s + turn.policy.explain_grace_s - turn.at_s
    if wait_s <= 0:
        conclude(turn)
        return
    deadline_s = turn.gang.deadline_s(TimerKind.STOP)
    if deadline_s is None or turn.at_s + wait_s < deadline_s:
        turn.arm(TimerKind.STOP, wait_s)


def conclude(turn: Turn) -> None:
    """Everything has stopped (or will not): what was it, and does the gang try again?"""
    stopping = turn.gang.stopping
    if stopping is None:
        return
    if stopping.kind in {StopKind.CANCELLED, StopKind.REFUSED}:
        end_as_asked(turn, stopping.kind, stopping.text)
        return
    if stopping.kind is StopKind.SUCCEEDED:
        _succeed(turn)
        return
    if stopping.kind is StopKind.RESIZED and _regroup(turn, stopping):
        return
    culprit = first_failure(turn.gang)
    loss = first_loss(turn.gang)
    if loss is not None and culprit is not None:
        is_cause = loss[1].at_s <= culprit.process.ended_at_s + CAUSE_SLACK_S
        loss = loss if is_cause else None
    if loss is not None:
        _lost(turn, *loss, stopping)
    elif culprit is not None and culprit.process.kind is not ExitKind.NOT_STARTED:
        _user_failed(turn, culprit)
    else:
        text = culprit_text(culprit) if culprit else stopping.text
        _platform_failed(turn, text, was_running=stopping.was_running)


def end_as_asked(turn: Turn, kind: StopKind, text: str) -> None:
    """Cancelled, or ended because of its inputs: no look at how the processes ended."""
    if kind is StopKind.REFUSED:
        hint = "Mend or replace the files, or leave them out with on_corrupt: skip and max_skipped."
        finish(turn, VerdictKind.FAILED, ExitCode.BAD_SPEC, text, hint)
    else:
        finish(turn, VerdictKind.CANCELLED, ExitCode.CANCELLED, text)


def _regroup(turn: Turn, stopping: Stopping) -> bool:
    """All have stopped as they were told: go on with the other members. False: something went
    wrong meanwhile, which is then what it was stopped for."""
    gang, size = turn.gang, turn.policy.size
    if _is_done(gang):
        _succeed(turn)
        return True
    stay = [m for m in gang.members if recovery.is_keepable(gang, turn.policy, m, turn.at_s)]
    is_as_told = first_failure(gang) is None and len(stay) == len(gang.members)
    joining = gang.growth.members if gang.growth is not None else ()
    if any(
        member.grant is not None
        and nodes.why_excluded(gang, turn.policy, member.grant.node, turn.at_s)
        for member in joining
    ):
        turn.drop_growth("a node is on the blacklist by now")
        joining = ()
    if size is None or not is_as_told:
        turn.drop_growth("a task was lost while the gang was stopped")
        return False
    rung = turn.gang.growth.rung if turn.gang.growth is not None else None
    members = tuple(stay)
    if stopping.to is not None:
        members = resizing.to_stay(members, size.role, stopping.to)
    resizing.relaunch(turn, (*members, *joining), stopping.text, rung)
    return True


def first_failure(gang: Gang) -> Culprit | None:
    """The failing process that ended first: the others mostly failed because of it."""
    culprits = [
        Culprit(member, process)
        for member in gang.members
        for process in member.exits
        if process.kind not in HARMLESS
    ]
    return min(culprits, key=lambda c: (c.process.ended_at_s, c.member.first_rank), default=None)


def first_loss(gang: Gang) -> tuple[Member, Loss] | None:
    """The loss that came first; a preemption before all others, because YARN said so itself."""
    losses = [(member, member.loss) for member in gang.members if member.loss is not None]
    return min(
        losses,
        key=lambda pair: (pair[1].kind is not LossKind.PREEMPTED, pair[1].at_s),
        default=None,
    )


def culprit_text(culprit: Culprit) -> str:
    """``worker-1 (rank 3) on node2 exited with code 1``."""
    member, process = culprit.member, culprit.process
    rank = member.first_rank + process.local_rank
    node = f" on {member.grant.node}" if member.grant else ""
    return f"{member.name} (rank {rank}){node} {exit_text(process)}"


def exit_text(process: ProcessExit) -> str:
    """How a process ended, in words."""
    if process.kind is ExitKind.NON_ZERO:
        return f"exited with code {process.code}"
    if process.kind is ExitKind.SIGNAL:
        return f"was killed by {signal_name(process.signal)}"
    return {
        ExitKind.OK: "ended well",
        ExitKind.COMMAND_NOT_FOUND: "could not start: command not found",
        ExitKind.NOT_STARTED: "could not be started",
        ExitKind.STOPPED: "was stopped",
    }[process.kind]


def signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def _exits_text(exits: tuple[ProcessExit, ...]) -> str:
    failing = [process for process in exits if process.kind not in HARMLESS]
    first = min(failing, key=lambda process: process.ended_at_s, default=None)
    return exit_text(first) if first else "stopped without having been told to"


def _run_when_all_started(turn: Turn) -> None:
    if turn.gang.phase is not Phase.LAUNCHING:
        return
    up = {MemberState.STARTED, MemberState.EXITED}
    if all(member.state in up for member in turn.gang.members):
        turn.disarm(TimerKind.LAUNCH, TimerKind.WAIT)
        turn.enter(Phase.RUNNING)
        turn.gang = replace(turn.gang, failures=0, looks=0, user_faults=0)


def _is_done(gang: Gang) -> bool:
    """All have succeeded; parameter servers need not end."""
    needed = [m for m in gang.members if m.target.role != PS_ROLE] or list(gang.members)
    return all(member.is_ok for member in needed)


def _succeed(turn: Turn) -> None:
    gang = turn.gang
    processes = sum(member.target.processes_per_task for member in gang.members)
    message = f"all {processes} processes of {len(gang.members)} tasks ended well"
    if turn.policy.store_timeout_s is not None:
        storing.begin(turn, message)
        return
    finish(turn, VerdictKind.SUCCEEDED, ExitCode.OK, message)


def _user_failed(turn: Turn, culprit: Culprit) -> None:
    text = culprit_text(culprit)
    if culprit.process.kind is ExitKind.SIGNAL and culprit.member.grant is not None:
        nodes.crashed(turn, culprit.member.grant.node, text)
    is_retriable = culprit.process.kind is not ExitKind.COMMAND_NOT_FOUND
    if is_retriable and turn.gang.user_retries < turn.policy.user_retries:
        turn.gang = replace(turn.gang, user_retries=turn.gang.user_retries + 1)
        back_off(turn, f"{text}; retry {turn.gang.user_retries} of {turn.policy.user_retries}")
        return
    lines = culprit.process.last_lines[-LAST_LINES:]
    quoted = "".join(f"\n  | {line}" for line in lines)
    message = f"{text}\nits last lines:{quoted}" if lines else f"{text}; it printed nothing"
    hint = f"Read all of its output with: yarnam logs JOB --task {culprit.member.name}"
    finish(turn, VerdictKind.FAILED, ExitCode.USER_FAILED, message, hint)


def _lost(turn: Turn, member: Member, loss: Loss, stopping: Stopping) -> None:
    node = f" on {member.grant.node}" if member.grant else ""
    text = f"{member.name}{node}: {loss.kind.value}: {loss.text}"
    if loss.kind is LossKind.PREEMPTED:
        count_preemption(turn, stopping.ran_s)
        if not _goes_on_smaller(turn, text):
            back_off(turn, f"{text}; a preempted gang starts again for free")
    elif loss.kind is LossKind.UNABLE_USER:
        finish(turn, VerdictKind.FAILED, ExitCode.USER_FAILED, text)
    elif stopping.was_running:
        _platform_failed(turn, text, was_running=True)
    else:
        _lost_at_launch(turn, text)


def _lost_at_launch(turn: Turn, text: str) -> None:
    """A task was lost before all had started: made whole in place like a gang that ran, where
    anything can be kept. It uses up an attempt instead of a restart, whether it succeeds or not."""
    failures = turn.gang.failures + 1
    if failures >= turn.policy.attempts or not recovery.can_begin(turn):
        fail_attempt(turn, text, ExitCode.ATTEMPTS_EXHAUSTED)
        return
    turn.gang = replace(turn.gang, failures=failures)
    recovery.begin(turn, f"{text}; failed attempt {failures} of {turn.policy.attempts}")


def _goes_on_smaller(turn: Turn, text: str) -> bool:
    """An elastic gang of which enough is left shrinks instead of dying."""
    gang, policy = turn.gang, turn.policy
    stay = [m for m in gang.members if recovery.is_keepable(gang, policy, m, turn.at_s)]
    if policy.size is None or not resizing.is_enough(policy, stay):
        return False
    if gang.wish is not None:
        stay = list(resizing.to_stay(tuple(stay), policy.size.role, gang.wish))
    resizing.relaunch(turn, stay, f"{text}; going on with {len(stay)} of {gang.size} tasks")
    return True


def _platform_failed(turn: Turn, text: str, *, was_running: bool) -> None:
    """Start again, in place if that can be: a gang that ran uses up a restart, one that never ran
    uses up an attempt."""
    if not was_running:
        fail_attempt(turn, text, ExitCode.ATTEMPTS_EXHAUSTED)
        return
    if turn.gang.restarts < turn.policy.max_restarts:
        turn.gang = replace(turn.gang, restarts=turn.gang.restarts + 1)
        text = f"{text}; restart {turn.gang.restarts} of {turn.policy.max_restarts}"
        if recovery.can_begin(turn):
            recovery.begin(turn, text)
        elif not _goes_on_smaller(turn, text):
            back_off(turn, text)
        return
    if _goes_on_smaller(turn, text):
        return
    message = f"{text}; all {turn.policy.max_restarts} restarts are used up"
    hint = "Submit it again, or allow more retry.max_restarts."
    finish(turn, VerdictKind.FAILED, ExitCode.ATTEMPTS_EXHAUSTED, message, hint)
