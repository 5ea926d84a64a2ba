"""Cordoned nodes and stopped queues, as an ApplicationMaster sees them."""

from __future__ import annotations

import pytest

from tests.unit.am.am_world import Disk, am_world, job, pass_time
from tests.unit.am.test_admission_wait import hall, mine
from yarnam.am.am_settings import AmSettings
from yarnam.core.model.events import NodesCordoned
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_status import JobState
from yarnam.core.model.snapshot import Closure, Closures
from yarnam.core.model.tickets import NOT_ITS_TURN

LOOK_S = 35.0
DISK = Closure("ann", 1.0, "disk errors")
ALL = Closures({NodeId(f"n{number}"): DISK for number in range(1, 5)})
STOPPED = Closures(queues={"root": Closure("ann", 1.0, "upgrade tonight")})


@pytest.mark.asyncio
@pytest.mark.parametrize("with_tickets", [True, False])
async def test_a_job_waits_for_cordoned_nodes_and_says_so(with_tickets: bool) -> None:
    room = hall() if with_tickets else None
    async with am_world(job(), hall=room, closures=ALL) as world:
        await pass_time(world, 60.0)
        assert not world.broker.pending
        assert world.status.state is JobState.QUEUED, "it does not fail, though no node is left"
        assert "were it not for n1 (cordoned by ann: disk errors) and 3 more" in world.status.reason
        world.closures = Closures()
        await pass_time(world, LOOK_S)
        assert world.broker.pending


@pytest.mark.asyncio
async def test_a_job_of_a_stopped_queue_keeps_its_place_and_holds_up_nobody() -> None:
    room = hall()
    async with am_world(job(), hall=room, closures=STOPPED) as world:
        await pass_time(world, 60.0)
        (ticket,) = mine(room)
        assert ticket.blocked_reason == NOT_ITS_TURN
        assert not world.broker.pending
        assert "queue root is stopped by ann: upgrade tonight" in world.status.reason
        world.closures = Closures()
        await pass_time(world, LOOK_S)
        assert [one.number for one in mine(room)] == [ticket.number]
        assert world.broker.pending


@pytest.mark.asyncio
async def test_a_job_without_tickets_waits_for_its_stopped_queue_too() -> None:
    async with am_world(job(), closures=STOPPED) as world:
        await world.advance(60.0)
        assert not world.broker.pending
        assert "queue root is stopped by ann" in world.status.reason
        world.closures = Closures()
        await world.advance(LOOK_S)
        assert world.broker.pending


@pytest.mark.asyncio
async def test_the_gang_of_a_drained_queue_leaves_in_time_and_waits() -> None:
    async with am_world(job()) as world:
        await world.run_gang()
        now_s = world.clock.now_s()
        world.closures = Closures(queues={"root.dl": Closure("ann", now_s, "", now_s + 300.0)})
        await world.advance(200.0)
        assert world.status.state is JobState.RUNNING, "there is time left"
        await world.advance(90.0)
        assert world.mailbox.stopped, "it has been asked to stop"


@pytest.mark.asyncio
async def test_an_order_is_in_the_journal_once() -> None:
    async with am_world(job(), closures=ALL) as world:
        await world.advance(5 * AmSettings().closures_period_s)
        events = [one for one in world.disk.journal.events if isinstance(one, NodesCordoned)]
        assert [len(one.nodes) for one in events] == [4]
        assert events[0].nodes[0].why == "cordoned by ann: disk errors"


@pytest.mark.asyncio
async def test_a_new_application_master_that_cannot_ask_lifts_no_cordon() -> None:
    disk = Disk()
    async with am_world(job(), disk, closures=ALL) as world:
        await world.advance(AmSettings().closures_period_s)
        known = world.am.gang.nodes.cordoned
        assert len(known) == 4
    async with am_world(job(), disk, am_attempt=2, closures=None) as world:
        await world.advance(2 * AmSettings().closures_period_s)
        assert world.am.gang.nodes.cordoned == known
