"""Jobs that wait go by one snapshot of the cluster; what a stale or forged one costs them. In a
world of fakes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes.cluster_view import FakeView, cluster
from tests.fakes.shared_snapshots import FakeSharedSnapshots
from tests.unit.am.am_world import AmWorld, am_world
from tests.unit.am.test_admission_wait import WHOLE, hall, other, pass_time, status_of
from yarnam.adapters.shared_snapshot_view import SharedSnapshotView
from yarnam.core.admission.polling import FIRST_POLL_S, OWN_POLL_EVERY
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, ClusterSummary, NodeState, with_summary
from yarnam.core.queue_client.admission_wait import UNCONFIRMED

OWN_POLL_WITHIN_S = OWN_POLL_EVERY * FIRST_POLL_S * 2 * 1.5
"""For the second in the queue."""


def summary_of(snapshot: ClusterSnapshot) -> ClusterSummary:
    return ClusterSummary(
        {node.node_id: (node.state, node.used) for node in snapshot.nodes}, snapshot.queues
    )


def full() -> ClusterSnapshot:
    return cluster(used=8)


class Publisher:
    """The first in the queue: it publishes what it sees, until it is killed or hangs."""

    def __init__(self, snapshots: FakeSharedSnapshots) -> None:
        self.snapshots = snapshots
        self.sees = full()
        self.is_alive = True

    async def pass_time(self, world: AmWorld, seconds: float, *alive: object) -> None:
        for _ in range(int(seconds)):
            if self.is_alive:
                self.snapshots.node.summary = summary_of(self.sees)
                self.snapshots.node.written_at_s = world.clock.now_s()
            await pass_time(world, 1.0, *alive)  # type: ignore[arg-type]


@pytest.mark.asyncio
async def test_a_job_behind_another_goes_by_its_snapshot() -> None:
    room, snapshots = hall(), FakeSharedSnapshots()
    first, publisher = other(room), Publisher(snapshots)
    async with am_world(WHOLE, hall=room, used=8, snapshots=snapshots) as world:
        assert world.view.calls == 1
        await publisher.pass_time(world, 120.0, first)
        alone = 120.0 / (FIRST_POLL_S * 2)
        assert 2 <= world.view.calls <= 1 + 120.0 / (OWN_POLL_WITHIN_S / 3) < alone / 2
        assert world.phase == "PENDING"
        assert "waiting behind 1 job" in status_of(world).reason


@pytest.mark.asyncio
async def test_the_first_in_the_queue_publishes_each_of_its_polls_but_the_first() -> None:
    """A job that need not wait has nothing to publish for."""
    snapshots = FakeSharedSnapshots()
    async with am_world(WHOLE, hall=hall(), snapshots=snapshots) as world:
        assert world.broker.pending
        assert snapshots.published == 0
    async with am_world(WHOLE, hall=hall(), used=8, snapshots=snapshots) as world:
        await world.advance(30.0)
        assert snapshots.published == world.view.calls - 1 > 5
        # Its gang starts by its own poll.
        world.view.shown = cluster()
        await world.advance(5.0)
        assert len(world.broker.pending) == 4


@pytest.mark.asyncio
async def test_room_in_anothers_snapshot_is_confirmed_before_the_job_asks() -> None:
    room, snapshots = hall(), FakeSharedSnapshots()
    first, publisher = other(room), Publisher(snapshots)
    async with am_world(WHOLE, hall=room, used=8, snapshots=snapshots) as world:
        await publisher.pass_time(world, 10.0, first)
        first.close()
        world.view.shown = publisher.sees = cluster()
        await publisher.pass_time(world, 8.0)
        assert len(world.broker.pending) == 4


@pytest.mark.asyncio
@pytest.mark.parametrize("ending", ["killed", "hung"])
async def test_the_publisher_is_gone_and_the_next_takes_over(ending: str) -> None:
    room, snapshots = hall(), FakeSharedSnapshots()
    first, publisher = other(room), Publisher(snapshots)
    async with am_world(WHOLE, hall=room, used=8, snapshots=snapshots) as world:
        await publisher.pass_time(world, 30.0, first)
        calls = world.view.calls
        publisher.is_alive = False
        if ending == "killed":
            first.close()
        # A hung one's ticket is there, and its last snapshot too.
        await publisher.pass_time(world, 30.0, *([first] if ending == "hung" else []))
        assert world.view.calls >= calls + 5
        assert snapshots.published >= 5


@pytest.mark.asyncio
async def test_a_stale_snapshot_that_shows_no_room_is_not_gone_by() -> None:
    room, snapshots = hall(), FakeSharedSnapshots()
    first, publisher = other(room), Publisher(snapshots)
    async with am_world(WHOLE, hall=room, used=8, snapshots=snapshots) as world:
        await publisher.pass_time(world, 10.0, first)
        publisher.is_alive = False
        world.view.shown = cluster()
        first.close()
        await world.advance(10.0)
        assert len(world.broker.pending) == 4


@pytest.mark.asyncio
async def test_a_forged_snapshot_without_room_delays_a_job_by_some_polls() -> None:
    """The forger writes every second; the job is the second of the queue."""
    room, forged = hall(), FakeSharedSnapshots()
    first, forger = other(room, tasks=1, gpus=1), Publisher(forged)
    small = replace(WHOLE, roles=(replace(WHOLE.roles[0], tasks=2),))
    async with am_world(small, hall=room, used=8, snapshots=forged) as world:
        await forger.pass_time(world, 10.0, first)
        world.view.shown = cluster()
        await forger.pass_time(world, OWN_POLL_WITHIN_S + 5.0, first)
        assert len(world.broker.pending) == 2


@pytest.mark.asyncio
async def test_a_forged_snapshot_with_room_makes_no_job_ask_and_few_polls() -> None:
    room, forged = hall(), FakeSharedSnapshots()
    first, forger = other(room, tasks=1, gpus=1), Publisher(forged)
    forger.sees = cluster()
    async with am_world(WHOLE, hall=room, used=8, snapshots=forged) as world:
        shown = set()
        for _ in range(30):
            await forger.pass_time(world, 10.0, first)
            shown.add(status_of(world).reason)
        assert world.broker.pending == {}
        # Today's pace would be 75: one every four seconds.
        assert world.view.calls < 25
        assert status_of(world).attempt == 1
        assert any(UNCONFIRMED in reason or "waiting" in reason for reason in shown)


@pytest.mark.asyncio
async def test_a_job_that_failed_to_acquire_begins_with_its_own_poll() -> None:
    """It trusts no other's snapshot twice: the attempt that failed may have been led by one."""
    room, snapshots = hall(), FakeSharedSnapshots()
    publisher = Publisher(snapshots)
    publisher.sees = cluster()
    async with am_world(WHOLE, hall=room, snapshots=snapshots) as world:
        assert len(world.broker.pending) == 4
        calls = world.view.calls
        await publisher.pass_time(world, 70.0)  # nothing is granted: the ask times out
        assert world.view.calls > calls


