"""An AM whose queue has a policy, among other jobs, in a world of fakes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.fakes.clock import START_S
from tests.fakes.cluster_view import cluster
from tests.fakes.ticket_queue import FakeTicketQueue, FakeTicketStore
from tests.unit.am.am_world import APPLICATION, AmWorld, Disk, am_world, job, pass_time
from yarnam.core.model.events import Event, ResumeRequested, ScaleRequested, SuspendRequested
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_spec import CheckpointSpec, ElasticSpec, RoleSpec
from yarnam.core.model.job_status import JobState
from yarnam.core.model.metrics import SAVED_STEP, AgentMetrics, Measured
from yarnam.core.model.resources import Resources
from yarnam.core.model.tickets import Demand, HoldState, PolicyTicket, RunningGang, Ticket
from yarnam.core.policies.chosen_policy import QueuePolicy
from yarnam.core.queue_client.policy_following import AWAY_S

pytestmark = pytest.mark.asyncio

VERSION = 7
OTHER = "application_1_0777"
WHOLE = job(tasks=4, gpus=8, checkpoint=CheckpointSpec(directory="/ckpt"))
"""All 32 GPUs of the cluster."""

FULL = cluster(used=8)
TIRESIAS = QueuePolicy(
    "tiresias",
    (("limits", "640"), ("least_run", "0"), ("least_pause", "0")),
    by="ann",
    version=VERSION,
)
"""A gang of 32 GPUs falls to the second queue after 20 s."""


def hall(policy: QueuePolicy = TIRESIAS) -> FakeTicketStore:
    found = FakeTicketStore(lambda: START_S)
    found.policy = policy
    return found


def told(**changes: Any) -> PolicyTicket:
    usual: dict[str, Any] = {"submitted_at_s": START_S, "gpus": 32, "settings_version": VERSION}
    return PolicyTicket(OTHER, 0, **(usual | changes))


def other(room: FakeTicketStore, **changes: Any) -> FakeTicketQueue:
    """A gang as large that waits."""
    demand = Demand(Resources(1024, 1, 8), 4)
    ticket = Ticket(0, OTHER, "other", "root.dl", (demand,), START_S, policy=told())
    queue = FakeTicketQueue(room, OTHER)
    queue.take(replace(ticket, **changes))
    return queue


async def run_with_checkpoint(world: AmWorld) -> None:
    """The gang runs, has saved, and fills the cluster by the ResourceManager's books."""
    asks = await world.run_gang()
    world.view.shown = FULL
    values = ((SAVED_STEP, Measured(3.0)),)
    now_s, attempt = world.clock.now_s(), asks[0].attempt
    world.mailbox.measured = [AgentMetrics(asks[0], 0, now_s, 3, None, values, attempt)]
    await world.advance(2.0)


async def until_it_yields(world: AmWorld, *alive: FakeTicketQueue) -> None:
    for _ in range(60):
        if world.phase != "RUNNING":
            break
        await pass_time(world, 1.0, *alive)
    assert world.phase == "STOPPING", world.am._status().policy


async def stop_all(world: AmWorld) -> None:
    for ask in list(world.broker.granted):
        world.mailbox.stopped(ask, ask.attempt)
    await world.settle()
    world.view.shown = cluster()


async def suspended(world: AmWorld, *alive: FakeTicketQueue) -> None:
    """The policy has the job make room."""
    await run_with_checkpoint(world)
    await until_it_yields(world, *alive)
    await stop_all(world)
    assert world.am._status().state is JobState.SUSPENDED


async def test_a_job_yields_when_its_row_says_so_and_tells_why() -> None:
    room = hall()
    async with am_world(WHOLE, hall=room) as world:
        await world.settle()
        second = other(room)
        await suspended(world, second)
        status = world.am._status()
        assert "suspended by the queue's policy (tiresias): queue 2 of 2" in status.reason
        assert status.policy is not None
        assert (status.policy.policy, status.policy.act) == ("tiresias", "yield")
        assert status.policy.service_gpu_s >= 640
        assert world.broker.granted == {}
        [mine] = [one for one, _, _ in room.tickets.values() if one.job == APPLICATION]
        assert mine.blocked_reason
        assert mine.policy is not None
        assert mine.policy.state is HoldState.SUSPENDED
        assert APPLICATION not in room.gangs, "it is not shown as running any more"
        # The other has its turn: this job stays away, and comes back when the other has gone.
        second.claim(lambda listed: replace(second._ticket, is_acquiring=True))  # type: ignore[type-var, return-value]
        second.set_running(
            RunningGang(OTHER, "root.dl", 32, None,
                        tuple((NodeId(str(n.node_id)), 8) for n in FULL.nodes),
                        world.clock.now_s(),
                        policy=told(state=HoldState.RUNNING, since_s=world.clock.now_s()))
        )  # fmt: skip
        world.view.shown = FULL
        await pass_time(world, 15.0)
        assert world.am._status().state is JobState.SUSPENDED
        second.close()
        world.view.shown = cluster()
        await pass_time(world, 20.0)
        assert len(world.broker.pending) == 4
        assert world.am.gang.attempt == 2


