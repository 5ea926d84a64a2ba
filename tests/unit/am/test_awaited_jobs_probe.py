"""A job that waits for others: its ApplicationMaster asks YARN about them, and nothing else."""

from __future__ import annotations

import pytest

from tests.unit.am.am_world import Disk, am_world, job
from tests.unit.am.test_admission_wait import hall, mine
from yarnam.am.am_settings import AmSettings
from yarnam.core.model.events import AwaitedJobsSeen
from yarnam.core.model.job_spec import Dependency, JobCondition
from yarnam.core.model.job_status import JobState
from yarnam.errors import ExitCode, Unavailable

PREP, OLD = "application_1_0008", "application_1_0009"
SPEC = job(
    depends_on=(
        Dependency("prep", JobCondition.SUCCEEDED, (PREP,)),
        Dependency("old", JobCondition.ENDED, (OLD,)),
    )
)
LOOK_S = 1.3 * AmSettings().awaited_jobs_period_s


@pytest.mark.asyncio
async def test_it_takes_no_ticket_and_asks_for_its_gang_when_they_have_ended() -> None:
    room, states = hall(), {PREP: JobState.RUNNING, OLD: JobState.QUEUED}
    disk = Disk()
    async with am_world(SPEC, disk, hall=room, states=states) as world:
        await world.advance(100.0)
        assert not mine(room)
        assert not world.broker.pending
        assert not world.view.calls
        assert world.status.state is JobState.QUEUED
        assert f"waiting for prep ({PREP}, RUNNING) to succeed" in world.status.reason
        del world.states[OLD]
        await world.advance(LOOK_S)
        assert [one.application for one in world.status.awaited] == [PREP]
        world.states[PREP] = JobState.SUCCEEDED
        await world.advance(LOOK_S)
        assert not world.status.awaited
        await world.run_gang()
        assert world.status.state is JobState.RUNNING
        world.asked_about.clear()
        await world.advance(100.0)
        assert not world.asked_about, "they are asked about no longer"
    seen = [one for one in disk.journal.events if isinstance(one, AwaitedJobsSeen)]
    assert len(seen) == 3, "an event for each change"


@pytest.mark.asyncio
async def test_an_end_that_yarn_has_forgotten_since_counts() -> None:
    states = {PREP: JobState.SUCCEEDED, OLD: JobState.RUNNING}
    async with am_world(SPEC, states=states) as world:
        await world.advance(1.0)
        del world.states[PREP]
        world.states[OLD] = JobState.FAILED
        await world.advance(LOOK_S)
        assert not world.status.awaited
        assert world.run.done() is False


@pytest.mark.asyncio
async def test_it_fails_when_one_has_failed() -> None:
    states = {PREP: JobState.RUNNING, OLD: JobState.RUNNING}
    async with am_world(SPEC, states=states) as world:
        await world.advance(5.0)
        world.states[PREP] = JobState.CANCELLED
        await world.advance(LOOK_S)
        verdict = await world.run
        assert verdict.exit_code == ExitCode.DEPENDENCY_FAILED
        assert PREP in verdict.message


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "error", [Unavailable("the ResourceManager is away"), ValueError("a reply like no other")]
)
async def test_yarn_that_does_not_answer_decides_nothing(error: Exception) -> None:
    states = {PREP: JobState.RUNNING, OLD: JobState.RUNNING}
    async with am_world(SPEC, states=states) as world:
        await world.advance(5.0)
        world.yarn_error = error
        await world.advance(LOOK_S)
        assert "cannot ask YARN about other jobs" in world.status.reason
        world.yarn_error = None
        world.states = {PREP: JobState.SUCCEEDED, OLD: JobState.SUCCEEDED}
        await world.advance(LOOK_S)
        assert "cannot ask" not in world.status.reason
        assert not world.status.awaited
