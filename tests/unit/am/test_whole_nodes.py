"""An AM whose job leaves whole nodes to the queues that YARN guarantees them, in a world of
fakes."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import pytest

from tests.fakes.clock import START_S
from tests.fakes.cluster_view import cluster
from tests.fakes.ticket_queue import FakeTicketQueue, FakeTicketStore
from tests.unit.am.am_world import AmWorld, am_world, job, pass_time
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_spec import PlacementSpec
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, QueueView
from yarnam.core.model.tickets import RunningGang

pytestmark = pytest.mark.asyncio

GUARANTEED = "root.guaranteed"


def with_quota(nodes: int, shown: ClusterSnapshot) -> ClusterSnapshot:
    """Another queue is guaranteed so many whole nodes of 8 GPUs."""
    quota = QueueView(GUARANTEED, minimum=Resources(gpus=8 * nodes))
    return replace(shown, queues=(shown.queue, quota))


async def asked(world: AmWorld, quota: int, shown: ClusterSnapshot | None = None) -> int:
    """Containers that the job asks for when four nodes come free."""
    world.view.shown = with_quota(quota, shown or cluster())
    await pass_time(world, 90.0)
    return len(world.broker.pending)


def gang_of(
    tasks: int, *, cells: bool = True, hall: FakeTicketStore | None = None
) -> AbstractAsyncContextManager[AmWorld]:
    spec = job(tasks=tasks, gpus=8, placement=PlacementSpec(cells=cells))
    return am_world(spec, hall=hall or FakeTicketStore(lambda: START_S), used=8)


async def test_what_a_quota_covers_is_left_free_and_the_reason_is_told() -> None:
    async with gang_of(3) as world:
        assert await asked(world, 2) == 0
        status = world.am._status()
        assert status.wait_queue is not None
        assert "left to the quotas of other queues" in status.wait_queue.reason
        assert await asked(world, 1) == 3


async def test_it_is_told_where_to_run() -> None:
    """In the rack that is left to it as a whole: YARN has no choice."""
    async with gang_of(2) as world:
        assert await asked(world, 2) == 2
        [racks] = {target.racks for target in world.broker.pending.values()}
        assert racks == ("/rack1",)


async def test_a_node_of_another_queue_is_not_used() -> None:
    """Whose gang has one GPU of it: its quota covers three more."""
    hall = FakeTicketStore(lambda: START_S)
    async with gang_of(1, hall=hall) as world:
        other = FakeTicketQueue(hall, "application_1_0777")
        other.set_running(
            RunningGang("application_1_0777", GUARANTEED, 1, None, ((NodeId("n1"), 1),))
        )
        nodes = cluster().nodes
        used = replace(nodes[0], used=Resources(0, 0, 1))
        shown = replace(cluster(), nodes=(used, *nodes[1:]))
        assert await asked(world, 4, shown) == 0
        assert await asked(world, 3, shown) == 1


async def test_a_job_that_does_not_respect_cells_uses_what_is_free() -> None:
    async with gang_of(3, cells=False) as world:
        assert await asked(world, 2) == 3
