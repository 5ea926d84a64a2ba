"""The table of transitions tells the truth about ``step``, and the page about the table."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.property.elastic_world import ElasticWorld, elastic_job, elastic_walk
from tests.property.gang_world import World, random_walk, small_job, stored_run
from yarnam.gang.table import TRANSITIONS, Transition
from yarnam.model.events import EVENT_TYPES
from yarnam.model.outcomes import ContainerEnd, ExitKind
from yarnam.model.status import FINAL_PHASES, Phase

HERE = Path(__file__).resolve().parents[3]

Edge = tuple[Phase, str, Phase]


def edges_of(row: Transition) -> set[Edge]:
    return {(row.phase, event.__name__, to) for event in row.events for to in row.to}


def fair_until(world: World, phase: Phase) -> World:
    for _ in range(300):
        if world.gang.phase is phase:
            return world
        world._fair_move()
    raise AssertionError(f"never came to {phase}")


def all_messages(world: World) -> None:
    while world.inflight:
        world.message_comes(0)


def refused_for_ever() -> World:
    world = World(small_job())
    world.planner_answers("never")
    all_messages(world)
    return world


def planned_short() -> World:
    world = World(small_job())
    world.rungs = World(replace(small_job(), roles=small_job(with_ps=True).roles[1:])).rungs
    world.planner_answers("ready")
    all_messages(world)
    return world


def replaced_too_often() -> World:
    world = fair_until(World(small_job(attempts=2)), Phase.ACQUIRING)
    for _ in range(400):
        if world.gang.phase is not Phase.ACQUIRING:
            world._fair_move()
        else:
            world.yarn_grants(0, 0)
            world.container_ends(0, ContainerEnd.FAILED)
            all_messages(world)
    return world


def blamed_twice_by_agents() -> World:
    world = fair_until(World(small_job()), Phase.ACQUIRING)
    for _ in range(2):
        world._fair_yarn()
        world._fair_yarn()
        all_messages(world)
        world.agent_reports(-1, "user")
        all_messages(world)
    return world


def over_before_it_began() -> World:
    """Processes so short that their end is all that is heard of them."""
    world = fair_until(World(small_job(output="/results/job")), Phase.LAUNCHING)
    for member in world.gang.members:
        world._task_ends(member.ask, ExitKind.OK)
    all_messages(world)
    assert world.gang.phase is Phase.STORING
    world.drain()
    return world


def directed(with_ps: bool, output: str = "", *, is_staged: bool = False) -> set[Edge]:
    """Trouble in every phase, and in every phase of stopping: what walks meet too seldom."""
    edges: set[Edge] = set()
    troubles = (
        lambda w: w.container_ends(0, ContainerEnd.LOST),
        lambda w: w.container_ends(0, ContainerEnd.PREEMPTED),
        lambda w: w.container_ends(0, ContainerEnd.FAILED),
        lambda w: w.agent_reports(0, "silent"),
        lambda w: w.agent_reports(0, "user"),
        lambda w: w.task_exits(0, ExitKind.NON_ZERO),
        lambda w: w.user_cancels(),
        lambda w: w.broker_fails(),
        lambda w: w.inputs_are_refused(),
        lambda w: w.am_restarts(),
        lambda w: w.timer_fires(),
    )
    for phase in (Phase.PENDING, Phase.ACQUIRING, Phase.LAUNCHING, Phase.RUNNING):
        for first in troubles:
            for second in troubles:
                job = small_job(with_ps=with_ps, output=output, is_staged=is_staged)
                world = fair_until(World(job), phase)
                for trouble in (first, second):
                    trouble(world)
                    all_messages(world)
                world.drain()
                edges |= world.edges
    return edges


@pytest.fixture(scope="module")
def observed() -> set[Edge]:
    edges = directed(False) | directed(True)
    for play in (refused_for_ever, planned_short, replaced_too_often, blamed_twice_by_agents):
        world = play()
        assert world.gang.phase is Phase.FAILED, play.__name__
        edges |= world.edges
    for seed in range(150):
        world = World(small_job(with_ps=seed % 2 == 1))
        random_walk(world, seed, moves=120)
        for late in range(4):
            world.old_message_comes(late)
        world.am_restarts()
        edges |= world.edges
    for seed in range(150):
        world = World(small_job(with_ps=seed % 2 == 1, output="/results/job"))
        stored_run(world, seed)
        edges |= world.edges
    edges |= directed(True, output="/results/job") | directed(False, is_staged=True)
    for seed in range(60):
        world = World(small_job(attempts=1 + seed % 2, is_staged=True))
        random_walk(world, seed, moves=120)
        edges |= world.edges
    edges |= over_before_it_began().edges
    for seed in range(60):
        elastic = ElasticWorld(elastic_job(recovery_timeout_s=60.0 * (seed % 2)))
        elastic_walk(elastic, seed, 300)
        edges |= elastic.edges
    return edges


def test_every_change_of_phase_is_in_the_table(observed: set[Edge]) -> None:
    known = set().union(*(edges_of(row) for row in TRANSITIONS))
    assert {edge for edge in observed if edge[0] is not edge[2]} - known == set()


def test_every_row_of_the_table_is_taken(observed: set[Edge]) -> None:
    assert [row for row in TRANSITIONS if not edges_of(row) & observed] == []


def test_every_event_is_in_the_table_but_the_inner_ones() -> None:
    """JitterDrawn only starts a timer: it never changes a phase."""
    named = {event for row in TRANSITIONS for event in row.events}
    assert {event.__name__ for event in set(EVENT_TYPES) - named} == {
        "JitterDrawn",
    }


def test_final_phases_are_left_by_nothing() -> None:
    assert [
        row for row in TRANSITIONS if row.phase in FINAL_PHASES and row.to != (row.phase,)
    ] == []


def test_the_page_is_current() -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "tools/generate_state_chart.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
