"""When a gang that hangs is reported, and with what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.task_mailbox import FakeMailbox
from tests.unit.gang.play import Play, job, role, roles_job
from yarnam.am.probes.gang_observers import view_of
from yarnam.core.failures.rank_activity import RankActivity
from yarnam.core.gang.state import Member
from yarnam.core.model.events import Event, GangHung
from yarnam.core.model.job_spec import After, HangSpec, StartCondition
from yarnam.core.observers.hang_observer import DUMP_LIMIT_S, HANG


class World:
    """Two workers of one process each; rank 1 is stopped."""

    def __init__(self, unwatched: frozenset[str] = frozenset()) -> None:
        self.play = Play(job(processes=1)).to_running()
        self.clock = FakeClock()
        self.mailbox = FakeMailbox()
        self.events: list[Event] = []
        self.job = job(processes=1)
        if unwatched:
            roles = [replace(role, service=role.name in unwatched) for role in self.job.roles]
            self.job = replace(self.job, roles=tuple(roles))
        self.state = HANG.initial
        one, two = self.play.asks()
        stalled = RankActivity(one, 0, step=9, step_age_s=60.0, step_s=1.0)
        self.mailbox.active = [stalled, replace(stalled, ask=two, rank=1, is_stopped=True)]

    def poll(self) -> None:
        gang, activity = self.play.gang, self.mailbox.activity()
        view = view_of(gang, self.job, self.clock.now_s(), activity=activity)
        self.state, found = HANG.observe(self.state, view)
        self.events += found.events
        if found.dump:
            self.mailbox.dump(found.dump, gang.attempt)
        self.clock.advance(1.0)

    def dumped(self, *stack: str) -> None:
        self.mailbox.active = [
            replace(one, stack=() if one.is_stopped else stack) for one in self.mailbox.active
        ]

    @property
    def is_asked(self) -> bool:
        return set(self.mailbox.orders.values()) == {"dump"}


@pytest.fixture
def world() -> World:
    return World()


def test_all_stacks_come_first(world: World) -> None:
    world.poll()
    assert world.is_asked
    world.poll()
    assert world.events == []
    world.dumped("recv (ring.py:9)")
    world.poll()
    (event,) = world.events
    assert isinstance(event, GangHung)
    assert (event.attempt, event.ranks) == (1, (1,))
    assert event.where == ("rank 1: stopped by a signal", "rank 0: recv (ring.py:9)")
    world.poll()
    assert len(world.events) == 1, "once is enough"


def test_of_a_stopped_process_the_stacks_are_there_when_it_is_a_hang(world: World) -> None:
    stalled = world.mailbox.active
    world.mailbox.active = [replace(one, step_age_s=5.5) for one in stalled]
    world.poll()
    assert world.is_asked
    world.dumped("recv (ring.py:9)")
    world.poll()
    assert world.events == [], "it may still go on"
    world.mailbox.active = [replace(one, step_age_s=7.0) for one in world.mailbox.active]
    world.poll()
    assert len(world.events) == 1


def test_nobody_waits_for_the_stack_of_a_stopped_process(world: World) -> None:
    world.poll()
    world.mailbox.active = [
        one if one.is_stopped else replace(one, stack=("recv (ring.py:9)",))
        for one in world.mailbox.active
    ]
    world.poll()
    (event,) = world.events
    assert isinstance(event, GangHung)
    assert event.where == ("rank 1: stopped by a signal", "rank 0: recv (ring.py:9)")


def test_who_does_not_answer_is_not_waited_for(world: World) -> None:
    for _ in range(int(DUMP_LIMIT_S) + 2):
        world.poll()
    (event,) = world.events
    assert isinstance(event, GangHung)
    assert event.where[1] == "rank 0: its stack could not be read"


def test_a_gang_that_goes_on_meanwhile_is_left_alone(world: World) -> None:
    world.poll()
    stalled = world.mailbox.active
    world.mailbox.active = [replace(one, step=10, step_age_s=0.5) for one in stalled]
    world.poll()
    world.mailbox.active = stalled
    world.dumped("recv (ring.py:9)")
    world.poll()
    assert world.events == [], "the stacks of an earlier alarm are old"


def test_who_does_nothing_after_the_others_have_ended_hangs(world: World) -> None:
    """In the destructor of a process group: it has raised nothing, and no step is missed."""
    world.play.ok(world.play.asks()[0])
    one, two = world.mailbox.active
    two = replace(two, is_stopped=False, idle_s=HangSpec().idle_s)
    world.mailbox.active = [one, two]
    world.poll()
    assert world.mailbox.orders == {world.play.asks()[1]: "dump"}
    world.mailbox.active = [one, replace(two, stack=("destroy (dist.py:7)",))]
    world.poll()
    (event,) = world.events
    assert isinstance(event, GangHung)
    assert event.ranks == (1,)
    assert event.where == ("rank 1: destroy (dist.py:7)",)
    assert event.finding.line == (
        "the others have ended, but rank 1 did nothing for 300 s and did not exit"
    )


@pytest.mark.parametrize(
    "changes",
    [{"idle_s": 299.0}, {"idle_s": 3000.0, "pause": "checkpoint"}, {"step_s": None, "step": None}],
)
def test_who_saves_or_does_something_may_end_later(
    world: World, changes: dict[str, object]
) -> None:
    world.play.ok(world.play.asks()[0])
    (_, two) = world.mailbox.active
    world.mailbox.active = [replace(two, **{"is_stopped": False, "idle_s": 3000.0, **changes})]
    for _ in range(3):
        world.poll()
    assert not world.mailbox.orders


def test_of_one_task_the_processes_that_are_left_count() -> None:
    world = World()
    one, two = world.mailbox.active
    world.mailbox.active = [
        replace(one, has_ended=True),
        replace(two, is_stopped=False, idle_s=HangSpec().idle_s, stack=()),
    ]
    world.poll()
    world.poll()
    (event,) = world.events
    assert isinstance(event, GangHung)
    assert event.ranks == (1,)


def test_while_tasks_end_nothing_is_a_hang(world: World) -> None:
    world.play.ok(world.play.asks()[0])
    world.poll()
    assert not world.is_asked
    world.play = Play(job(processes=1)).to_launching()
    world.poll()
    assert not world.is_asked


def test_all_processes_must_have_been_heard_of(world: World) -> None:
    del world.mailbox.active[0]
    world.poll()
    assert not world.is_asked


def test_a_service_may_be_idle_for_as_long_as_it_likes() -> None:
    world = World(unwatched=frozenset({"worker"}))
    for _ in range(3):
        world.poll()
    assert not world.mailbox.orders


@pytest.mark.parametrize("has_prepared", [False, True])
def test_those_that_start_later_or_have_prepared_are_not_missed(has_prepared: bool) -> None:
    after = (After("prepare", StartCondition.ENDED),)
    spec = roles_job(role("worker", after=after), role("prepare"))
    world = World()
    world.job, world.play = spec, Play(spec).to_launching()
    prepare, worker = world.play.ask_of("prepare"), world.play.ask_of("worker")
    world.play.started(prepare)
    hangs = prepare
    if has_prepared:
        hangs = worker
        world.play.ok(prepare)
        world.play.started(worker)
    stalled = RankActivity(hangs, 0, step=9, step_age_s=60.0, step_s=1.0, is_stopped=True)
    world.mailbox.active = [stalled]
    world.poll()
    assert set(world.mailbox.orders) == {hangs}


def test_no_member_is_compared_with_all_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 1,000 members that took half of a core."""
    compared: list[object] = []
    monkeypatch.setattr(Member, "__eq__", lambda _, other: bool(compared.append(other)))
    world.poll()
    assert world.is_asked
    assert compared == []
