"""What following many jobs costs the ResourceManager."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.fakes.resource_manager import FakeResourceManager
from yarnam.adapters.yarn.application_cache import FEW, FRESH_S, ApplicationCache
from yarnam.errors import Unavailable

JOBS = 200


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def rm() -> FakeResourceManager:
    return FakeResourceManager()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(rm: FakeResourceManager, clock: Clock) -> ApplicationCache:
    return ApplicationCache(rm, "me", now_s=clock)


def name(number: int) -> str:
    return f"application_1700000000000_{number:04}"


def test_200_running_jobs_cost_one_request_in_2_s(
    rm: FakeResourceManager, cache: ApplicationCache, clock: Clock
) -> None:
    names = [rm.add(name(number)).application for number in range(JOBS)]
    for app in names:
        cache.application(app)
    rm.asked, seconds = 0, 60
    for _ in range(seconds * 2):
        clock.now_s += 0.5
        for app in names:
            found = cache.application(app)
            assert found is not None
            assert found.state == "RUNNING"
    assert 0 < rm.asked <= seconds / 2


def test_a_few_jobs_are_asked_for_when_they_are_due(
    rm: FakeResourceManager, cache: ApplicationCache
) -> None:
    names = [rm.add(name(number), state="ACCEPTED").application for number in range(FEW)]
    for app in names:
        cache.application(app)
        rm.change(app, state="RUNNING")
        found = cache.application(app)
        assert found is not None
        assert found.state == "RUNNING"


def test_a_change_is_known_after_the_next_list(
    rm: FakeResourceManager, cache: ApplicationCache, clock: Clock
) -> None:
    names = [rm.add(name(number), state="ACCEPTED").application for number in range(JOBS)]
    for app in names:
        cache.application(app)
    rm.change(names[0], state="RUNNING")
    rm.change(names[1], state="FINISHED")
    assert [getattr(cache.application(app), "state", "") for app in names[:2]] == ["ACCEPTED"] * 2
    clock.now_s += FRESH_S
    assert [getattr(cache.application(app), "state", "") for app in names[:2]] == [
        "RUNNING",
        "FINISHED",
    ]


def test_what_is_not_in_the_list_is_asked_for_once_in_a_while(
    rm: FakeResourceManager, cache: ApplicationCache, clock: Clock
) -> None:
    """Other users' jobs, jobs that have ended, and what nobody knows."""
    for number in range(FEW + 1):
        cache.application(rm.add(name(number)).application)
    rm.add(name(100), user="you")
    rm.add(name(101), state="KILLED")
    cache.application(name(0))
    rm.asked = 0
    for _ in range(10):
        assert getattr(cache.application(name(100)), "user", "") == "you"
        assert getattr(cache.application(name(101)), "state", "") == "KILLED"
        assert cache.application(name(102)) is None
    assert rm.asked == 3


def test_a_silent_resourcemanager_is_not_asked_by_each_of_them(
    rm: FakeResourceManager, cache: ApplicationCache, clock: Clock
) -> None:
    names = [rm.add(name(number)).application for number in range(JOBS)]
    for app in names:
        cache.application(app)
    clock.now_s += FRESH_S
    rm.failure, rm.asked = Unavailable("no answer from the ResourceManager", hint="check it"), 0
    for app in names:
        with pytest.raises(Unavailable, match=r"no answer.*\n  check it"):
            cache.application(app)
    assert rm.asked == 1
    rm.failure = None
    clock.now_s += FRESH_S
    assert cache.application(names[0]) is not None


def test_threads_share_one_request(rm: FakeResourceManager, cache: ApplicationCache) -> None:
    names = [rm.add(name(number)).application for number in range(JOBS)]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(cache.application, names * 5))
    assert all(app is not None for app in found)
    assert rm.asked <= FEW + 1
