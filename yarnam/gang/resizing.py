"""A gang goes on with other members: fewer, or more, in a new attempt from the checkpoint.

The containers that stay keep the names of their asks, their agents parked as at the first barrier.
Ranks are fixed anew, so every launch is of a whole gang: of one of the sizes that the job allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from yarnam.gang.barrier import launch
from yarnam.gang.ending import close_attempt
from yarnam.gang.state import Gang, GangPolicy, Member, MemberState
from yarnam.gang.turn import Turn
from yarnam.model.events import TimerKind
from yarnam.model.placement import Rung
from yarnam.model.status import AttemptRecord


def is_enough(policy: GangPolicy, members: Iterable[Member]) -> bool:
    """Whether these are a gang of one of the sizes that the job allows."""
    processes: Counter[str] = Counter()
    for member in members:
        processes[member.target.role] += member.target.processes_per_task
    return all(least <= processes[role] <= most for role, least, most in policy.ranges)


def rest_will_do(turn: Turn) -> bool:
    """While the gang is being made whole: whether those that stand by now are enough."""
    return turn.policy.size is not None and is_enough(turn.policy, _ready(turn.gang))


def go_on_with_rest(turn: Turn, why: str) -> None:
    """Stop waiting for the others: what has not come is withdrawn, and those that stand start."""
    rest = _ready(turn.gang)
    for member in turn.gang.members:
        if member not in rest:
            turn.release(member, why)
    turn.gang = replace(turn.gang, members=rest, size=len(rest))
    launch(turn)
    turn.gang = replace(turn.gang, reason=why)


def relaunch(turn: Turn, members: Iterable[Member], text: str, rung: Rung | None = None) -> None:
    """Start these, whose processes have ended or never ran, as the whole gang; release the
    others. ``rung``: by which they stand, if another than before."""
    gang, stay = turn.gang, tuple(members)
    names = {member.ask for member in stay}
    for member in gang.members:
        if member.ask not in names and (member.loss is None or member.is_holding):
            turn.release(member, text)
    close_attempt(turn, text)
    turn.disarm(TimerKind.STOP, TimerKind.RESIZE, TimerKind.GROWTH)
    rung = rung or gang.rung
    assert rung is not None
    record = AttemptRecord(
        attempt=len(gang.history) + 1,
        rung=rung.number,
        level=rung.level.name,
        started_at_s=turn.at_s,
        kept=len(stay),
    )
    turn.gang = replace(
        turn.gang,
        attempt=record.attempt,
        rung=rung,
        members=tuple(parked(member) for member in stay),
        size=len(stay),
        next_number=0,
        looks=0,
        misfits=0,
        refusals=(),
        reasks=0,
        stopping=None,
        growth=None,
        history=(*turn.gang.history, record),
    )
    launch(turn)
    turn.gang = replace(turn.gang, reason=text)


def parked(member: Member) -> Member:
    return replace(member, state=MemberState.READY, exits=(), loss=None)


def to_stay(members: tuple[Member, ...], role: str, count: int) -> tuple[Member, ...]:
    """Which ``count`` tasks of the role stay, with all of the other roles: those in the racks, and
    on the nodes, with the most of them, so that the rest is close together."""
    mine = [member for member in members if member.target.role == role]
    racks = Counter(member.grant.rack for member in mine if member.grant)
    places = Counter(member.grant.node for member in mine if member.grant)

    def key(member: Member) -> tuple[int, str, int, str, int]:
        assert member.grant is not None
        rack, node = member.grant.rack, member.grant.node
        return -racks[rack], rack, -places[node], node, member.first_rank

    chosen = {member.ask for member in sorted(mine, key=key)[:count]}
    return tuple(m for m in members if m.target.role != role or m.ask in chosen)


def _ready(gang: Gang) -> tuple[Member, ...]:
    return tuple(member for member in gang.members if member.state is MemberState.READY)