async def test_a_start_costs_until_the_program_trains_again() -> None:
    """Its processes run long before they have loaded their checkpoint."""
    room = hall()
    async with am_world(WHOLE, hall=room) as world:
        asks = await world.run_gang()
        world.view.shown = FULL
        await pass_time(world, 30.0)
        now_s, attempt = world.clock.now_s(), asks[0].attempt
        world.mailbox.measured = [AgentMetrics(asks[0], 0, now_s, 3, None, (), attempt)]
        await pass_time(world, 10.0)
        status = world.am._status()
        assert status.policy is not None
        assert 30.0 <= status.policy.pause_cost_s < 45.0
        # Only the first report tells: later ones are of training.
        world.mailbox.measured = [AgentMetrics(asks[0], 0, now_s, 90, None, (), attempt)]
        await pass_time(world, 90.0)
        after = world.am._status()
        assert after.policy is not None
        assert after.policy.pause_cost_s == status.policy.pause_cost_s


async def test_a_job_that_has_saved_nothing_is_never_suspended() -> None:
    room = hall()
    async with am_world(WHOLE, hall=room) as world:
        await world.run_gang()
        world.view.shown = FULL
        second = other(room)
        await pass_time(world, 90.0, second)
        assert world.phase == "RUNNING"
        status = world.am._status()
        assert status.policy is not None
        assert not status.policy.can_suspend


async def test_a_choice_takes_effect_while_the_job_runs() -> None:
    """And so does its end: what was suspended goes on."""
    room = hall(QueuePolicy("smallest-first"))
    async with am_world(WHOLE, hall=room) as world:
        await world.settle()
        second = other(room)
        await run_with_checkpoint(world)
        await pass_time(world, 60.0, second)
        assert world.phase == "RUNNING"
        assert world.am._status().policy is None
        assert room.gangs[APPLICATION].policy is None
        room.policy = TIRESIAS
        await until_it_yields(world, second)
        await stop_all(world)
        room.policy = QueuePolicy("smallest-first", version=VERSION + 1)
        second.close()
        await pass_time(world, 15.0)
        assert world.am.gang.attempt == 2
        assert len(world.broker.pending) == 4


@pytest.mark.parametrize(
    ("policy", "word"),
    [
        (QueuePolicy("no-such", version=VERSION), "unknown policy"),
        (QueuePolicy("tiresias", (("limits", "-3"),), version=VERSION), "limits is '-3'"),
        (QueuePolicy("", version=VERSION, trouble="it is torn"), "it is torn"),
    ],
)
async def test_a_choice_that_is_of_no_use_is_said_and_suspends_nobody(
    policy: QueuePolicy, word: str
) -> None:
    room = hall(policy)
    async with am_world(WHOLE, hall=room) as world:
        await world.settle()
        second = other(room)
        await run_with_checkpoint(world)
        await pass_time(world, 60.0, second)
        assert world.phase == "RUNNING"
        status = world.am._status()
        assert status.policy is not None
        assert word in status.policy.trouble
        assert word in status.policy.why


async def test_a_job_of_another_version_makes_all_go_by_arrival() -> None:
    room = hall()
    async with am_world(WHOLE, hall=room) as world:
        await world.settle()
        second = other(room, policy=None)
        await run_with_checkpoint(world)
        await pass_time(world, 60.0, second)
        assert world.phase == "RUNNING"
        status = world.am._status()
        assert status.policy is not None
        assert "several versions" in status.policy.why


