"""The barrier: the whole gang stands, so its ranks are fixed and its processes may start.

Where inputs are brought to the nodes first, the barrier has two steps: the members learn their
ranks and fetch what these read (``PrepareGang``, limited by the STAGING timer), and when all have
it, all start (``LaunchGang``). Until then no process runs, so a member that is lost meanwhile is
replaced as before the barrier, and the others keep what they have fetched.
"""

from __future__ import annotations

from dataclasses import replace

from yarnam.gang.ranks import in_rank_order
from yarnam.gang.state import Member
from yarnam.gang.turn import Turn
from yarnam.model.actions import GangMember, LaunchGang, PrepareGang
from yarnam.model.events import TaskStaged, TimerKind
from yarnam.model.placement import Placed
from yarnam.model.status import Phase


def launch(turn: Turn) -> None:
    """The whole gang stands: fix the ranks and open the barrier, or have inputs fetched first."""
    ordered = in_rank_order(turn.gang.members, turn.policy)
    members = tuple(replace(member, is_staged=False) for member in ordered)
    turn.enter(Phase.LAUNCHING)
    turn.gang = replace(turn.gang, members=members, recovery=None)
    turn.disarm(TimerKind.ASK, TimerKind.HOLD, TimerKind.RECOVERY, TimerKind.BACKOFF)
    if turn.policy.staging_timeout_s > 0:
        turn.arm(TimerKind.STAGING, turn.policy.staging_timeout_s)
        turn.do(PrepareGang(turn.gang.attempt, tuple(_launched(member) for member in members)))
    else:
        _open(turn)


def task_staged(turn: Turn, event: TaskStaged) -> None:
    """A member has its inputs; the last one opens the barrier."""
    member = turn.gang.find(event.ask)
    if member is None or not turn.gang.is_staging or event.attempt != turn.gang.attempt:
        return
    if member.is_staged:
        return
    turn.put(member, replace(member, is_staged=True))
    if all(member.is_staged for member in turn.gang.members):
        turn.disarm(TimerKind.STAGING)
        _open(turn)


def step_back(turn: Turn) -> None:
    """While inputs are on their way no process runs: the gang is being acquired again. What the
    members have fetched stays with them."""
    if turn.gang.is_staging:
        turn.disarm(TimerKind.STAGING)
        turn.enter(Phase.ACQUIRING)
        turn.arm(TimerKind.HOLD, turn.policy.hold_timeout_s)
        if turn.gang.timer(TimerKind.WAIT) is None:
            # It had run before: from here on it waits as one that has not.
            turn.arm(TimerKind.WAIT, turn.policy.wait_timeout_s)


def late_text(turn: Turn) -> str:
    """Whose inputs are not there, for the STAGING timer."""
    late = [member for member in turn.gang.members if not member.is_staged]
    shown = ", ".join(
        f"{member.name} on {member.grant.node}" if member.grant else member.name
        for member in late[:8]
    )
    more = " and more" if len(late) > 8 else ""
    return (
        f"the inputs of {shown}{more} were not on the node within "
        f"{turn.policy.staging_timeout_s:.0f} s (data.staging_timeout)"
    )


def _open(turn: Turn) -> None:
    """Once for each attempt."""
    turn.arm(TimerKind.LAUNCH, turn.policy.launch_timeout_s)
    members = tuple(_launched(member) for member in turn.gang.members)
    turn.do(LaunchGang(turn.gang.attempt, members))


def _launched(member: Member) -> GangMember:
    assert member.task is not None
    assert member.grant is not None
    assert member.agent is not None
    return GangMember(
        ask=member.ask,
        task=member.task,
        placed=Placed(
            role=member.target.role,
            node=member.grant.node,
            rack=member.grant.rack,
            gpu_ids=member.agent.gpu_ids,
            processes=member.target.processes_per_task,
            address=member.agent.address,
            ports=member.agent.ports,
        ),
    )
