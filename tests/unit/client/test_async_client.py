"""The client for asyncio: the same jobs, without a thread for each of them."""

from __future__ import annotations

import asyncio
import inspect
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.accounting.records import many
from tests.unit.client.world import APPLICATION, World, status, task, verdict
from yarnam import AsyncClient, Client, Job, JobEnded, WaitTimeout
from yarnam.adapters.hdfs.history_store import HistoryStore
from yarnam.client import async_client
from yarnam.client.async_client import (
    AsyncArray,
    AsyncExecutor,
    AsyncFunctionJob,
    AsyncHistory,
    AsyncJob,
    AsyncPolicies,
)
from yarnam.client.functions.function_executor import Executor
from yarnam.client.functions.function_job import FunctionJob
from yarnam.client.functions.job_array import JobArray
from yarnam.client.monitor.job_history import JobHistory
from yarnam.client.monitor.sessions.task_choice import ChosenTask
from yarnam.client.queues.chosen_policies import ChosenPolicies
from yarnam.client.user_paths import new_key
from yarnam.core.accounting.job_summary import HistoryFilter
from yarnam.core.model.events import CancelRequested, JobStarted
from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.core.model.outcomes import VerdictKind
from yarnam.core.model.session_parts import EndKind, SessionData, SessionEnd, WindowSize
from yarnam.core.policies.policy_registry import NAMES
from yarnam.errors import UsageError, UserFailed
from yarnam.wire.codec import encode

KEY = "20261121-000000-abcdef"

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_client, "POLL_S", 0.01)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def ended(world: World, key: str, kind: VerdictKind, code: int, application: str) -> None:
    world.put(key, "verdict.json", encode(verdict(kind, code, "exit code 3")))
    world.rm.change(application, state="FINISHED", final_status=kind.name)


async def test_watch_and_wait(world: World) -> None:
    world.job(key=KEY)
    world.line.statuses = [status(step=1), status(step=2)]
    seen: list[JobStatus] = []
    async with AsyncClient(site=world.site) as client:
        job = await client.job(APPLICATION)

        def note(found: JobStatus) -> None:
            seen.append(found)
            if found.step == 2:
                ended(world, KEY, VerdictKind.SUCCEEDED, 0, APPLICATION)

        found = await asyncio.wait_for(job.wait(on_status=note), 20)
        assert found.kind is VerdictKind.SUCCEEDED
        assert [one.step for one in seen[:2]] == [1, 2]
        assert seen[-1].verdict is not None
        assert [one.state async for one in job.watch()] == [JobState.SUCCEEDED]


async def test_a_failure_carries_its_verdict(world: World) -> None:
    world.job(key=KEY)
    ended(world, KEY, VerdictKind.FAILED, 90, APPLICATION)
    async with AsyncClient(site=world.site) as client:
        job = await client.job(APPLICATION)
        with pytest.raises(UserFailed, match="exit code 3") as caught:
            await job.wait(raise_on_failure=True)
    assert isinstance(caught.value, JobEnded)
    assert (caught.value.verdict.exit_code, caught.value.application) == (90, APPLICATION)


async def test_wait_ends_with_its_time(world: World) -> None:
    world.job(key=KEY)
    async with AsyncClient(site=world.site) as client:
        with pytest.raises(WaitTimeout, match="RUNNING"):
            await (await client.job(APPLICATION)).wait(timeout_s=0.05)


async def test_200_jobs_are_awaited_by_a_few_threads_and_requests(world: World) -> None:
    keys = {f"application_1700000000000_{number:04}": new_key() for number in range(200)}
    for application, key in keys.items():
        world.job(key=key, application=application)
    world.rm.asked, before = 0, threading.active_count()
    async with AsyncClient(site=world.site) as client:
        jobs = [await client.job(application) for application in keys]
        waits = [asyncio.create_task(job.wait()) for job in jobs]
        done, _ = await asyncio.wait(waits, timeout=0.5)
        assert not done
        assert world.rm.asked < len(keys) / 10
        assert threading.active_count() - before <= async_client.THREADS
        for application, key in keys.items():
            ended(world, key, VerdictKind.SUCCEEDED, 0, application)
        found = await asyncio.wait_for(asyncio.gather(*waits), 30)
    assert {one.kind for one in found} == {VerdictKind.SUCCEEDED}