async def test_without_zookeeper_a_suspended_job_goes_on_after_a_while() -> None:
    room = hall()
    async with am_world(WHOLE, hall=room) as world:
        await world.settle()
        second = other(room)
        await suspended(world, second)
        assert world.ticket_queue is not None
        world.ticket_queue.is_away = True
        await pass_time(world, AWAY_S / 2, second)
        assert world.am._status().state is JobState.SUSPENDED
        await pass_time(world, AWAY_S, second)
        assert world.am.gang.attempt == 2
        assert world.am._status().state is not JobState.SUSPENDED


async def test_the_next_application_master_leaves_it_to_the_policy() -> None:
    room, disk = hall(), Disk()
    async with am_world(WHOLE, disk, hall=room) as world:
        await world.settle()
        second = other(room)
        await suspended(world, second)
        now_s = world.clock.now_s()
    async with am_world(WHOLE, disk, 2, hall=room) as world:
        world.clock.advance(now_s - world.clock.now_s())
        await pass_time(world, 15.0, second)
        assert world.am._status().state is JobState.SUSPENDED
        told_s = world.am.policy_ticket(VERSION).service_gpu_s
        assert told_s >= 640, "it has forgotten what it has had"
        second.close()
        await pass_time(world, 20.0)
        assert world.am.gang.attempt == 2


async def test_a_job_that_is_not_to_run_waits_though_its_gang_fits() -> None:
    """It is set aside meanwhile, so that jobs of other queues pass."""
    room = hall(QueuePolicy("fifo", version=VERSION))
    first = other(room, policy=told(submitted_at_s=0.5))
    async with am_world(job(tasks=2, gpus=8), hall=room, used=4) as world:
        world.view.shown = cluster()
        await pass_time(world, 30.0, first)
        assert world.broker.pending == {}
        [mine] = [one for one, _, _ in room.tickets.values() if one.job == APPLICATION]
        assert mine.blocked_reason == "the policy of its queue has others go first"
        first.close()
        await pass_time(world, 60.0)
        assert len(world.broker.pending) == 2


async def test_jobs_without_gpus_have_no_policy() -> None:
    spec = job(roles=(RoleSpec("worker", 2, Resources(1024, 1, 0), ("train",)),))
    room = hall(QueuePolicy("fifo", version=VERSION))
    other(room, policy=told(submitted_at_s=0.5))
    async with am_world(spec, hall=room) as world:
        await world.run_gang()
        assert world.phase == "RUNNING"
        assert room.gangs[APPLICATION].policy is None
        assert not [one for one in world.am._recent if isinstance(one, SuspendRequested)]


async def test_a_promotion_is_kept_over_a_killed_application_master() -> None:
    """Suspended after some 650 GPU-s, it has waited so many times as long as it ran: what it has
    had counts anew, for the next ApplicationMaster too."""
    room, disk = hall(replace(TIRESIAS, settings=(*TIRESIAS.settings, ("promote", "2")))), Disk()
    async with am_world(WHOLE, disk, hall=room) as world:
        await world.settle()
        second = other(room)
        await suspended(world, second)
        assert world.am.policy_ticket(VERSION).counted_gpu_s >= 640
        for _ in range(60):
            if world.am._status().state is not JobState.SUSPENDED:
                break
            await pass_time(world, 2.0, second)
        [resumed] = [one for one in disk.journal.events if isinstance(one, ResumeRequested)]
        assert resumed.is_promoted
        ticket = world.am.policy_ticket(VERSION)
        assert (ticket.counted_gpu_s, ticket.service_gpu_s >= 640) == (0.0, True)
    async with am_world(WHOLE, disk, 2, hall=room) as world:
        ticket = world.am.policy_ticket(VERSION)
        assert (ticket.counted_gpu_s, ticket.service_gpu_s >= 640) == (0.0, True)


