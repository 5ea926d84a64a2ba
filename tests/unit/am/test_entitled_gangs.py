"""A gang that claims its queue's share of what others hold: the share changes, or the others do not
leave. In a world of fakes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes.cluster_view import cluster
from tests.unit.am.am_world import AmWorld, am_world, job
from tests.unit.am.test_admission_wait import hall, mine, status_of
from yarnam.core.admission.entitlement import FIRST_PAUSE_S, ClaimHistory
from yarnam.core.model.events import ContainersMarked
from yarnam.core.model.outcomes import ContainerEnd
from yarnam.core.model.plans import LocalityLevel
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, QueueView

pytestmark = pytest.mark.asyncio

HALF = job(tasks=2, gpus=8)
"""16 of the cluster's 32 GPUs. Its hold timeout is 30 s, and it has three attempts."""


def full(minimum: int, used: int = 8) -> ClusterSnapshot:
    """All GPUs are held by a queue above its share; ``minimum``: GPUs of the job's queue."""
    ours = QueueView("root.dl", minimum=Resources(1 << 20, 1 << 10, minimum))
    taken = Resources(1 << 16, 64, 4 * used)
    theirs = QueueView("root.other", used=taken, fair_share=Resources(0, 0, 16))
    shown = cluster(used=used)
    return replace(shown, queue=ours, queues=(ours, theirs), preempts=True)


async def world_of(world: AmWorld, shown: ClusterSnapshot, seconds: float) -> None:
    world.view.shown = shown
    await world.advance(seconds)


async def test_the_admin_raises_the_share_while_the_gang_waits() -> None:
    async with am_world(HALF, hall=hall(), used=8) as world:
        await world_of(world, full(minimum=8), 20.0)
        assert world.broker.pending == {}
        await world_of(world, full(minimum=16), 5.0)
        assert len(world.broker.pending) == 2
        # In the ladder a rack comes first. YARN may make room in the other one.
        levels = {target.level for target in world.broker.pending.values()}
        assert levels == {LocalityLevel.ANY}


async def test_the_admin_cuts_the_share_after_the_gang_has_asked() -> None:
    """YARN takes nothing from anybody for it any more. It gives up in its time, and waits."""
    room = hall()
    async with am_world(HALF, hall=room, used=8) as world:
        await world_of(world, full(minimum=16), 5.0)
        assert len(world.broker.pending) == 2
        await world_of(world, full(minimum=0), 120.0)
        assert world.broker.pending == {}
        assert status_of(world).attempt == 2
        await world.advance(900.0)
        # It has not asked again, so it has used up no more attempts.
        assert status_of(world).attempt == 2
        assert world.phase == "PENDING"
        [ticket] = mine(room)
        assert not ticket.is_acquiring
        # The room comes by itself.
        await world_of(world, cluster(), 60.0)
        assert len(world.broker.pending) == 2


async def test_victims_do_not_leave_in_time() -> None:
    """It holds what it got for its hold timeout at most, and claims ever more rarely: its attempts
    are not for what YARN does not do."""
    async with am_world(HALF, hall=hall(), used=8) as world:
        await world_of(world, full(minimum=16), 5.0)
        first = world.broker.grant_one()  # one victim has left, the other does not
        await world.advance(10.0)
        assert first in world.broker.granted, "it holds what it has got"
        await world.advance(110.0)
        assert first in world.broker.released
        assert world.broker.granted == {}
        assert status_of(world).attempt == 2
        await world.advance(FIRST_PAUSE_S / 2)
        assert world.broker.pending == {}
        assert world.phase == "PENDING"
        await world.advance(FIRST_PAUSE_S)  # the second claim, which fails too
        assert status_of(world).attempt == 3
        await world.advance(FIRST_PAUSE_S)
        assert world.phase == "PENDING"
        assert world.broker.pending == {}
        # They have left at last.
        await world_of(world, cluster(), 60.0)
        assert len(world.broker.pending) == 2
        await world.run_gang()
        assert world.phase == "RUNNING"


async def test_a_preemption_is_announced_while_the_gang_takes_its_share() -> None:
    """Of a container that it has just got. It stays, asks once for what YARN takes, and runs."""
    async with am_world(HALF, hall=hall(), used=8) as world:
        await world_of(world, full(minimum=16), 5.0)
        first = world.broker.grant_one()
        [second] = world.broker.pending
        await world.settle()
        world.am._inbox(ContainersMarked(world.clock.now_s(), (first,)))
        await world.advance(1.0)
        assert world.phase == "ACQUIRING"
        assert first in world.broker.granted, "nothing is given back before YARN takes it"
        world.broker.end(first, ContainerEnd.PREEMPTED)
        await world.advance(1.0)
        assert len(world.broker.pending) == 2, "the second one, and the first one again"
        assert second in world.broker.pending
        await world.run_gang()
        assert world.phase == "RUNNING"
        assert status_of(world).attempt == 1


@pytest.mark.parametrize(("ran_s", "asks"), [(10.0, 0), (FIRST_PAUSE_S, 2)])
async def test_a_gang_that_loses_what_it_claimed_claims_at_once_only_if_it_ran_for_long(
    ran_s: float, asks: int
) -> None:
    async with am_world(HALF, hall=hall(), used=8) as world:
        await world_of(world, full(minimum=16), 5.0)
        await world.run_gang()
        assert world.phase == "RUNNING"
        await world.advance(ran_s)
        for ask in list(world.broker.granted):
            world.broker.end(ask, ContainerEnd.PREEMPTED)
        await world.advance(30.0)
        assert len(world.broker.pending) == asks


async def test_the_pause_doubles_after_each_claim_that_failed() -> None:
    history, pauses = ClaimHistory(), []
    assert history.may_claim(0.0)
    for _ in range(4):
        history = history.after(1000.0, lasted_s=0.0)
        pauses.append(next(s for s in range(0, 10**5, 10) if history.may_claim(1000.0 + s)))
    assert pauses == [FIRST_PAUSE_S * factor for factor in (1, 2, 4, 8)]
    assert history.after(9000.0, lasted_s=15 * FIRST_PAUSE_S).failed == 5
    assert history.after(9000.0, lasted_s=16 * FIRST_PAUSE_S).failed == 0
