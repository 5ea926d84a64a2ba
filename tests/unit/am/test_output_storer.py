"""The AM stores the outputs of a gang that has succeeded, and settles those of one that has not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.am.am_world import APPLICATION, AmWorld, Disk, am_world, job
from yarnam.core.model.events import CancelRequested
from yarnam.core.model.job_spec import JobSpec, StoringSpec
from yarnam.core.model.job_status import JobState, OutputStatus
from yarnam.core.model.outcomes import Verdict, VerdictKind
from yarnam.errors import BadSpec, QuotaFull
from yarnam.ports.output_store import StoredOutputs

pytestmark = pytest.mark.asyncio

TARGET = "/results/job"
PARTIAL = f"{TARGET}.partial.{APPLICATION}"


def with_output(**storing: Any) -> JobSpec:
    return job(output=TARGET, storing=StoringSpec(**storing))


def disk_of_two() -> Disk:
    disk = Disk()
    disk.outputs.written = {(1, "worker-0"): (2, 2048), (1, "worker-1"): (1, 1024)}
    return disk


async def all_exit(world: AmWorld, code: int = 0) -> None:
    for ask in list(world.broker.granted):
        world.mailbox.exited(ask, world.am.gang.attempt, code)
    await world.settle()


async def ended(world: AmWorld) -> Verdict:
    await world.advance(10.0)
    return await world.run


async def test_what_the_tasks_wrote_is_stored_when_all_have_succeeded() -> None:
    disk = disk_of_two()
    async with am_world(with_output(), disk) as world:
        await world.run_gang()
        assert disk.outputs.prepared == [(1, ("worker-0", "worker-1"))]
        await all_exit(world)
        verdict = await ended(world)
        assert verdict.kind is VerdictKind.SUCCEEDED
        assert "3 files of output (3.0 KiB) stored" in verdict.message
        assert disk.outputs.stored == StoredOutputs(3, 3072)
        assert disk.outputs.is_kept is None
        assert world.status.output == OutputStatus(TARGET, 3, 3072, 3, True)
        states = [status.state for status in world.publisher.statuses]
        assert states.index(JobState.STORING) > states.index(JobState.RUNNING)
        assert states[-1] is JobState.SUCCEEDED


async def test_no_container_is_held_while_the_outputs_are_stored() -> None:
    disk = disk_of_two()
    disk.outputs.hangs = lambda: True
    async with am_world(with_output(), disk) as world:
        asks = await world.run_gang()
        await all_exit(world)
        assert world.phase == "STORING"
        assert world.broker.released == asks
        assert {world.mailbox.orders[ask] for ask in asks} == {"leave"}


async def test_trouble_of_hdfs_is_waited_out_and_shown() -> None:
    disk = disk_of_two()
    away = [True]
    disk.outputs.hangs = lambda: away[0]
    async with am_world(with_output(timeout_s=600.0), disk) as world:
        await world.run_gang()
        await all_exit(world)
        await world.advance(60.0)
        assert world.phase == "STORING"
        status = world.status
        assert status.state is JobState.STORING
        assert "HDFS is in safe mode" in status.reason
        assert "0 of 3 files of 3.0 KiB stored" in status.reason
        assert status.deadline_s is not None
        assert disk.outputs.stores > 10
        told = [line for line in world.publisher.events if b"StoringTroubled" in line]
        assert len(told) == 1, "the same trouble again is no news"
        away[0] = False
        assert (await ended(world)).kind is VerdictKind.SUCCEEDED


async def test_a_limit_ends_it_and_nothing_is_lost() -> None:
    disk = disk_of_two()
    disk.outputs.hangs = lambda: True
    async with am_world(with_output(timeout_s=30.0), disk) as world:
        await world.run_gang()
        await all_exit(world)
        await world.advance(40.0)
        verdict = await world.run
        assert (verdict.kind, verdict.exit_code) == (VerdictKind.FAILED, 69)
        assert "not within 30 s: HDFS is in safe mode" in verdict.message
        assert disk.outputs.is_kept is True
        assert PARTIAL in verdict.hint


async def test_a_full_quota_is_waited_for_and_then_is_the_users_to_solve() -> None:
    """With the exit code that a client gives for it."""
    disk = disk_of_two()
    disk.outputs.refusal = QuotaFull("output /results/job: the quota of names is used up")
    async with am_world(with_output(timeout_s=30.0), disk) as world:
        await world.run_gang()
        await all_exit(world)
        await world.advance(20.0)
        assert world.phase == "STORING"
        assert "the quota of names is used up" in world.status.reason
        await world.advance(20.0)
        verdict = await world.run
        assert (verdict.kind, verdict.exit_code) == (VerdictKind.FAILED, 77)
        assert disk.outputs.is_kept is True


async def test_room_that_is_made_meanwhile_is_enough() -> None:
    disk = disk_of_two()
    disk.outputs.refusal = QuotaFull("output /results/job: the quota of names is used up")
    async with am_world(with_output(timeout_s=600.0), disk) as world:
        await world.run_gang()
        await all_exit(world)
        await world.advance(60.0)
        disk.outputs.refusal = None
        assert (await ended(world)).kind is VerdictKind.SUCCEEDED


async def test_an_output_that_came_to_be_meanwhile_is_refused_and_nothing_is_lost() -> None:
    disk = disk_of_two()
    disk.outputs.refusal = BadSpec("output /results/job: is there already", hint="Choose.")
    async with am_world(with_output(), disk) as world:
        await world.run_gang()
        await all_exit(world)
        verdict = await ended(world)
        assert (verdict.kind, verdict.exit_code) == (VerdictKind.FAILED, 65)
        assert "could not be stored: output /results/job: is there already" in verdict.message
        assert verdict.hint.splitlines()[0] == "Choose."
        assert (disk.outputs.stores, disk.outputs.is_kept) == (1, True)


@pytest.mark.parametrize("keep", [False, True])
async def test_a_job_that_fails_leaves_what_was_asked_for(keep: bool) -> None:
    disk = disk_of_two()
    async with am_world(with_output(keep_on_failure=keep), disk) as world:
        await world.run_gang()
        await all_exit(world, code=3)
        verdict = await ended(world)
        assert verdict.kind is VerdictKind.FAILED
        assert disk.outputs.stores == 0
        assert disk.outputs.is_kept is keep
        assert (PARTIAL in verdict.hint) is keep
        assert world.status.verdict is not None
        assert (PARTIAL in world.status.verdict.hint) is keep
        assert disk.verdict == verdict


async def test_what_is_left_is_settled_before_the_verdict_is_written_down() -> None:
    """A later AM attempt obeys the verdict and looks at nothing else."""

    disk = disk_of_two()
    disk.outputs.outages = 0
    async with am_world(with_output(), disk) as world:
        await world.run_gang()
        disk.outputs.outages = 3
        await all_exit(world, code=3)
        await world.settle()
        assert disk.verdict is None
        await world.advance(10.0)
        await world.run
        assert disk.outputs.is_kept is False
        assert disk.verdict is not None


async def test_cancelled_while_it_stores() -> None:
    disk = disk_of_two()
    disk.outputs.hangs = lambda: True
    async with am_world(with_output(), disk) as world:
        await world.run_gang()
        await all_exit(world)
        world.mailbox._inbox(CancelRequested(world.clock.now_s(), "ann", "wrong data"))
        verdict = await ended(world)
        assert verdict.kind is VerdictKind.CANCELLED
        assert "cancelled by ann: wrong data, while the outputs" in verdict.message
        assert disk.outputs.is_kept is False


async def test_a_new_am_goes_on_with_storing_and_runs_nothing_again() -> None:
    disk = disk_of_two()
    disk.outputs.hangs = lambda: True
    async with am_world(with_output(), disk) as world:
        await world.run_gang()
        await all_exit(world)
        assert world.phase == "STORING"
    disk.outputs.hangs = lambda: False
    async with am_world(with_output(), disk, am_attempt=2) as world:
        verdict = await ended(world)
        assert verdict.kind is VerdictKind.SUCCEEDED
        assert not world.broker.pending
        assert not world.mailbox.launches
        assert disk.outputs.stored == StoredOutputs(3, 3072)


async def test_a_new_am_finds_that_a_stop_came_too_late() -> None:
    disk = disk_of_two()
    disk.outputs.hangs = lambda: True
    async with am_world(with_output(), disk) as world:
        await world.run_gang()
        await all_exit(world)
        disk.outputs.outages = 10**6
        world.mailbox._inbox(CancelRequested(world.clock.now_s(), "ann"))
        await world.settle()
        assert world.am.gang.storing is not None
        assert world.am.gang.storing.ending is VerdictKind.CANCELLED
    disk.outputs.outages = 0
    disk.outputs.stored = StoredOutputs(3, 3072)
    async with am_world(with_output(), disk, am_attempt=2) as world:
        assert (await ended(world)).kind is VerdictKind.SUCCEEDED


async def test_a_job_without_outputs_knows_nothing_of_all_this() -> None:
    disk = disk_of_two()
    async with am_world(job(), disk) as world:
        await world.run_gang()
        await all_exit(world)
        assert (await ended(world)).kind is VerdictKind.SUCCEEDED
        assert (disk.outputs.stores, disk.outputs.prepared) == (0, [])
        assert world.status.output is None
