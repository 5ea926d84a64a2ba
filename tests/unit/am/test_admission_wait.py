"""Taking turns: an AM among other jobs at a ticket queue, in a world of fakes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes.clock import START_S
from tests.fakes.cluster_view import FakeView, cluster
from tests.fakes.live_applications import FakeLiveApplications
from tests.fakes.ticket_queue import FakeTicketQueue, FakeTicketStore, asking
from tests.unit.am.am_world import APPLICATION, AmWorld, Disk, am_world, job, pass_time
from yarnam.am.am_settings import AmSettings
from yarnam.core.admission.delay_limit import IDLE_LIMIT_S, SPREAD_S
from yarnam.core.admission.polling import POLL_CAP_S
from yarnam.core.model.events import AgentRegistered, CancelRequested, PlanReady, PlanRefused
from yarnam.core.model.ids import ContainerId, NodeId, RackId
from yarnam.core.model.job_spec import GangSpec
from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.core.model.outcomes import ContainerEnd
from yarnam.core.model.plans import LocalityLevel, Reason
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.core.model.tickets import Demand, RunningGang, Ticket
from yarnam.errors import BadConfig, ExitCode

pytestmark = pytest.mark.asyncio

WHOLE = job(tasks=4, gpus=8)
"""All 32 GPUs of the cluster."""


def hall() -> FakeTicketStore:
    return FakeTicketStore(lambda: START_S)


def other(
    room: FakeTicketStore,
    name: str = "application_1_0777",
    gpus: int = 8,
    tasks: int = 4,
    **changes: object,
) -> FakeTicketQueue:
    """Another job that waits, with a ticket."""
    ticket = Ticket(
        0, name, "big", "root.dl", (Demand(Resources(1024, 1, gpus), tasks),), 1_700_000_000.0
    )
    queue = FakeTicketQueue(room, name)
    queue.take(replace(ticket, **changes))  # type: ignore[arg-type]
    return queue


def mine(room: FakeTicketStore) -> list[Ticket]:
    return [ticket for ticket, _, _ in room.tickets.values() if ticket.job == APPLICATION]


def status_of(world: AmWorld) -> JobStatus:
    return world.am._status()


async def test_with_nobody_before_it_a_job_asks_at_once() -> None:
    room = hall()
    async with am_world(WHOLE, hall=room) as world:
        assert len(world.broker.pending) == 4
        [ticket] = mine(room)
        assert ticket.is_acquiring
        assert ticket.gpus == 32


async def test_the_second_of_two_waits_and_says_for_whom() -> None:
    """Both fit alone, not together: the first to have a ticket asks, the other waits."""
    room = hall()
    first = other(room)
    async with am_world(WHOLE, hall=room) as world:
        assert world.broker.pending == {}
        await pass_time(world, 100.0, first)
        assert world.broker.pending == {}
        assert world.phase == "PENDING"
        status = status_of(world)
        assert status.state is JobState.QUEUED
        assert "waiting behind 1 job (big (application_1_0777) needs 32 GPUs)" in status.reason
        assert status.wait_queue is not None
        assert (status.wait_queue.ahead, status.wait_queue.head_gpus) == (1, 32)
        assert status.attempt == 1
        assert status.history == ()
        # It has been given a turn as soon as the other has gone.
        first.close()
        await world.advance(4.0)
        assert len(world.broker.pending) == 4
        assert status_of(world).wait_queue is None


async def test_a_gang_that_started_after_the_snapshot_is_planned_around(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It had its containers a moment after the cluster was asked, and its ticket is gone by the
    time the tickets are read: neither shows that its nodes are taken."""
    room = hall()
    taken = replace(
        cluster(),
        nodes=tuple(
            replace(node, used=node.total) if node.rack == "/rack1" else node
            for node in cluster().nodes
        ),
    )
    answer = FakeView.snapshot

    def then_it_starts(
        view: FakeView, queue: str, *, max_age_s: float | None = None
    ) -> ClusterSnapshot:
        before = answer(view, queue, max_age_s=max_age_s)
        if not room.gangs:
            view.shown = taken
            on = ((NodeId("n1"), 8), (NodeId("n2"), 8))
            FakeTicketQueue(room, "application_1_0777").set_running(
                RunningGang("application_1_0777", "root.dl", 16, None, on, START_S)
            )
        return before

    monkeypatch.setattr(FakeView, "snapshot", then_it_starts)
    async with am_world(job(tasks=2, gpus=8), hall=room) as world:
        assert {target.racks for target in world.broker.pending.values()} == {("/rack2",)}
        assert world.view.calls == 2