async def test_an_elastic_job_makes_way_for_a_higher_priority_and_grows_again() -> None:
    worker = replace(WHOLE.roles[0], min_tasks=1)
    rules = ElasticSpec(patience_s=0.0, grow=False, min_run_s=0.0)
    room = hall()
    async with am_world(replace(WHOLE, roles=(worker,), elastic=rules), hall=room) as world:
        await world.settle()
        await run_with_checkpoint(world)
        demand = Demand(Resources(1024, 1, 8), 3)
        second = other(room, demands=(demand,), policy=told(gpus=24, priority=5), priority=5)
        await until_it_yields(world, second)
        requested = [one for one in disk_of(world) if isinstance(one, ScaleRequested)]
        assert [(one.tasks, one.is_policy) for one in requested] == [(1, True)]
        assert not [one for one in disk_of(world) if isinstance(one, SuspendRequested)]
        await stop_all(world)
        [member] = world.am.gang.members
        world.mailbox.started(member.ask, world.am.gang.attempt)
        await world.settle()
        second.close()
        await pass_time(world, 15.0)
        requested = [one for one in disk_of(world) if isinstance(one, ScaleRequested)]
        assert [one.tasks for one in requested] == [1, None]
        assert world.am.gang.size_request.tasks is None


async def test_zookeeper_that_is_lost_in_the_midst_of_a_slice_suspends_nobody() -> None:
    """The slice is over, and another waits: but who knows that now?"""
    gandiva = QueuePolicy("gandiva", (("slice", "30"),), version=VERSION)
    room = hall(gandiva)
    async with am_world(WHOLE, hall=room) as world:
        await world.settle()
        second = other(room)
        await run_with_checkpoint(world)
        assert world.ticket_queue is not None
        world.ticket_queue.is_away = True
        await pass_time(world, 600.0, second)
        assert world.phase == "RUNNING"
        assert "does not answer" in world.ticket_queue.trouble
        world.ticket_queue.is_away = False
        await until_it_yields(world, second)
        assert "its slice is over" in world.am.gang.reason


async def test_hdfs_that_is_away_at_the_resume_delays_it_and_loses_nothing() -> None:
    room, disk = hall(), Disk()
    async with am_world(WHOLE, disk, hall=room) as world:
        await world.settle()
        second = other(room)
        await suspended(world, second)
        served = world.am.policy_ticket(VERSION).service_gpu_s
        disk.journal.outages = 20
        second.close()
        await pass_time(world, 20.0)
        assert world.broker.pending == {}, "nothing is asked for before it is written down"
        assert "HDFS does not answer" in world.am._status().reason
        await pass_time(world, 60.0)
        assert len(world.broker.pending) == 4
        assert world.am.gang.attempt == 2
        assert world.am.policy_ticket(VERSION).service_gpu_s == served
        resumed = [one for one in disk_of(world) if isinstance(one, ResumeRequested)]
        assert len(resumed) == 1


async def test_a_checkpoint_that_fails_at_the_suspend_is_a_failure_and_no_suspension() -> None:
    room = hall()
    async with am_world(WHOLE, hall=room) as world:
        await world.settle()
        second = other(room)
        await run_with_checkpoint(world)
        await until_it_yields(world, second)
        first, *rest = list(world.broker.granted)
        world.mailbox.exited(first, first.attempt, code=1)
        for ask in rest:
            world.mailbox.stopped(ask, ask.attempt)
        await world.settle()
        assert world.am._status().state is not JobState.SUSPENDED
        assert world.am._status().verdict is not None, "a program that fails is not run again"


def disk_of(world: AmWorld) -> list[Event]:
    return list(world.disk.journal.events)


async def test_others_see_the_end_that_the_program_counts() -> None:
    """A declared duration is what its user expected; its own steps are better."""
    room = hall()
    declared = replace(WHOLE, duration_s=36000.0)
    async with am_world(declared, hall=room) as world:
        asks = await world.run_gang()
        world.view.shown = FULL
        began_s, attempt = world.clock.now_s(), asks[0].attempt
        assert room.gangs[APPLICATION].ends_at_s == pytest.approx(began_s + 36000.0, abs=60.0)
        writes = []
        for seconds in range(0, 240, 5):
            now_s = world.clock.now_s()
            metrics = AgentMetrics(asks[0], 0, now_s, 10 + seconds, 1000, (), attempt)
            world.mailbox.measured = [metrics]
            await pass_time(world, 5.0)
            writes.append(room.gangs[APPLICATION].ends_at_s)
        shown = room.gangs[APPLICATION]
        left_s = (shown.ends_at_s or 0.0) - world.clock.now_s()
        assert left_s == pytest.approx(755.0, rel=0.15)
        assert len(set(writes)) < 8, "a look that differs little is not written"
        assert shown.policy is not None
        assert shown.policy.left_s(world.clock.now_s()) == pytest.approx(left_s, abs=5.0)
