"""An AM that follows the losses of its program, in a world of fakes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.am.am_world import AmWorld, am_world, job
from yarnam.core.model.events import LossFlat
from yarnam.core.model.job_spec import StopEarlySpec
from yarnam.core.model.metrics import AgentMetrics, Measured

pytestmark = pytest.mark.asyncio


async def train(world: AmWorld, steps: int, loss: float, *, fall: float = 0.0) -> None:
    """So many reports, ten seconds apart."""
    gang = world.am.gang
    for _ in range(steps):
        last = world.mailbox.measured[0].step if world.mailbox.measured else 0
        step = (last or 0) + 10
        now_s = world.clock.now_s()
        values = (("loss", Measured(loss + fall / step)),)
        world.mailbox.measured = [
            AgentMetrics(gang.members[0].ask, 0, now_s, step, None, values, gang.attempt)
        ]
        await world.advance(10.0)


async def test_a_flat_loss_is_told_and_stops_nothing() -> None:
    async with am_world(job()) as world:
        await world.run_gang()
        await train(world, 20, 1.0, fall=50.0)
        found = world.status.predicted_end
        assert found is not None
        assert found.is_by_loss
        assert found.end_at_s is not None
        assert found.flat is None
        ticket = world.am.policy_ticket(1)
        assert ticket.remaining_steps is None, "only policies that resize go by it"
        await train(world, 90, 0.5)
        found = world.status.predicted_end
        assert found is not None
        assert found.flat is not None
        assert found.flat.since_step == pytest.approx(210, abs=20)
        assert world.phase == "RUNNING"


async def test_the_spec_may_end_a_job_whose_loss_is_flat() -> None:
    rule = StopEarlySpec(flat_for_s=700.0)
    async with am_world(replace(job(), stop_early=rule)) as world:
        await world.run_gang()
        await train(world, 20, 1.0, fall=50.0)
        await train(world, 65, 0.5)
        assert world.phase == "RUNNING", "flat, but not for long enough"
        for _ in range(15):
            if world.phase != "RUNNING":
                break
            await train(world, 1, 0.5)
        assert world.phase == "STOPPING"
        events = [one for one in world.disk.journal.events if isinstance(one, LossFlat)]
        assert len(events) == 1
        for ask in list(world.broker.granted):
            world.mailbox.stopped(ask, ask.attempt)
        await world.settle()
        assert world.phase == "SUCCEEDED"
        verdict = world.am.gang.verdict
        assert verdict is not None
        assert "stopped early: the loss has been flat since step" in verdict.message
