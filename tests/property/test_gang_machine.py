"""Whatever the world does to it, the gang machine keeps its promises."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.property.gang_world import Step, Violation, World, random_walk, small_job
from yarnam.gang import Gang, GangPolicy, step
from yarnam.model.actions import (
    Action,
    AskContainer,
    Finish,
    LaunchGang,
    ReleaseContainer,
    StartTimer,
    StopTask,
)
from yarnam.model.events import (
    AmRestarted,
    ContainerGranted,
    Event,
    TimerFired,
    TimerKind,
)
from yarnam.model.ids import AskId
from yarnam.model.outcomes import ContainerEnd, ExitKind
from yarnam.model.status import Phase

PICK = st.integers(0, 30)


class Machine(RuleBasedStateMachine):
    """Hypothesis chooses the world's moves; ``World`` holds the machine to its promises."""

    with_ps = False

    def __init__(self) -> None:
        super().__init__()
        self.world = World(small_job(with_ps=self.with_ps))

    @rule(pick=PICK, node=st.integers(0, 4))
    def grant(self, pick: int, node: int) -> None:
        self.world.yarn_grants(pick, node)

    @rule(pick=PICK, elsewhere=st.booleans())
    def register(self, pick: int, elsewhere: bool) -> None:
        self.world.agent_registers(pick, is_elsewhere=elsewhere)

    @rule(pick=PICK, end=st.sampled_from(ContainerEnd))
    def end(self, pick: int, end: ContainerEnd) -> None:
        self.world.container_ends(pick, end)

    @rule(pick=PICK, what=st.sampled_from(("silent", "unable", "user")))
    def agent_trouble(self, pick: int, what: str) -> None:
        self.world.agent_reports(pick, what)

    @rule(pick=PICK)
    def start(self, pick: int) -> None:
        self.world.task_starts(pick)

    @rule(pick=PICK, kind=st.sampled_from(ExitKind))
    def exit(self, pick: int, kind: ExitKind) -> None:
        self.world.task_exits(pick, kind)

    @rule(answer=st.sampled_from(("ready", "ready", "busy", "never")), rung=st.integers(0, 4))
    def answer(self, answer: str, rung: int) -> None:
        self.world.planner_answers(answer, rung)

    @rule(u=st.floats(0, 1, exclude_max=True))
    def jitter(self, u: float) -> None:
        self.world.jitter_comes(u)

    @rule(pick=PICK)
    def message(self, pick: int) -> None:
        self.world.message_comes(pick)

    @rule(pick=PICK)
    def message_twice(self, pick: int) -> None:
        self.world.message_comes_twice(pick)

    @rule(pick=PICK)
    def message_lost(self, pick: int) -> None:
        self.world.message_is_lost(pick)

    @rule(pick=st.integers(0, 200))
    def old_message(self, pick: int) -> None:
        self.world.old_message_comes(pick)

    @rule(steps=st.integers(1, 12))
    def healthy_for_a_while(self, steps: int) -> None:
        for _ in range(steps):
            self.world._fair_move()

    @rule(seconds=st.sampled_from((0.1, 3.0, 61.0)))
    def time(self, seconds: float) -> None:
        self.world.time_passes(seconds)

    @rule()
    def timer(self) -> None:
        self.world.timer_fires()

    @rule(pick=PICK)
    def old_timer(self, pick: int) -> None:
        self.world.old_timer_fires(pick)

    @rule()
    def am_restart(self) -> None:
        self.world.am_restarts()

    @rule()
    def cancel(self) -> None:
        self.world.user_cancels()

    @rule()
    def broker(self) -> None:
        self.world.broker_fails()

    def teardown(self) -> None:
        self.world.drain()


class MachineWithPs(Machine):
    with_ps = True


TestGang = Machine.TestCase
TestGang.settings = settings(
    max_examples=150,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestGangWithPs = MachineWithPs.TestCase
TestGangWithPs.settings = settings(TestGang.settings, max_examples=75)


@pytest.mark.parametrize("with_ps", [False, True])
def test_seeded_walks_keep_every_promise(with_ps: bool) -> None:
    for seed in range(200):
        random_walk(World(small_job(with_ps=with_ps)), seed, moves=120)


# ---- the checks bite: faults seeded into the machine are caught ---------------------------------


def drops_a_release(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    releases = [a for a in actions if isinstance(a, ReleaseContainer)]
    return after, tuple(a for a in actions if not releases or a is not releases[-1])


def keeps_late_grants(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    if isinstance(event, ContainerGranted) and gang.find(event.ask) is None:
        return gang, ()
    return step(gang, event, policy)


def launches_one_short(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    return after, tuple(
        replace(a, members=a.members[:-1]) if isinstance(a, LaunchGang) else a for a in actions
    )


def finishes_twice(gang: Gang, event: Event, policy: GangPolicy) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    ends = tuple(a for a in actions if isinstance(a, Finish))
    return after, actions + ends


def holds_for_ever(gang: Gang, event: Event, policy: GangPolicy) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    kept = tuple(t for t in after.timers if t.timer.kind is not TimerKind.HOLD)
    return replace(after, timers=kept), tuple(
        a for a in actions if not (isinstance(a, StartTimer) and a.timer.kind is TimerKind.HOLD)
    )


def forgets_who_is_excluded(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    if isinstance(event, ContainerGranted):
        return step(gang, event, replace(policy, excluded=()))
    return step(gang, event, policy)


def believes_every_grant(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    """Verifies against the member's own target only loosely: any rack will do."""
    member = gang.find(event.ask) if isinstance(event, ContainerGranted) else None
    if isinstance(event, ContainerGranted) and member is not None:
        loose = replace(member, target=replace(member.target, nodes=(event.node,)))
        members = tuple(loose if m is member else m for m in gang.members)
        return step(replace(gang, members=members), event, policy)
    return step(gang, event, policy)


def trusts_stale_timers(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    timer = gang.timer(event.timer.kind) if isinstance(event, TimerFired) else None
    if isinstance(event, TimerFired) and timer is not None:
        late = max(event.at_s, timer.deadline_s)
        return step(gang, TimerFired(late, timer.timer), policy)
    return step(gang, event, policy)


def forgets_failures_with_its_am(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    if isinstance(event, AmRestarted) and after.phase is Phase.BACKING_OFF:
        return replace(after, history=()), actions
    return after, actions


def asks_under_an_old_name(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    renamed = tuple(
        AskContainer(AskId(1, a.ask.role, a.ask.number), a.target)
        if isinstance(a, AskContainer)
        else a
        for a in actions
    )
    return after, renamed


def stops_the_unlaunched(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    if after.phase is Phase.ACQUIRING and after.members:
        return after, (*actions, StopTask(after.members[0].ask, after.attempt, 1.0, "why not"))
    return after, actions


FAULTS: tuple[Step, ...] = (
    drops_a_release,
    keeps_late_grants,
    launches_one_short,
    finishes_twice,
    holds_for_ever,
    forgets_who_is_excluded,
    believes_every_grant,
    trusts_stale_timers,
    forgets_failures_with_its_am,
    asks_under_an_old_name,
    stops_the_unlaunched,
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_seeded_fault_is_caught(fault: Step) -> None:
    caught = 0
    for seed in range(60):
        try:
            random_walk(World(small_job(with_ps=seed % 2 == 1), play=fault), seed, moves=120)
        except Violation:
            caught += 1
    assert caught, f"{fault.__name__} went unnoticed in 60 walks"