@pytest.mark.asyncio
async def test_without_the_place_for_snapshots_each_job_polls_for_itself() -> None:
    room, snapshots = hall(), FakeSharedSnapshots()
    snapshots.is_away = True
    first = other(room)
    async with am_world(WHOLE, hall=room, used=8, snapshots=snapshots) as world:
        await pass_time(world, 60.0, first)
        assert world.view.calls >= 12
        world.view.shown = cluster()
        first.close()
        await world.advance(10.0)
        assert len(world.broker.pending) == 4


# ---- the view ------------------------------------------------------------------------------------


def test_of_anothers_snapshot_only_known_nodes_count_with_their_own_size() -> None:
    own = cluster(nodes=3)
    told = summary_of(cluster(nodes=2, used=4))
    told.nodes[type(own.nodes[0].node_id)("invented")] = (NodeState.RUNNING, Resources())
    seen = with_summary(own, told, "root.dl", 5.0)
    assert [(node.node_id, node.used.gpus, node.is_usable) for node in seen.nodes] == [
        ("n1", 4, True), ("n2", 4, True), ("n3", 0, False),
    ]  # fmt: skip
    assert [node.total for node in seen.nodes] == [node.total for node in own.nodes]
    assert seen.is_shared
    assert not own.is_shared


def test_a_job_takes_no_snapshot_of_others_before_it_has_one_of_its_own() -> None:
    view, snapshots = FakeView(cluster()), FakeSharedSnapshots(lambda: 0.0)
    snapshots.node.summary = summary_of(full())
    shared = SharedSnapshotView(view, snapshots, now_s=lambda: 0.0)
    assert not shared.snapshot("root.dl", max_age_s=10.0).is_shared
    snapshots.node.summary = summary_of(full())
    assert shared.snapshot("root.dl", max_age_s=10.0).is_shared
    assert not shared.snapshot("root.dl").is_shared
