"""An elastic gang while it runs: its looks at the cluster, a user's wish, growing and shrinking.

A look comes now and then (the RESIZE timer), and at once when a user wishes for another size. What
it leads to is ``sizing.resize``'s to decide. To shrink, all processes are stopped with time to
write a checkpoint, and those that stay start again. To grow, the further containers are asked for
while the job still trains; they are parked until all of them stand. Only then are the processes
stopped, once, and all start again. If they do not come within the hold timeout, or one of them is
no good, they are given back, and the job has noticed nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from yarnam.gang import nodes
from yarnam.gang.asks import look, misfit, mixes_models, new_member, wrong_agent, wrong_model
from yarnam.gang.running import stop_gang
from yarnam.gang.sizing import (
    Keep,
    Shrink,
    SizeFacts,
    SizePolicy,
    SizeReason,
    Surroundings,
    next_look_s,
    resize,
)
from yarnam.gang.state import Gang, Growth, Member, MemberState, StopKind
from yarnam.gang.turn import Turn
from yarnam.model.actions import LookAround
from yarnam.model.events import (
    AgentRegistered,
    AgentSilent,
    AgentUnable,
    ClusterSeen,
    ContainerEnded,
    ContainerGranted,
    Event,
    PlanReady,
    PlanRefused,
    ScaleRequested,
    TaskExited,
    TaskStarted,
    TimerKind,
)
from yarnam.model.outcomes import ContainerEnd
from yarnam.model.placement import Standing, Supplement, TargetAsk
from yarnam.model.status import Phase

WORDS = {
    SizeReason.WISH: "as a user wished",
    SizeReason.IDLE_GPUS: "GPUs are idle",
    SizeReason.OVER_SHARE: "the queue is over its fair share and others wait",
}


def scale_requested(turn: Turn, event: ScaleRequested) -> None:
    """The last wish counts; one that the job's range does not have changes nothing, nor does one
    that it has already."""
    policy = turn.policy.size
    if policy is None or event.tasks == turn.gang.wish:
        return
    if event.tasks is not None and not policy.least <= event.tasks <= policy.most:
        return
    turn.gang = replace(turn.gang, wish=event.tasks)
    turn.drop_growth(f"{event.by} wished for another size")
    if event.tasks is not None and _can_resize(turn.gang):
        _decide(turn, policy, Surroundings(0))
        look_around(turn)


def began_to_run(turn: Turn) -> None:
    """All processes have started: the next look is in its time, or now where a wish is open."""
    policy = turn.policy.size
    if policy is None:
        return
    turn.gang = replace(turn.gang, is_looking_around=False, over_since_s=None)
    turn.arm(TimerKind.RESIZE, policy.grow_interval_s)
    wish = turn.gang.wish
    if wish is not None and wish != _tasks(turn.gang, policy):
        look_around(turn)


def look_around(turn: Turn) -> None:
    """See how many more tasks would fit, and whether somebody else should have the GPUs."""
    policy, gang = turn.policy.size, turn.gang
    if policy is None or gang.phase is not Phase.RUNNING:
        return
    turn.arm(TimerKind.RESIZE, policy.grow_interval_s)
    if gang.growth is not None and gang.growth.members:
        return
    growth = _supplement(gang, policy, _room_to_grow(gang, policy))
    if growth is None or not _can_resize(gang):
        return
    turn.gang = replace(turn.gang, is_looking_around=True, growth=None)
    out = nodes.excluded(gang, turn.policy, turn.at_s)
    turn.do(LookAround(gang.attempt, growth, out))


def cluster_seen(turn: Turn, event: ClusterSeen) -> None:
    """The answer to a look around."""
    policy, gang = turn.policy.size, turn.gang
    if policy is None or not gang.is_looking_around or event.attempt != gang.attempt:
        return
    if not _can_resize(gang):
        return
    over_since_s = turn.at_s if gang.over_since_s is None else gang.over_since_s
    turn.gang = replace(
        gang,
        is_looking_around=False,
        over_since_s=over_since_s if event.excess else None,
    )
    turn.arm(TimerKind.RESIZE, next_look_s(policy, event.u))
    _decide(turn, policy, Surroundings(event.spare, event.excess, event.waiting))


def growth_over(turn: Turn) -> None:
    """The GROWTH timer: the further containers do not all come."""
    growth = turn.gang.growth
    if growth is None:
        return
    ready = sum(member.state is MemberState.READY for member in growth.members)
    turn.drop_growth(
        f"{ready} of {len(growth.members)} containers to grow by stood within "
        f"{turn.policy.hold_timeout_s:.0f} s"
    )


def takes(turn: Turn, event: Event) -> bool:
    """Handle what concerns a growth under way; False: it does not."""
    growth = turn.gang.growth
    if growth is None:
        return False
    if isinstance(event, PlanReady | PlanRefused):
        is_mine = turn.gang.phase is Phase.RUNNING and event.attempt == turn.gang.attempt
        if is_mine and not growth.members:
            _planned(turn, growth, event)
        return is_mine
    if not isinstance(event, _OF_ONE_ASK):
        return False
    member = next((m for m in growth.members if m.ask == event.ask), None)
    if member is None:
        return False
    if isinstance(event, ContainerGranted):
        _granted(turn, growth, member, event)
    elif isinstance(event, AgentRegistered):
        _registered(turn, growth, member, event)
    elif isinstance(event, ContainerEnded | AgentUnable | AgentSilent):
        _spoilt(turn, growth, member, event)
    return True


_OF_ONE_ASK = (
    ContainerGranted,
    AgentRegistered,
    ContainerEnded,
    AgentUnable,
    AgentSilent,
    TaskStarted,
    TaskExited,
)


def _decide(turn: Turn, policy: SizePolicy, seen: Surroundings) -> None:
    gang = turn.gang
    tasks = _tasks(gang, policy)
    facts = SizeFacts(tasks, gang.since_s, gang.wish, gang.over_since_s)
    sizing = resize(facts, seen, policy, turn.at_s)
    if isinstance(sizing, Keep):
        return
    text = f"{tasks} -> {sizing.to} tasks: {WORDS[sizing.reason]}"
    if isinstance(sizing, Shrink):
        turn.drop_growth(text)
        stop_gang(turn, StopKind.RESIZED, text, grace_s=policy.checkpoint_grace_s, to=sizing.to)
    else:
        growth = _supplement(gang, policy, sizing.to - tasks)
        assert growth is not None
        turn.gang = replace(gang, growth=Growth(sizing.to, text))
        look(turn, growth)


def _planned(turn: Turn, growth: Growth, event: PlanReady | PlanRefused) -> None:
    """Where the further tasks go: ask for them; or nowhere, and the next look comes in its time."""
    if isinstance(event, PlanRefused):
        turn.gang = replace(turn.gang, growth=None)
        return
    rung = event.plan.rungs[0]
    policy = turn.policy.size
    fits = policy is not None and all(ask.target.role == policy.role for ask in rung.asks)
    if policy is None or not fits or rung.tasks != growth.to - _tasks(turn.gang, policy):
        turn.gang = replace(turn.gang, growth=None)
        return
    asked = tuple(
        new_member(turn, ask.target, rung.level) for ask in rung.asks for _ in range(ask.count)
    )
    turn.gang = replace(turn.gang, growth=replace(growth, members=asked, rung=rung))
    turn.arm(TimerKind.GROWTH, turn.policy.hold_timeout_s)


def _granted(turn: Turn, growth: Growth, member: Member, event: ContainerGranted) -> None:
    if member.state is not MemberState.ASKED:
        return
    problem = _within(turn, growth, lambda whole: misfit(whole, member, event))
    if problem:
        turn.gang = replace(turn.gang, misfits=turn.gang.misfits + 1)
        turn.drop_growth(f"misfit: {problem}")
        return
    granted = replace(member, state=MemberState.GRANTED, grant=event)
    growth = _put(turn, growth, member, granted)
    if granted.agent is not None:
        _registered(turn, growth, granted, granted.agent)


def _registered(turn: Turn, growth: Growth, member: Member, event: AgentRegistered) -> None:
    if member.state is MemberState.ASKED:
        _put(turn, growth, member, replace(member, agent=event))
        return
    if member.state is not MemberState.GRANTED:
        return
    problem = (
        wrong_agent(member, event)
        or wrong_model(member, event)
        or mixes_models(turn, member, event)
    )
    if problem:
        turn.drop_growth(problem)
        return
    growth = _put(turn, growth, member, replace(member, state=MemberState.READY, agent=event))
    is_whole = all(m.state is MemberState.READY for m in growth.members)
    policy = turn.policy.size
    if is_whole and policy is not None and _can_resize(turn.gang):
        turn.disarm(TimerKind.GROWTH)
        stop_gang(turn, StopKind.RESIZED, growth.text, grace_s=policy.checkpoint_grace_s)


def _spoilt(
    turn: Turn,
    growth: Growth,
    member: Member,
    event: ContainerEnded | AgentUnable | AgentSilent,
) -> None:
    """One of the further containers is no good: the others are given back too."""
    if member.state is MemberState.ASKED and not isinstance(event, ContainerEnded):
        return
    is_gone = isinstance(event, ContainerEnded)
    why = _trouble(event)
    if member.grant is not None:
        is_lost = isinstance(event, ContainerEnded) and event.end is ContainerEnd.LOST
        is_quiet = isinstance(event, AgentSilent)
        is_unable = isinstance(event, AgentUnable) and not event.is_user_fault
        if is_lost or is_quiet or is_unable:
            nodes.strike(turn, member.grant.node, why, is_full=is_lost)
    if is_gone:
        others = tuple(m for m in growth.members if m is not member)
        turn.gang = replace(turn.gang, growth=replace(growth, members=others))
    turn.drop_growth(why)


def _trouble(event: ContainerEnded | AgentUnable | AgentSilent) -> str:
    if isinstance(event, ContainerEnded):
        return f"its container ended: {event.diagnostics or event.end.value}"
    if isinstance(event, AgentUnable):
        return f"its agent cannot make it ready: {event.message}"
    return f"its agent was not heard of for {event.silent_s:.0f} s"


def _put(turn: Turn, growth: Growth, old: Member, new: Member) -> Growth:
    members = tuple(new if m is old else m for m in growth.members)
    growth = replace(growth, members=members)
    turn.gang = replace(turn.gang, growth=growth)
    return growth


def _within(turn: Turn, growth: Growth, judge: Callable[[Turn], str | None]) -> str | None:
    """As if the further tasks were members already: what binds the gang binds the larger one."""
    gang = turn.gang
    whole = replace(gang, members=(*gang.members, *growth.members), rung=growth.rung)
    return judge(Turn(whole, turn.policy, turn.at_s))


def _can_resize(gang: Gang) -> bool:
    """A gang of which nothing has ended or is being stopped."""
    is_up = all(member.state is MemberState.STARTED for member in gang.members)
    return gang.phase is Phase.RUNNING and is_up


def _tasks(gang: Gang, policy: SizePolicy) -> int:
    return sum(member.target.role == policy.role for member in gang.members)


def _room_to_grow(gang: Gang, policy: SizePolicy) -> int:
    """How many more tasks it may have, by the user's wish or its own."""
    top = policy.most if gang.wish is None else policy.bounded(gang.wish)
    if gang.wish is None and not policy.grow:
        return 0
    return max(0, top - _tasks(gang, policy))


def _supplement(gang: Gang, policy: SizePolicy, count: int) -> Supplement | None:
    target = next((m.target for m in gang.members if m.target.role == policy.role), None)
    if target is None or gang.rung is None:
        return None
    standing = tuple(
        Standing(m.target.role, m.grant.node, m.grant.rack, m.target.resources)
        for m in gang.members
        if m.grant is not None
    )
    return Supplement((TargetAsk(target, count),), standing, gang.rung)
