"""An ApplicationMaster follows a policy by what lies in a real ZooKeeper. All else is faked, so it
needs no GPUs and little time."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.fakes.cluster_view import cluster
from tests.fakes.live_applications import FakeLiveApplications
from tests.fakes.ticket_queue import FakeTicketStore
from tests.unit.am.am_world import APPLICATION, AmWorld, Disk
from tests.unit.am.test_policy_following import OTHER, WHOLE, run_with_checkpoint
from yarnam.adapters.zookeeper.lazy_session import LazySession
from yarnam.adapters.zookeeper.queue_policies import QueuePolicies
from yarnam.adapters.zookeeper.ticket_queue import ZooKeeperTicketQueue
from yarnam.am.am_settings import AmSettings
from yarnam.core.model.job_status import JobState
from yarnam.core.model.resources import Resources
from yarnam.core.model.tickets import Demand, HoldState, PolicyTicket, Ticket
from yarnam.core.policies.chosen_policy import checked

pytestmark = [pytest.mark.zookeeper, pytest.mark.long, pytest.mark.asyncio]

QUEUE = "root.dl"


@pytest.fixture
def open_session(cluster_env: dict[str, str]) -> Iterator[Callable[[], LazySession]]:
    address = f"{cluster_env['YARNAM_ZOOKEEPER']}/yarnam-test-{uuid.uuid4().hex}"
    sessions: list[LazySession] = []

    def make() -> LazySession:
        sessions.append(LazySession(address))
        sessions[-1].connected()
        return sessions[-1]

    yield make
    zookeeper = sessions[0].connected()
    zookeeper.kazoo.delete(zookeeper.root, recursive=True)
    for session in sessions:
        session.close()


async def until(world: AmWorld, is_so: Callable[[], bool], beat: Callable[[], None]) -> None:
    """The world's time goes on by itself; ZooKeeper's answers take real time."""
    for _ in range(200):
        if is_so():
            return
        await world.advance(1.0)
        await asyncio.sleep(0.02)
        beat()
    raise AssertionError(world.am._status())


async def test_a_job_yields_and_comes_back(open_session: Callable[[], LazySession]) -> None:
    settings = {"limits": "640", "least_run": "0", "least_pause": "0"}
    admin = QueuePolicies(open_session().connected())
    kept = admin.choose(QUEUE, checked("tiresias", settings, by="ann"), expected=0)
    rm = FakeLiveApplications()
    rm.add(APPLICATION, user="u")
    rm.add(OTHER)
    world = AmWorld(WHOLE, Disk(), 1, AmSettings(), FakeTicketStore(lambda: 0.0))
    now_s = world.clock.now_s

    def queue_of(job: str) -> ZooKeeperTicketQueue:
        zookeeper = open_session().open()
        return ZooKeeperTicketQueue(zookeeper, job, rm, queue=QUEUE, now_s=now_s)

    world.ticket_queue = queue_of(APPLICATION)  # type: ignore[assignment]
    other = queue_of(OTHER)
    world.run = asyncio.get_running_loop().create_task(world.am.run())
    try:
        await until(world, lambda: bool(world.broker.pending), lambda: None)
        await run_with_checkpoint(world)
        told = PolicyTicket(OTHER, 0, now_s(), 32, settings_version=kept.version)
        demand = Demand(Resources(1024, 1, 8), 4)
        ticket = Ticket(0, OTHER, "other", QUEUE, (demand,), now_s(), policy=told)
        other.take(ticket)
        await until(world, lambda: world.phase == "STOPPING", lambda: other.update(ticket))
        for ask in list(world.broker.granted):
            world.mailbox.stopped(ask, ask.attempt)
        world.view.shown = cluster()
        await until(world, lambda: other.others().running == (), lambda: other.update(ticket))
        assert world.am._status().state is JobState.SUSPENDED
        listed = other.others()
        [mine] = listed.tickets
        assert mine.policy is not None
        assert mine.policy.state is HoldState.SUSPENDED
        assert mine.policy.service_gpu_s >= 640
        assert listed.policy == kept
        other.close()
        await until(world, lambda: world.am.gang.attempt == 2, lambda: None)
    finally:
        world.run.cancel()
        await asyncio.gather(world.run, return_exceptions=True)
