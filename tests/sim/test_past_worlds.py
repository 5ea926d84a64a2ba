"""Two worlds of one past, one after the other and at the same time."""

from __future__ import annotations

import os
from dataclasses import replace
from multiprocessing import active_children

import pytest

from tests.sim.scenes import cluster
from tests.sim.test_queues import TWO, tree
from yarnam.core.model.resources import Resources
from yarnam.sim import Mode, SimSettings
from yarnam.sim.what_if import past_worlds
from yarnam.sim.what_if.past_worlds import PastWorld, figures_of, figures_of_both
from yarnam.sim.what_if.replay import PastJob, PastRole, replay

pytestmark = pytest.mark.sim

JOBS = 12


@pytest.fixture(autouse=True)
def _two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_worlds, "AT_ONCE_FROM", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


def world(nodes: int) -> PastWorld:
    rm = cluster(nodes, root=tree(TWO), queues=())
    role = PastRole("worker", 1, Resources(32768 * 8, 32, 8))
    past = [PastJob("root.b", 10.0 * number, 300.0, (role,)) for number in range(JOBS)]
    return PastWorld(replay(past, rm), SimSettings(Mode.TICKETS, rm=rm))


def test_at_the_same_time_is_as_one_after_the_other() -> None:
    ended: list[int] = []
    found = figures_of_both(world(4), world(2), lambda: ended.append(os.getpid()))
    assert found == (figures_of(world(4)), figures_of(world(2)))
    assert found[0] != found[1]
    assert ended == [os.getpid()] * (2 * JOBS)


def test_what_the_other_simulation_raises_is_raised() -> None:
    here = world(4)
    elsewhere = replace(here, settings=replace(here.settings, rm=cluster(2)))
    with pytest.raises(KeyError, match=r"root\.b"):
        figures_of_both(here, elsewhere)
    assert not active_children()


def test_a_process_that_was_killed_is_made_up_for() -> None:
    def kill() -> None:
        for child in active_children():
            child.kill()
            child.join()

    assert figures_of_both(world(4), world(2), kill) == (figures_of(world(4)), figures_of(world(2)))


def test_no_process_stays_when_this_one_is_interrupted() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        figures_of_both(world(4), world(2), interrupt)
    assert not active_children()