async def test_logs_and_events_are_async_iterators(world: World) -> None:
    world.job(key=KEY)
    story = [JobStarted(1.0), CancelRequested(2.0, "me")]
    world.line.journal = list(story)
    running = status(tasks=(task("worker-0", (0,), "n1:1"),))
    world.line.statuses = [running]
    world.line.outputs = {("n1:1", 0): [b"one\n", b"two\n"]}
    async with AsyncClient(site=world.site) as client:
        job = await client.job(APPLICATION)
        assert [piece.data async for piece in job.logs()] == [b"one\n", b"two\n"]
        assert await job.events() == story
        found = []
        async for event in job.watch_events():
            found.append(event)
            if len(found) == len(story):
                break
        assert found == story


async def test_an_error_in_an_iterator_is_raised_where_it_is_read(world: World) -> None:
    async with AsyncClient(site=world.site) as client:
        job = await client.job(APPLICATION)
        with pytest.raises(Exception, match="does not exist on this cluster"):
            async for _ in job.logs():
                pass


async def test_submit_and_list(world: World) -> None:
    spec = {"version": 1, "name": "a", "queue": "root.dl", "gpus": 1, "command": ["true"]}
    async with AsyncClient(site=world.site) as client:
        job = await client.submit(spec, tags=["nightly"])
        (found,) = await client.jobs(tags=["nightly"])
        assert found.application == job.id
        assert await client.jobs(tags=["weekly"]) == []
        assert (await job.tags()) == ("nightly",)
        await client.close()


async def test_the_history_of_ended_jobs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    # Files in memory have a clock of their own.
    monkeypatch.setattr("yarnam.adapters.hdfs.history_compaction.SETTLED_S", -4e9)
    store = HistoryStore(world.files, world.site.paths.history)
    made = [replace(one, user="me") for one in many(6)]
    for one in made:
        store.put(one)
    async with AsyncClient(site=world.site) as client:
        listing = await client.history.jobs(HistoryFilter(state="FAILED"))
        assert [row.state for row in listing.rows] == ["FAILED"]
        assert [one async for one in client.history.records(listing.rows)] == [made[4]]
        assert await client.history.record("last") == made[0]
        assert await client.history.compact() == len(made)
        assert await client.history.repair() == []
        assert await client.history.prune(keep=1) == len(made) - 1


@pytest.mark.parametrize(
    ("plain", "twin", "missing"),
    [
        (Client, AsyncClient, {"site"}),  # The adapters, which block.
        # One asks and sleeps by itself, the other one is a stream that blocks.
        (Job, AsyncJob, {"follower"}),
        (JobHistory, AsyncHistory, set[str]()),
        (JobArray, AsyncArray, {"futures"}),
        (Executor, AsyncExecutor, set[str]()),
        (FunctionJob, AsyncFunctionJob, {"future", "results_after"}),
        (ChosenPolicies, AsyncPolicies, set[str]()),
    ],
)
async def test_the_twins_have_the_same_calls(plain: type, twin: type, missing: set[str]) -> None:
    def calls(of: type) -> set[str]:
        return {name for name in dir(of) if not name.startswith("_")}

    assert calls(plain) - calls(twin) == missing


async def test_a_twin_has_the_arguments_and_the_words_of_its_plain_call() -> None:
    assert inspect.signature(AsyncJob.suspend) == inspect.signature(Job.suspend)
    assert AsyncJob.suspend.__doc__ == Job.suspend.__doc__
    assert inspect.iscoroutinefunction(AsyncJob.suspend)
    assert inspect.isasyncgenfunction(AsyncJob.logs)


async def test_policies_of_queues(world: World) -> None:
    async with AsyncClient(site=world.site) as client:
        assert [one.name for one in client.policies.known()] == list(NAMES)
        assert await client.policies.all() == {}, "no ZooKeeper"
        with pytest.raises(UsageError, match="kept in ZooKeeper, and none is configured"):
            await client.policies.of("root.dl")
        with pytest.raises(UsageError, match="unknown policy 'tiresia'"):
            await client.policies.choose("root.dl", "tiresia")


async def test_a_session_in_a_task(world: World) -> None:
    world.job(key=KEY)
    end = SessionEnd(EndKind.EXITED)
    world.line.session_parts = [SessionData(b"out"), end]
    async with AsyncClient(site=world.site) as client:
        job = await client.job(APPLICATION)
        task = ChosenTask("worker-0", "a1.worker-0", 0)
        async with await job.open_session(task, command=(b"cat",)) as session:
            assert await session.send(b"typed")
            await session.resize(WindowSize(80, 24))
            await session.send_signal(2)
            await session.end_data()
            parts = [part async for part in session]
    [plain] = world.line.sessions
    assert parts == [SessionData(b"out"), end]
    assert (bytes(plain.sent), plain.signals, plain.has_ended_data) == (b"typed", [2], True)
    assert plain.windows == [WindowSize(80, 24)]
    assert plain.closed
