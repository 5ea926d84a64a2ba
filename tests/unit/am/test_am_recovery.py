"""A running gang that loses a task, end to end: step, planner and executor are the real ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.am.am_world import AmWorld, Disk, am_world, job
from yarnam.core.gang import MemberState
from yarnam.core.model.events import PlanReady
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_spec import RetrySpec
from yarnam.core.model.job_status import JobState
from yarnam.core.model.outcomes import ContainerEnd, VerdictKind

pytestmark = pytest.mark.asyncio


async def stand(world: AmWorld) -> list[AskId]:
    """What is awaited is granted, each on a node of its own that its target accepts, and runs."""
    for ask, target in list(world.broker.pending.items()):
        used = {str(grant.node) for grant in world.broker.granted.values()}
        used |= {one.node for one in world.status.blacklist}
        fits = [n for n in world.view.shown.nodes if target.accepts(n.node_id, n.rack)]
        node = next(n for n in fits if n.node_id not in used)
        world.broker.grant(ask, node.node_id, node.rack)
    await world.settle()
    asks = await world.register_all()
    attempt, members = world.mailbox.launches[-1]
    for member in members:
        world.mailbox.started(member.ask, attempt)
    await world.settle()
    return asks


async def lose_one(world: AmWorld) -> tuple[AskId, AskId, str]:
    """The gang runs, its first task's node is lost, the second task stops: both, and the node."""
    first, second = await stand(world)
    node = world.broker.granted[first].node
    taken = {grant.node for grant in world.broker.granted.values()}
    world.view.shown = replace(
        world.view.shown,
        nodes=tuple(
            replace(one, used=one.total) if one.node_id in taken else one
            for one in world.view.shown.nodes
        ),
    )
    world.broker.end(first, ContainerEnd.LOST, "node lost")
    await world.settle()
    assert world.mailbox.orders[first] == "leave", "its agent may live on"
    assert world.mailbox.orders[second] == "stop"
    world.mailbox.exited(second, 1, code=1)
    await world.settle()
    return first, second, node


async def test_the_lost_task_is_replaced_and_all_start_again() -> None:
    async with am_world(job(gpus=8)) as world:
        _, second, node = await lose_one(world)
        assert world.status.state is JobState.REPLACING
        assert "replacing in place, 1 of 2 tasks held" in world.status.reason
        assert world.mailbox.orders[second] == "stop", "kept: not told to leave"
        ((new, target),) = world.broker.pending.items()
        assert new.attempt == 2
        assert node not in target.nodes
        await stand(world)
        attempt, members = world.mailbox.launches[-1]
        assert (attempt, {member.ask for member in members}) == (2, {second, new})
        assert world.phase == "RUNNING"
        assert world.status.reason == "2 tasks run; 1 restart so far"
        assert [one.node for one in world.status.blacklist] == [node]
        for ask in (second, new):
            world.mailbox.exited(ask, 2)
        await world.advance(5.0)
        verdict = await world.run
    assert verdict.kind is VerdictKind.SUCCEEDED
    assert world.broker.granted == {}


async def test_without_room_the_whole_gang_is_given_back_in_time() -> None:
    async with am_world(job(gpus=8)) as world:
        full = world.view.shown
        _, second, _ = await lose_one(world)
        busy = tuple(replace(node, used=node.total) for node in full.nodes)
        world.broker.release(list(world.broker.pending))
        world.view.shown = replace(full, nodes=busy)
        await world.advance(25.0)
        assert second in world.broker.granted
        assert "no free capacity yet" in world.status.reason
        await world.advance(40.0)
        assert world.broker.granted == {}
        assert world.mailbox.orders[second] == "leave"
        assert world.status.state is JobState.QUEUED


async def test_strikes_are_told_and_hints_are_heard() -> None:
    async with am_world(job(gpus=8, retry=RetrySpec(max_restarts=2))) as world:
        _, _, node = await lose_one(world)
        assert [(shared, "node lost" in why) for shared, why in world.hints.shared] == [
            (node, True)
        ]
        other = next(n.node_id for n in world.view.shown.nodes if n.node_id != node)
        world.hints.others_suspect(other)
        await world.settle()
        assert [told for told, _ in world.am.gang.nodes.suspicions] == [other]


async def test_a_new_am_knows_what_was_paid_and_who_is_out() -> None:
    disk = Disk()
    async with am_world(job(gpus=8), disk=disk) as world:
        _, _, node = await lose_one(world)
        assert world.am.gang.search is not None
    async with am_world(job(gpus=8), disk=disk, am_attempt=2) as world:
        assert world.phase == "BACKING_OFF"
        assert world.am.gang.retries.restarts == 1
        assert [one.node for one in world.status.blacklist] == [node]
        await world.advance(5.0)
        asks = await stand(world)
        assert world.phase == "RUNNING"
        assert {ask.attempt for ask in asks} == {3}
        assert node not in {m.grant.node for m in world.am.gang.members if m.grant}
        assert {m.state for m in world.am.gang.members} == {MemberState.STARTED}


async def test_the_size_of_the_cluster_is_told_with_every_plan() -> None:
    disk = Disk()
    async with am_world(job(gpus=8), disk=disk) as world:
        assert world.phase == "ACQUIRING"
    (ready,) = [event for event in disk.journal.events if isinstance(event, PlanReady)]
    assert ready.nodes == 4