@pytest.mark.parametrize("rack", ["/rack1", "/rack2"])
@pytest.mark.parametrize("tasks", [2, 1])
async def test_a_job_keeps_off_the_rack_that_another_has_asked_for(rack: str, tasks: int) -> None:
    """The other has no containers yet, so the snapshot shows all nodes free. Also if this job is
    the smaller one, and so the first in the queue."""
    room = hall()
    rival = other(room, gpus=8, tasks=2)
    demands = (Demand(Resources(1024, 1, 8), 2, racks=(RackId(rack),)),)
    assert rival._ticket is not None
    rival.claim(asking(replace(rival._ticket, demands=demands)))
    async with am_world(job(tasks=tasks, gpus=8), hall=room) as world:
        assert len(world.broker.pending) == tasks
        for target in world.broker.pending.values():
            assert rack not in target.racks
            assert not {"/rack1": {"n1", "n2"}, "/rack2": {"n3", "n4"}}[rack] & set(target.nodes)
            assert target.level is not LocalityLevel.ANY


async def test_a_ticket_says_where_its_containers_may_land() -> None:
    room = hall()
    async with am_world(job(tasks=2, gpus=8), hall=room) as world:
        asked = {target.racks for target in world.broker.pending.values()}
        [ticket] = mine(room)
        assert {demand.racks for demand in ticket.demands} == asked != {()}
        await world.run_gang()
        assert mine(room) == []


async def test_a_waiting_job_tells_when_it_is_likely_to_start() -> None:
    """All GPUs are held by a gang that has declared its end."""
    room = hall()
    holder = FakeTicketQueue(room, "application_1_0777")
    on = tuple((NodeId(f"n{number}"), 8) for number in range(1, 5))
    holder.set_running(
        RunningGang("application_1_0777", "root.dl", 32, START_S + 600.0, on, START_S)
    )
    async with am_world(WHOLE, hall=room, used=8) as world:
        await world.advance(5.0)
        status = status_of(world)
        assert status.wait_queue is not None
        start = status.wait_queue.start
        assert start is not None
        assert start.soonest_at_s is not None
        assert START_S < start.soonest_at_s < (start.likely_at_s or 0.0) <= START_S + 600.0
        (ticket,) = mine(room)
        assert ticket.forecast_s is not None
        assert 300.0 < ticket.forecast_s <= 600.0
        holder.close()
        world.view.shown = cluster()
        await world.advance(POLL_CAP_S)
        await world.run_gang()
        # It waited for less than a minute, which counts as one.
        assert room.gangs[APPLICATION].wait_ratio == 60.0 / ticket.forecast_s
    strangers = hall()
    async with am_world(WHOLE, hall=strangers, used=8) as world:
        await world.advance(5.0)
        turn = status_of(world).wait_queue
        assert turn is not None
        assert turn.start is not None
        assert turn.start.likely_at_s is None
        assert "take no tickets" in turn.start.unknown_why


async def test_waiting_fills_no_journal() -> None:
    room, disk = hall(), Disk()
    first = other(room)
    async with am_world(WHOLE, disk, hall=room, used=1) as world:
        await pass_time(world, 900.0, first)
        assert len(disk.journal.events) == 1
        world.view.shown = cluster()
        first.close()
        await world.advance(4.0)
        assert [type(event) for event in disk.journal.events][1:] == [PlanReady]


async def test_a_silent_head_is_passed_over() -> None:
    """Its session lives, but nothing has been heard of it for a minute."""
    room = hall()
    other(room)
    async with am_world(WHOLE, hall=room) as world:
        await world.advance(50.0)
        assert world.broker.pending == {}
        await world.advance(60.0)
        assert len(world.broker.pending) == 4


