"""An elastic gang in the AM's loop: looks, growth and wishes; planner and step are real."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.cluster_view import FakeView, cluster
from tests.fakes.serial_executor import InlineSerialExecutor
from tests.unit.am.am_world import AmWorld, Disk, am_world, job, record_of
from yarnam.am.probes.growth_probe import GrowthProbe
from yarnam.core.gang.elastic.sizing import WaitingJob
from yarnam.core.model.actions import ProbeCluster
from yarnam.core.model.events import ClusterSeen, Event, ScaleRequested
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.job_spec import ElasticSpec, JobSpec, ScheduledSize
from yarnam.core.model.metrics import AgentMetrics, Measured
from yarnam.core.model.plans import HeldTask, LocalityLevel, Rung, Supplement, TargetAsk
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, QueueView
from yarnam.wire.records import JobRecord

T = TypeVar("T")

pytestmark = pytest.mark.asyncio

ELASTIC = ElasticSpec(
    patience_s=0.0, grow_interval_s=60.0, min_run_s=0.0, shrink_after_s=60.0, checkpoint_grace_s=5.0
)


def elastic_job(least: int = 1, most: int = 4) -> JobSpec:
    spec = job(tasks=most)
    [worker] = spec.roles
    return replace(spec, roles=(replace(worker, min_tasks=least),), elastic=ELASTIC)


def taken(snapshot: ClusterSnapshot, *free: int) -> ClusterSnapshot:
    """So many GPUs are free on n1, n2, …; none on the others."""
    nodes = tuple(
        replace(node, used=Resources(0, 0, node.total.gpus - (free[i] if i < len(free) else 0)))
        for i, node in enumerate(snapshot.nodes)
    )
    return replace(snapshot, nodes=nodes)


async def stop_all(world: AmWorld) -> None:
    """Every agent obeys the order to stop."""
    gang = world.am.gang
    for member in gang.members:
        assert world.mailbox.orders[member.ask] == "stop"
        world.mailbox.stopped(member.ask, gang.attempt)
    await world.settle()


async def start_all(world: AmWorld) -> None:
    gang = world.am.gang
    for member in gang.members:
        assert world.mailbox.orders[member.ask] == "launch"
        world.mailbox.started(member.ask, gang.attempt)
    await world.settle()


def seen_in(world: AmWorld) -> list[ClusterSeen]:
    return [event for event in world.disk.journal.events if isinstance(event, ClusterSeen)]


async def test_it_grows_while_it_trains_and_restarts_once() -> None:
    async with am_world(elastic_job()) as world:
        await world.run_gang()
        world.mailbox.scaled(2)
        await world.settle()
        await stop_all(world)
        assert len(world.mailbox.launches[-1][1]) == 2
        await start_all(world)
        world.mailbox.scaled(None)
        world.view.shown = taken(cluster(), 8)
        await world.advance(61.0)
        assert [event.spare for event in seen_in(world)][-1] == 2
        assert world.phase == "RUNNING"
        assert len(world.broker.pending) == 2
        asks = await world.grant_all()
        for ask in asks:
            assert world.mailbox.orders[ask] == "park"
            world.mailbox.register(ask, world.broker.granted[ask].node)
        await world.settle()
        assert world.phase == "STOPPING"
        await stop_all(world)
        attempt, members = world.mailbox.launches[-1]
        assert (attempt, len(members)) == (3, 4)
        await start_all(world)
        assert world.status.size is not None
        assert world.status.size.words == "4 of 1 to 4 worker tasks, 4 GPUs each"


async def test_no_more_than_fits_is_asked_for() -> None:
    async with am_world(elastic_job()) as world:
        await world.run_gang()
        world.mailbox.scaled(1)
        await world.settle()
        await stop_all(world)
        await start_all(world)
        world.view.shown = taken(cluster(), 4, 3, 3, 3)
        world.mailbox.scaled(4)
        await world.settle()
        assert [event.spare for event in seen_in(world)] == [1]
        assert len(world.broker.pending) == 1


async def test_a_silent_resource_manager_changes_nothing() -> None:
    async with am_world(elastic_job()) as world:
        await world.run_gang()
        world.view.silent = 1
        await world.advance(60.5)
        assert [(event.spare, event.excess) for event in seen_in(world)] == [(0, 0)]
        assert world.phase == "RUNNING"
        await world.advance(60.0)
        assert len(seen_in(world)) == 2, "the next look comes in its time"


async def test_a_wish_is_known_to_the_next_am() -> None:
    disk = Disk()
    async with am_world(elastic_job(), disk) as world:
        await world.run_gang()
        world.mailbox.scaled(2)
        await world.settle()
    async with am_world(elastic_job(), disk, am_attempt=2) as world:
        assert world.am.gang.size_request.tasks == 2
        await world.advance(5.0)
        assert len(world.broker.pending) == 2
        await world.run_gang()
        assert world.phase == "RUNNING"
        assert world.status.size is not None
        assert world.status.size.requested == 2


def measured(world: AmWorld, step: int, **values: float) -> None:
    """What the first rank reports."""
    gang = world.am.gang
    told = tuple((name, Measured(value)) for name, value in values.items())
    world.mailbox.measured = [
        AgentMetrics(gang.members[0].ask, 0, 1.0, step, None, told, gang.attempt)
    ]


def asked_in(world: AmWorld) -> list[tuple[str, int | None]]:
    events = world.disk.journal.events
    return [(one.by, one.tasks) for one in events if isinstance(one, ScaleRequested)]


async def test_the_program_asks_once_and_gets_what_it_may_have() -> None:
    async with am_world(elastic_job(2, 4)) as world:
        await world.run_gang()
        measured(world, 5, requested_gpus=9.0)
        await world.advance(1.5)
        assert asked_in(world) == [("the program (9 GPUs)", 2)], "two tasks of four GPUs fit in 9"
        await stop_all(world)
        await start_all(world)
        measured(world, 9, requested_gpus=9.0)
        await world.advance(3.0)
        assert len(asked_in(world)) == 1, "it asks again for what it has"
        assert world.status.size is not None
        assert world.status.size.words.endswith("the program asked for 2")
        assert world.status.metrics == ()
        for nonsense in (-4.0, math.nan, math.inf, 1e300):
            measured(world, 9, requested_gpus=nonsense)
            await world.advance(1.5)
        assert len(asked_in(world)) == 1
        measured(world, 10, requested_gpus=0.0)
        await world.advance(1.5)
        assert asked_in(world)[1:] == [("the program", None)]


async def test_what_an_earlier_attempt_asked_for_does_not_count() -> None:
    async with am_world(elastic_job()) as world:
        await world.run_gang()
        measured(world, 5, requested_gpus=4.0)
        world.mailbox.measured = [replace(one, attempt=9) for one in world.mailbox.measured]
        await world.advance(1.5)
        assert asked_in(world) == []


async def test_a_schedule_is_followed_by_the_epochs_that_are_reported() -> None:
    made = elastic_job()
    schedule = (ScheduledSize(4, epoch=0), ScheduledSize(2, epoch=3), ScheduledSize(3, epoch=9))
    spec = replace(made, elastic=replace(made.elastic, schedule=schedule))
    disk = Disk()
    async with am_world(spec, disk) as world:
        await world.run_gang()
        measured(world, 5, epoch=2.0)
        await world.advance(1.5)
        assert asked_in(world) == []
        measured(world, 6, epoch=3.0)
        await world.advance(3.5)
        assert asked_in(world) == [("elastic.schedule (epoch 3)", 2)]
        await stop_all(world)
        assert len(world.mailbox.launches[-1][1]) == 2
    async with am_world(spec, disk, am_attempt=2) as world:
        await world.advance(5.0)
        await world.run_gang()
        assert world.phase == "RUNNING"
        measured(world, 4, epoch=2.0)
        await world.advance(1.5)
        measured(world, 6, epoch=3.0)
        await world.advance(1.5)
        assert len(asked_in(world)) == 1, "a later ApplicationMaster knows that it has had its time"
        assert world.am.gang.size_request.tasks == 2


async def test_a_job_of_one_size_is_told_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async with am_world(job(tasks=2)) as world:
        await world.run_gang()
        measured(world, 5, requested_gpus=16.0)
        with caplog.at_level("WARNING"):
            await world.advance(3.5)
        assert caplog.text.count("requests 16 GPUs, but the job has one size") == 1
        assert asked_in(world) == []


# ---- the look itself -----------------------------------------------------------------------


def by(record: JobRecord, count: int) -> Supplement:
    """So many tasks more than two."""
    target = record.targets[0]
    standing = tuple(
        HeldTask("worker", NodeId("n1"), RackId("/rack1"), target.resources) for _ in range(2)
    )
    rung = Rung(0, LocalityLevel.ANY, (TargetAsk(target, 2),), 1.0, "")
    return Supplement((TargetAsk(target, count),), standing, rung)


async def look(
    snapshot: ClusterSnapshot, waiters: tuple[WaitingJob, ...] = (), count: int = 2
) -> ClusterSeen:
    spec = elastic_job()
    record = record_of(spec)
    told: list[Event] = []
    executor = InlineSerialExecutor()
    clock = FakeClock()
    looking = GrowthProbe(record, FakeView(snapshot), executor, clock, told.append, lambda: waiters)
    looking.request(ProbeCluster(1, by(record, count)), 0.25)
    for _ in range(20):
        await asyncio.sleep(0)
    [event] = told
    assert isinstance(event, ClusterSeen)
    assert event.u == 0.25
    return event


class Slow(InlineSerialExecutor):
    """Calls when it may."""

    def __init__(self) -> None:
        self.may = asyncio.Event()

    async def call(self, function: Callable[[], T]) -> T:
        await self.may.wait()
        return function()


async def test_a_look_that_takes_longer_than_the_time_between_two_comes_to_its_end() -> None:
    record, told, executor = record_of(elastic_job()), list[Event](), Slow()
    looking = GrowthProbe(record, FakeView(cluster()), executor, FakeClock(), told.append)
    for u in (0.1, 0.2, 0.3):
        looking.request(ProbeCluster(1, by(record, 2)), u)
        await asyncio.sleep(0)
    executor.may.set()
    await until(lambda: len(told) == 1)
    looking.request(ProbeCluster(1, by(record, 2)), 0.4)
    await until(lambda: len(told) == 2)
    executor.may.clear()
    looking.request(ProbeCluster(1, by(record, 2)), 0.5)
    looking.request(ProbeCluster(2, by(record, 2)), 0.6)
    executor.may.set()
    await until(lambda: len(told) == 3)
    assert [(seen.attempt, seen.u) for seen in told if isinstance(seen, ClusterSeen)] == [
        (1, 0.1), (1, 0.4), (2, 0.6),
    ]  # fmt: skip


async def until(happened: Callable[[], bool]) -> None:
    for _ in range(100):
        if happened():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not happen")


async def test_a_look_sees_who_waits_and_what_the_queue_is_over() -> None:
    queue = QueueView("root.dl", used=Resources(0, 0, 16), fair_share=Resources(0, 0, 8))
    snapshot = replace(cluster(), queue=queue)
    alone = await look(snapshot)
    assert (alone.spare, alone.excess, alone.waiting) == (2, 0, 0)
    crowded = await look(snapshot, (WaitingJob("root.b", 4), WaitingJob("root.dl", 4)))
    assert (crowded.excess, crowded.waiting, crowded.outranked) == (1, 2, 0)
    before = await look(snapshot, (WaitingJob("root.b", 4, 9), WaitingJob("root.dl", 4, 1)))
    assert before.outranked == 1
    assert (await look(snapshot, count=0)).spare == 0
