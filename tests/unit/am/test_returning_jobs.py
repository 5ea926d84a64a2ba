"""Waiting jobs that come back to a ZooKeeper or a ResourceManager that was restarted, in virtual
time: what they ask in the first minute, against what as many ask when nothing has happened."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from hdfs_utils.concurrency import retry
from tests.fakes.returning_jobs import VirtualLoop, WaitingJobs
from tests.unit.am.am_world import job, record_of

JOBS = 40
QUIET_S, MINUTE_S = 40, 60


class Rates(NamedTuple):
    """Most calls of a second: before, while the server was away, and in the minute after."""

    before: int
    away: int
    after: int


class Outage(NamedTuple):
    zookeeper: Rates
    rm: Rates


def restart(server: str, away_s: float, jobs: int = JOBS) -> Outage:
    loop = VirtualLoop()
    retry._dice.seed(1)

    async def play() -> Outage:
        world = WaitingJobs(loop, record_of(job()), jobs)
        await world.begin(30.0)
        await asyncio.sleep(QUIET_S)
        stopped_s = loop.time()
        getattr(world, server).stop()
        await asyncio.sleep(away_s)
        back_s = loop.time()
        getattr(world, server).restart(world.dice)
        await asyncio.sleep(MINUTE_S)
        found = [
            Rates(
                calls.peak(stopped_s - QUIET_S, stopped_s),
                calls.peak(stopped_s + 1, back_s),
                calls.peak(back_s, back_s + MINUTE_S),
            )
            for calls in (world.zookeeper.calls, world.rm.calls)
        ]
        await world.close()
        return Outage(*found)

    try:
        return loop.run_until_complete(play())
    finally:
        loop.close()


@pytest.mark.slow
def test_a_zookeeper_that_has_lost_all_sessions() -> None:
    found = restart("zookeeper", 12.0)
    assert found.rm.away == 0, "they wait for the queue, and ask nobody else meanwhile"
    assert found.rm.after <= JOBS / 4, "once 43 of 40 jobs"
    assert found.zookeeper.after <= 1.5 * found.zookeeper.before


@pytest.mark.slow
def test_a_resourcemanager_that_starts_again() -> None:
    found = restart("rm", 40.0)
    assert found.rm.away <= 0.6 * JOBS, "once 28 to 36 of 40 jobs"
