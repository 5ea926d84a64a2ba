"""Arrays: the cap, the end of the client in the midst, and the end of all."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.client.world import World, job_spec
from yarnam import AsyncClient
from yarnam.client.functions import array_feed
from yarnam.client.functions.array_feed import ArrayAccess, ArrayFeed
from yarnam.client.functions.job_array import LIVING, job_of
from yarnam.errors import Cancelled, Unavailable, UsageError


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(array_feed, "POLL_S", 0.01)
    return World(tmp_path)


def living(world: World) -> list[str]:
    return [app.application for app in list(world.rm.apps.values()) if app.state in LIVING]


def finish(world: World, application: str) -> None:
    world.rm.change(application, state="FINISHED", final_status="SUCCEEDED")


def until(met: Any, limit_s: float = 60.0) -> None:
    deadline = time.monotonic() + limit_s
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_never_more_than_the_cap_live(world: World) -> None:
    array = world.client.submit_array(job_spec(), "0-4%2")
    seen = 0
    while True:
        now = living(world)
        seen = max(seen, len(now))
        assert len(now) <= 2
        if len(now) == 2:
            finish(world, now[0])
        if all(one.done() for one in array.futures):
            break
        time.sleep(0.002)
    assert seen == 2
    assert sorted(app.name for app in world.rm.apps.values()) == [f"hello-{n}" for n in range(5)]
    assert len(array.submitted()) == len(array.jobs()) == 5


def test_without_a_cap_all_are_submitted_in_order(world: World) -> None:
    array = world.client.submit_array(job_spec(), range(3), name="sweep")
    ids = [job.id for job in array.submitted()]
    assert [world.rm.apps[one].name for one in ids] == [f"sweep-{n}" for n in range(3)]
    assert world.client.job_array(array.id).submitted() == []
    assert {job.id for job in world.client.job_array(array.id).jobs()} == set(ids)


def test_a_client_that_is_lost_in_the_midst_is_taken_up_by_the_next(world: World) -> None:
    first = world.client.submit_array(job_spec(), "0-4%2", idempotency_key="run")
    until(lambda: len(living(world)) == 2)
    first.stop()
    with pytest.raises(Cancelled, match="not submitted"):
        first.submitted()
    assert len(world.rm.apps) == 2
    again = world.client.submit_array(job_spec(), "0-4", idempotency_key="run")
    assert len(again.submitted()) == 5
    names = [app.name for app in world.rm.apps.values()]
    assert sorted(names) == sorted({*names}), "none twice"
    assert len(names) == 5


def test_killing_an_array_ends_its_members_and_the_submitting(world: World) -> None:
    array = world.client.submit_array(job_spec(), "0-4%2")
    until(lambda: len(living(world)) == 2)
    ended = world.client.job_array(array.id).kill("enough")
    assert len(ended) == 2
    until(lambda: all(one.done() for one in array.futures))
    assert living(world) == []
    assert len(world.rm.apps) == 2
    with pytest.raises(Cancelled):
        array.submitted()


def test_an_array_that_was_killed_can_be_submitted_again(world: World) -> None:
    first = world.client.submit_array(job_spec(), "0-1%1", idempotency_key="run")
    until(lambda: len(living(world)) == 1)
    first.kill()
    again = world.client.submit_array(job_spec(), "0-1", idempotency_key="run")
    assert len(again.submitted()) == 2


def test_an_outage_holds_the_rest_back(world: World) -> None:
    array = world.client.submit_array(job_spec(), "0-2%1")
    until(lambda: len(living(world)) == 1)
    world.rm.failure = Unavailable("no answer")
    time.sleep(0.1)
    world.rm.failure = None
    assert len(living(world)) == 1
    for _ in range(2):
        finish(world, living(world)[0])
        until(lambda: len(living(world)) == 1)
    assert len(array.submitted()) == 3


def test_one_that_cannot_be_submitted_keeps_none_of_the_others(world: World) -> None:
    def refuse(spec: Any) -> None:
        if spec.name == "hello-1":
            raise Unavailable("not this one")

    world.launcher.on_submit = refuse
    array = world.client.submit_array(job_spec(), "0-3")
    with pytest.raises(Unavailable, match="not this one"):
        array.submitted()
    until(lambda: len(world.rm.apps) == 3)


@pytest.mark.parametrize("indices", ["", [], [1, 1], [-1], "5-1"])
def test_indices_are_checked_before_anything_is_submitted(world: World, indices: Any) -> None:
    with pytest.raises(UsageError):
        world.client.submit_array(job_spec(), indices)
    with pytest.raises(UsageError, match="has a cap"):
        world.client.submit_array(job_spec(), "0-1%1", most_at_once=2)
    assert world.rm.apps == {}


def test_who_waits_for_a_member_is_told_when_it_is_not_its_turn_yet() -> None:
    begun = threading.Event()

    def start(position: int) -> Any:
        begun.wait(20)
        raise Unavailable("late")

    feed = ArrayFeed(ArrayAccess(start, lambda: (), lambda: False), 1, 0)
    with pytest.raises(TimeoutError, match="not submitted"):
        job_of(feed.jobs[0], 0.01)
    begun.set()
    feed.join()
    with pytest.raises(Unavailable, match="late"):
        job_of(feed.jobs[0])


def test_a_fault_of_the_feed_reaches_who_waits() -> None:
    def fault() -> Any:
        raise RuntimeError("a fault")

    feed = ArrayFeed(ArrayAccess(lambda _: fault(), fault, lambda: False), 2, 1)
    feed.join()
    with pytest.raises(RuntimeError, match="a fault"):
        job_of(feed.jobs[1], 0)


@pytest.mark.asyncio
async def test_the_same_for_asyncio(world: World) -> None:
    async with AsyncClient(site=world.site) as client:
        array = await client.submit_array(job_spec(), "0-2")
        jobs = await array.submitted()
        assert len(jobs) == 3
        found = await client.job_array(array.id)
        assert {job.id for job in await found.jobs()} == {job.id for job in jobs}
        assert len(await found.kill("enough")) == 3
        await array.stop()