async def test_a_waiting_job_gives_signs_of_life() -> None:
    room = hall()
    head = other(room)
    async with am_world(WHOLE, hall=room, used=1) as world:
        for _ in range(20):
            await pass_time(world, 30.0, head)
            [written] = [at for t, _, at in room.tickets.values() if t.job == APPLICATION]
            assert world.clock.now_s() - written < 2 * POLL_CAP_S


async def until_it_asks(world: AmWorld, *alive: FakeTicketQueue) -> None:
    for _ in range(int(SPREAD_S + 80.0) // 5):
        if world.broker.pending:
            break
        await pass_time(world, 5.0, *alive)
    assert len(world.broker.pending) == 4


async def test_a_job_that_is_overtaken_again_and_again_goes_on_by_itself() -> None:
    """Whoever writes the claim in a loop makes each claim fail."""
    room = hall()
    async with am_world(WHOLE, hall=room, used=1) as world:
        assert world.ticket_queue is not None
        world.ticket_queue.claim = lambda claim: bool(claim(room.listed(APPLICATION))) and False
        world.view.shown = cluster()
        await pass_time(world, IDLE_LIMIT_S - 20.0)
        assert world.broker.pending == {}
        assert "other jobs asked first" in status_of(world).reason
        await until_it_asks(world)


async def test_others_that_leave_the_gpus_idle_are_waited_for_three_minutes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    room = hall()
    foe = other(room, name="application_1_0666")
    async with am_world(WHOLE, hall=room) as world:
        await pass_time(world, IDLE_LIMIT_S - 20.0, foe)
        assert world.broker.pending == {}
        await until_it_asks(world, foe)
        assert "first of them big (application_1_0666)" in caplog.text
        assert "yarnam docs zookeeper" in caplog.text
        # The others see that it acquires, as after a claim.
        [ticket] = mine(room)
        assert ticket.is_acquiring


async def test_tickets_that_nobody_confirms_are_shown_as_such() -> None:
    room = hall()
    room.applications = rm = FakeLiveApplications()
    rm.trouble = "the ResourceManager does not confirm the tickets of others: no answer"
    first = other(room)
    async with am_world(WHOLE, hall=room, used=1) as world:
        await pass_time(world, 30.0, first)
        assert "waiting behind 1 job" in status_of(world).reason
        assert status_of(world).reason.endswith(rm.trouble)
        rm.trouble = ""
        await pass_time(world, 60.0, first)
        assert "waiting behind" not in status_of(world).reason
        rm.add("application_1_0777", started_at_s=START_S - 60.0)
        await pass_time(world, 60.0, first)
        assert "waiting behind 1 job" in status_of(world).reason


async def test_a_small_job_goes_beside_the_head() -> None:
    """The head cannot be had yet; what it will take is left to it."""
    room = hall()
    other(room, gpus=8, tasks=4, taken_at_s=START_S - 22_000.0)
    async with am_world(job(tasks=1, gpus=1), hall=room, used=1) as world:
        await world.advance(5.0)
        assert world.broker.pending == {}
        assert "nodes are reserved for application_1_0777" in status_of(world).reason
    room = hall()
    other(room, gpus=8, tasks=2)
    async with am_world(job(tasks=1, gpus=8), hall=room) as world:
        await world.advance(5.0)
        assert len(world.broker.pending) == 1


async def test_the_ticket_tells_which_nodes_the_job_may_use() -> None:
    room = hall()
    spec = job(tasks=1, gpus=8)
    wish = replace(
        spec.placement, include_nodes=("n1", "n2"), exclude_nodes=("n2",), gpu_model="any"
    )
    spec = replace(spec, placement=wish, gang=replace(spec.gang, priority=3))
    async with am_world(spec, hall=room):
        [ticket] = mine(room)
        assert (ticket.included, ticket.excluded) == (("n1", "n2"), ("n2",))
        assert (ticket.gpu_model, ticket.priority) == ("", 3)


async def test_a_head_for_other_nodes_is_not_waited_for() -> None:
    """It waits for n1 to be whole, and takes the rest of the cluster for nobody."""
    room = hall()
    first = other(room, tasks=1, included=(NodeId("n1"),), taken_at_s=START_S - 6000.0)
    spec = job(tasks=1, gpus=8)
    apart = replace(spec, placement=replace(spec.placement, exclude_nodes=("n1",)))
    async with am_world(apart, hall=room) as world:
        assert len(world.broker.pending) == 1
    same = replace(spec, placement=replace(spec.placement, include_nodes=("n1",)))
    async with am_world(same, hall=room) as world:
        await pass_time(world, 30.0, first)
        assert world.broker.pending == {}


async def test_a_full_cluster_is_waited_for_in_line() -> None:
    room, disk = hall(), Disk()
    async with am_world(WHOLE, disk, hall=room) as world:
        await world.run_gang()
    del world
    async with am_world(WHOLE, hall=room) as world:
        world.view.shown = cluster(used=1)
        first = next(iter(world.broker.pending))
        world.broker.grant(first, "n1")
        await world.advance(31.0)
        assert world.phase == "BACKING_OFF"
        assert mine(room)[0].blocked_reason
        await world.advance(10.0)
        assert world.phase == "PENDING"
        assert not mine(room)[0].blocked_reason
        status = status_of(world)
        assert "waiting for free GPUs: first in the queue" in status.reason
        assert "32 GPUs" in status.reason
        world.view.shown = cluster()
        await world.advance(3.5)
        assert len(world.broker.pending) == 4


async def test_the_ticket_shrinks_as_grants_come_and_goes_when_the_gang_stands() -> None:
    room = hall()
    spec = replace(WHOLE, duration_s=600.0)
    async with am_world(spec, hall=room) as world:
        await world.settle()
        world.broker.grant(next(iter(world.broker.pending)), "n1")
        await world.settle()
        assert mine(room)[0].gpus == 32, "a look may be older than this grant"
        await world.advance(2.5)
        assert mine(room)[0].gpus == 24
        await world.run_gang()
        await world.advance(0.1)
        assert mine(room) == []
        gang = room.gangs[APPLICATION]
        assert (gang.gpus, sum(gpus for _, gpus in gang.nodes)) == (32, 32)
        assert gang.ends_at_s == pytest.approx(world.clock.now_s() + 600.0, abs=10.0)


async def test_a_lost_gang_comes_back_to_its_place() -> None:
    room = hall()
    spec = job(tasks=3, gpus=8, gang=GangSpec(backoff_base_s=1.0, recovery_timeout_s=0.0))
    async with am_world(spec, hall=room) as world:
        number = next(iter(room.tickets))
        asks = await world.run_gang()
        later = other(room)
        assert room.last_number > number
        world.broker.end(asks[0], ContainerEnd.LOST, "node lost")
        await pass_time(world, 30.0, later)
        assert {ask.attempt for ask in world.broker.pending} == {2}
        assert room.tickets[number][0].taken_at_s == START_S


async def test_a_new_am_attempt_comes_back_to_its_place() -> None:
    room, disk = hall(), Disk()
    head = other(room)
    async with am_world(WHOLE, disk, hall=room) as world:
        await world.advance(1.0)
        [number] = [n for n, (t, _, _) in room.tickets.items() if t.job == APPLICATION]
    assert mine(room) == [], "its session has ended"
    behind = other(room, "application_1_0888", gpus=8, tasks=4)
    async with am_world(WHOLE, disk, am_attempt=2, hall=room) as world:
        await world.advance(60.0)
        assert number in room.tickets
        head.close()
        await world.advance(3.0)
        assert len(world.broker.pending) == 4
        del behind


async def test_two_jobs_with_one_room_never_both_claim() -> None:
    """Another job claims between this one's look and its claim."""
    room = hall()
    async with am_world(WHOLE, hall=room) as world:
        assert world.ticket_queue is not None
        assert world.ticket_queue.claims == 1
    room = hall()
    rival = FakeTicketQueue(room, "application_1_0001_rival")
    rival.take(Ticket(0, "rival", "r", "root.dl", (Demand(Resources(1, 1, 8), 4),), 0.0))
    rival.claim(asking(Ticket(0, "rival", "r", "root.dl", (Demand(Resources(1, 1, 8), 4),), 0.0)))
    async with am_world(WHOLE, hall=room) as world:
        await world.advance(20.0)
        assert world.broker.pending == {}
        assert world.ticket_queue is not None
        assert world.ticket_queue.claims == 0


async def test_without_zookeeper_the_job_goes_on_by_chance_and_says_so() -> None:
    room = hall()
    other(room)
    disk = Disk()
    async with am_world(WHOLE, disk, hall=room) as world:
        assert world.ticket_queue is not None
        await world.advance(5.0)
        assert world.broker.pending == {}
        world.ticket_queue.is_away = True
        world.ticket_queue.changed()
        # It waits for it to come back, but not for ever.
        await world.advance(AmSettings().ticket_grace_s - 2.0)
        assert world.broker.pending == {}
        await world.advance(40.0)
        assert len(world.broker.pending) == 4
        assert "ZooKeeper at fake:2181 does not answer" in status_of(world).reason


async def test_an_office_that_is_away_at_the_start_costs_two_seconds() -> None:
    async with am_world(hall=hall(), is_queue_away=True) as world:
        assert world.broker.pending == {}
        await world.advance(AmSettings().ticket_patience_s + 0.1)
        assert len(world.broker.pending) == 2


async def test_an_office_that_cannot_be_made_costs_nothing_but_the_turns() -> None:
    error = BadConfig("the credentials for ZooKeeper are malformed")
    async with am_world(hall=hall(), office_error=error) as world:
        assert len(world.broker.pending) == 2
        assert "the credentials for ZooKeeper are malformed" in status_of(world).reason


async def test_where_room_is_scarce_a_job_without_turns_looks_twice() -> None:
    async with am_world(WHOLE) as world:
        assert world.broker.pending == {}
        await world.advance(3.0)
        assert len(world.broker.pending) == 4
    async with am_world(job(tasks=2, gpus=8)) as world:
        assert len(world.broker.pending) == 2, "there is room for two of it"


@pytest.mark.parametrize("gang", [GangSpec(ticket=False), GangSpec(look_before_ask=False)])
async def test_who_takes_no_turns_has_no_ticket(gang: GangSpec) -> None:
    room = hall()
    other(room)
    async with am_world(job(tasks=4, gpus=8, gang=gang), hall=room) as world:
        await world.advance(3.0)
        assert len(world.broker.pending) == 4
        assert mine(room) == []


async def test_a_job_can_be_cancelled_while_it_waits() -> None:
    room = hall()
    other(room)
    async with am_world(WHOLE, hall=room) as world:
        await world.advance(5.0)
        world.am._inbox(CancelRequested(world.clock.now_s(), "me"))
        await world.advance(5.0)
        verdict = await world.run
    assert verdict.exit_code == ExitCode.CANCELLED
    assert mine(room) == []


async def test_the_end_of_all_waiting_says_what_was_waited_for() -> None:
    room, disk = hall(), Disk()
    head = other(room)
    spec = job(tasks=4, gpus=8, gang=GangSpec(wait_timeout_s=120.0))
    async with am_world(spec, disk, hall=room) as world:
        await pass_time(world, 140.0, head)
        verdict = await world.run
    assert verdict.exit_code == ExitCode.GANG_TIMEOUT
    assert "big (application_1_0777)" in verdict.message
    [refused] = [event for event in disk.journal.events if isinstance(event, PlanRefused)]
    assert refused.no_fit.reason is Reason.WAITING_FOR_ADMISSION


async def test_a_gang_that_stands_is_shown_with_its_nodes() -> None:
    room = hall()
    async with am_world(job(tasks=2, gpus=4), hall=room) as world:
        await world.run_gang()
        await world.advance(0.1)
        assert room.gangs[APPLICATION] == RunningGang(
            APPLICATION, "root.dl", 8, None, ((NodeId("n1"), 8),), since_s=START_S, user="u"
        )


async def test_what_agents_see_of_their_gpus_is_passed_on() -> None:
    async with am_world() as world:
        asks = await world.grant_all()
        told = AgentRegistered(
            world.clock.now_s(), asks[0], ContainerId("c"), NodeId("n1"), "n1", ("0",), (), "", "T4"
        )
        world.am._inbox(told)
        world.am._inbox(replace(told, ask=asks[1], gpu_model=""))
        await world.settle()
        assert world.learnt == [("n1", "T4")]
