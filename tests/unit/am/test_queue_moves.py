"""YARN moves a job to another queue: its ticket, its policy and its status are of that one."""

from __future__ import annotations

import pytest

from tests.fakes.ticket_queue import FakeTicketStore
from tests.unit.am.am_world import APPLICATION, AmWorld, am_world, pass_time
from tests.unit.am.test_admission_wait import WHOLE, hall, mine
from yarnam.am.am_settings import AmSettings
from yarnam.core.model.job_status import JobStatus
from yarnam.core.queues.queue_state import full_queue

LOOK_S = AmSettings().queue_period_s
SPEC_QUEUE, NEW_QUEUE = "root.dl", "root.other"


def status_of(world: AmWorld) -> JobStatus:
    return world.am._status()


def queues_shown(room: FakeTicketStore) -> set[str]:
    gangs = [gang for gang in room.gangs.values() if gang.job == APPLICATION]
    return {ticket.queue for ticket in mine(room)} | {gang.queue for gang in gangs}


@pytest.mark.asyncio
async def test_a_waiting_job_takes_its_ticket_along() -> None:
    room = hall()
    async with am_world(WHOLE, hall=room, used=1) as world:
        await pass_time(world, 10.0)
        assert queues_shown(room) == {SPEC_QUEUE}
        number = mine(room)[0].number
        world.queue_now = NEW_QUEUE
        await pass_time(world, LOOK_S + 30.0)
        assert queues_shown(room) == {NEW_QUEUE}
        assert mine(room)[0].number == number, "its place in the order of arrival stays"
        assert (status_of(world).queue, status_of(world).requested_queue) == (NEW_QUEUE, SPEC_QUEUE)


@pytest.mark.asyncio
async def test_a_running_gang_is_shown_in_its_new_queue_and_back() -> None:
    room = hall()
    async with am_world(WHOLE, hall=room) as world:
        await world.run_gang()
        await world.advance(5.0)
        assert queues_shown(room) == {SPEC_QUEUE}
        world.queue_now = NEW_QUEUE
        await world.advance(LOOK_S + 5.0)
        assert queues_shown(room) == {NEW_QUEUE}
        world.queue_now = SPEC_QUEUE
        await world.advance(LOOK_S + 5.0)
        assert queues_shown(room) == {SPEC_QUEUE}
        assert (status_of(world).queue, status_of(world).requested_queue) == (SPEC_QUEUE, "")


@pytest.mark.parametrize(
    ("reported", "names", "full"),
    [
        ("root.a", ["root.a", "root.b.a"], "root.a"),
        ("a", ["root.x.a", "root.b"], "root.x.a"),
        ("a", ["root.x.a", "root.y.a"], ""),
        ("a", ["root.b"], ""),
    ],
)
def test_the_capacity_schedulers_short_name_is_made_whole(
    reported: str, names: list[str], full: str
) -> None:
    assert full_queue(reported, names) == full


@pytest.mark.asyncio
@pytest.mark.parametrize("reported", ["", SPEC_QUEUE, "dl"])
async def test_a_queue_that_yarn_does_not_name_in_full_is_the_jobs_own(reported: str) -> None:
    async with am_world(WHOLE) as world:
        world.queue_now = reported
        await world.advance(LOOK_S + 5.0)
        assert (status_of(world).queue, status_of(world).requested_queue) == (SPEC_QUEUE, "")


@pytest.mark.asyncio
async def test_placement_rules_are_known_before_the_first_ticket() -> None:
    room = hall()
    async with am_world(WHOLE, hall=room, used=1, queue_now=NEW_QUEUE) as world:
        await pass_time(world, 10.0)
        assert queues_shown(room) == {NEW_QUEUE}
        assert (status_of(world).queue, status_of(world).requested_queue) == (NEW_QUEUE, SPEC_QUEUE)
