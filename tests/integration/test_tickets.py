"""Gangs that do not fit together, taking turns on a real cluster: none holds what another lacks."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import MARKS, kill_now, waiting_for
from tests.integration.tcp_relay import TcpRelay
from yarnam.client import Client
from yarnam.core.model.events import ContainerGranted, PlanReady, TimerFired, TimerKind
from yarnam.core.model.job_status import JobState, JobStatus, Phase
from yarnam.core.model.outcomes import VerdictKind

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.zookeeper, pytest.mark.timeout(600)]

FIVE: dict[str, Any] = {"tasks": 5, "gpus": 4, "processes_per_task": 1}
"""20 of the cluster's 32 GPUs: no two of these fit together, and a part of each would."""

HOLD_S = 20.0
HUNG_LIMIT_S = 45.0
"""A holder that hangs is passed over when its session has expired (10 s), and seen to be at the
next look of the one behind it."""


@pytest.fixture
def flags(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for name in "abc":
        (tmp_path / name).touch()


@pytest.fixture
def trio(world: FaultWorld, flags: Path) -> dict[str, Job]:
    """Submitted together; each runs until its flag is there."""

    def submit(name: str) -> Job:
        gang = {"hold_timeout": f"{HOLD_S:.0f}s"}
        return world.submit(f"turn-{name}", waiting_for(flags / name), worker=FIVE, gang=gang)

    with ThreadPoolExecutor(3) as pool:
        return dict(zip("abc", pool.map(submit, "abc"), strict=True))


@pytest.mark.long
def test_three_gangs_with_room_for_one_take_turns(
    world: FaultWorld, trio: dict[str, Job], flags: Path
) -> None:
    first = until_one_runs(trio)
    waiting = [name for name in trio if name != first]
    places = {name: until_waiting(world, trio[name]) for name in waiting}
    second, third = sorted(waiting, key=lambda name: ticket_of(places[name]))
    assert_waits_for_nothing(world, trio[third])

    status = world.until(
        trio[third],
        lambda s: is_behind(s, trio[second].id) and s.wait_queue.ahead == 1,
        "place behind the other one that waits",
    )
    assert status.state is JobState.QUEUED
    assert f"waiting behind 1 job (turn-{second}" in status.reason, status.reason
    assert "needs 20 GPUs" in status.reason
    shown = world.yarnam("status", trio[third].id).wait().out
    assert "QUEUED: waiting behind 1 job" in shown, shown

    # The one whose turn is next hangs: it is passed over, and comes back to its place.
    hung = world.am_pid(trio[second])
    os.kill(hung, signal.SIGSTOP)
    try:
        (flags / first).touch()
        ended_at = time.monotonic()
        world.until_phase(trio[third], Phase.RUNNING)
        assert time.monotonic() - ended_at < HUNG_LIMIT_S
    finally:
        os.kill(hung, signal.SIGCONT)
    back = until_waiting(world, trio[second])
    assert ticket_of(back) == ticket_of(places[second])
    assert_waits_for_nothing(world, trio[second])

    (flags / third).touch()
    (flags / second).touch()
    for job in trio.values():
        verdict = world.end_of(job)
        assert verdict.kind is VerdictKind.SUCCEEDED, verdict
        assert [t.timer for t in world.events(job, TimerFired) if is_hold(t)] == []
        # One plan, acted upon once, and not a container more than the gang.
        assert len(world.events(job, PlanReady)) == 1
        assert len(world.events(job, ContainerGranted)) == FIVE["tasks"]
        assert len(job.status().history) == 1
    for job in trio.values():
        world.assert_cleared(job)


@pytest.mark.chaos
def test_a_job_in_line_goes_on_by_chance_when_zookeeper_goes_away(
    world: FaultWorld, flags: Path
) -> None:
    hosts, _, root = world.site.zookeeper.partition("/")
    with closing(TcpRelay(hosts)) as relay:
        site = replace(world.site, zookeeper=f"{relay.address}/{root}")
        client = Client(site=site)
        holder = world.submit("holder", waiting_for(flags / "a"), worker=FIVE)
        world.until_phase(holder, Phase.RUNNING)
        document = world.document("left-alone", waiting_for(flags / "b"), worker=FIVE)
        job = client.submit(world.write(document))
        world.jobs.append(job)
        place = until_waiting(world, job)
        relay.cut()
        alone = world.until(
            job,
            lambda s: "wait queue unavailable, retrying at random intervals" in s.reason,
            "word of the loss",
        )
        assert f"ZooKeeper at {relay.address} does not answer" in alone.reason
        assert alone.state is JobState.QUEUED
        relay.mend()
        back = world.until(
            job, lambda s: s.wait_queue is not None and "by chance" not in s.reason, "place again"
        )
        assert ticket_of(back) == ticket_of(place)
        relay.cut()
        (flags / "a").touch()
        world.until_phase(job, Phase.RUNNING)
        (flags / "b").touch()
        for one in (holder, job):
            verdict = world.end_of(one)
            assert verdict.kind is VerdictKind.SUCCEEDED, verdict
            world.assert_cleared(one)


@pytest.mark.chaos
def test_a_new_am_attempt_comes_back_to_its_place(world: FaultWorld, flags: Path) -> None:
    holder = world.submit("holder", waiting_for(flags / "a"), worker=FIVE)
    world.until_phase(holder, Phase.RUNNING)
    first = world.submit("first", waiting_for(flags / "b"), worker=FIVE)
    place = until_waiting(world, first)
    behind = world.submit("behind", waiting_for(flags / "c"), worker=FIVE)
    world.until(behind, lambda s: is_behind(s, first.id), "place behind")
    kill_now(world.am_pid(first))
    # Its session ends with it: the one behind is first for a while.
    back = world.until(
        first, lambda s: s.am_attempt == 2 and s.wait_queue is not None, "place of the new AM"
    )
    assert ticket_of(back) == ticket_of(place)
    world.until(behind, lambda s: is_behind(s, first.id), "place behind")
    (flags / "a").touch()
    world.until_phase(first, Phase.RUNNING)
    assert world.gpus_of(behind) == 0
    (flags / "b").touch()
    (flags / "c").touch()
    for job in (holder, first, behind):
        verdict = world.end_of(job)
        assert verdict.kind is VerdictKind.SUCCEEDED, verdict
        world.assert_cleared(job)


def until_one_runs(jobs: dict[str, Job]) -> str:
    deadline = time.monotonic() + 120.0
    while time.monotonic() < deadline:
        running = [n for n, job in jobs.items() if job.status().phase == Phase.RUNNING.value]
        assert len(running) <= 1
        if running:
            return running[0]
        time.sleep(0.2)
    raise AssertionError({name: job.status().reason for name, job in jobs.items()})


def until_waiting(world: FaultWorld, job: Job) -> JobStatus:
    return world.until(job, lambda status: status.wait_queue is not None, "place in the wait queue")


def is_behind(status: JobStatus, application: str) -> bool:
    return status.wait_queue is not None and status.wait_queue.head == application


def ticket_of(status: JobStatus) -> int:
    assert status.wait_queue is not None
    return status.wait_queue.ticket


def assert_waits_for_nothing(world: FaultWorld, job: Job) -> None:
    """By the ResourceManager's records: nothing held, nothing asked for."""
    assert world.gpus_of(job) == 0
    app = world.rm(f"apps/{job.id}")["app"]
    assert app["runningContainers"] == 1, "more than the AM's own"
    assert not app.get("resourceRequests"), app["resourceRequests"]


def is_hold(event: TimerFired) -> bool:
    return event.timer.kind is TimerKind.HOLD
