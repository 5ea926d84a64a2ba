"""Whatever the world does to an elastic gang: its size is right, and nothing is started in part."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from tests.property.elastic_world import (
    LEAST,
    MOST,
    ElasticWorld,
    Stepped,
    elastic_job,
    elastic_walk,
    is_over,
    loses_one,
    never_mind_the_least,
)
from tests.property.gang_world import Step, Violation
from tests.property.test_gang_machine import Machine
from yarnam.core.accounting.ledger import account_all
from yarnam.core.gang import Gang, GangPolicy, step
from yarnam.core.model.events import Event
from yarnam.core.model.job_status import Phase


class ElasticMachine(Machine):
    def __init__(self) -> None:
        super().__init__()
        self.world: ElasticWorld = ElasticWorld(elastic_job(with_ps=self.with_ps))

    @rule(tasks=st.none() | st.integers(0, MOST + 2))
    def scale(self, tasks: int | None) -> None:
        self.world.user_scales(tasks)

    @rule(tasks=st.none() | st.integers(0, MOST + 2), scheduled=st.integers(0, 3))
    def program_scales(self, tasks: int | None, scheduled: int) -> None:
        self.world.program_scales(tasks, scheduled)

    @rule(
        spare=st.integers(0, 4),
        excess=st.integers(0, 3),
        waiting=st.integers(0, 1),
        outranked=st.integers(0, 1),
    )
    def look(self, spare: int, excess: int, waiting: int, outranked: int) -> None:
        self.world.look_is_answered(spare, excess, waiting, outranked)


class ElasticMachineWithPs(ElasticMachine):
    with_ps = True


@pytest.mark.parametrize("machine", [ElasticMachine, ElasticMachineWithPs])
def test_hypothesis_finds_nothing(machine: type[ElasticMachine]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=30,
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("seed", range(60))
def test_walks(seed: int) -> None:
    job = elastic_job(with_ps=seed % 3 == 0, recovery_timeout_s=0.0 if seed % 5 == 0 else 60.0)
    world = ElasticWorld(job)
    elastic_walk(world, seed, 400)
    world.drain()
    again = account_all(job, 0.0, world.seen)[0]
    assert again == world.gang, "the journal tells another story"
    assert again.size_request.tasks == world.gang.size_request.tasks


def test_the_walks_do_change_sizes() -> None:
    sizes: set[tuple[int, int]] = set()
    for seed in range(20):
        world = ElasticWorld(elastic_job())
        elastic_walk(world, seed, 400)
        counts = [len(launch.members) for launch in world.launches]
        sizes |= set(pairwise(counts))
    assert {small < large for small, large in sizes} == {True, False}
    assert len({size for pair in sizes for size in pair}) == MOST - LEAST + 1


# ---- faults put in on purpose are found ----------------------------------------------------


def _forgets_the_growth(gang: Gang, event: Event, policy: GangPolicy) -> Stepped:
    after, actions = step(gang, event, policy)
    is_stopped = after.phase is Phase.STOPPING and gang.phase is Phase.RUNNING
    return (
        replace(after, resizing=replace(after.resizing, growth=None)) if is_stopped else after
    ), actions


def _a_resize_costs(gang: Gang, event: Event, policy: GangPolicy) -> Stepped:
    after, actions = step(gang, event, policy)
    if after.attempt > gang.attempt and after.phase is Phase.LAUNCHING:
        after = replace(
            after, acquisition=replace(after.acquisition, failures=after.acquisition.failures + 1)
        )
    return after, actions


@pytest.mark.parametrize("mutant", [never_mind_the_least, _forgets_the_growth, _a_resize_costs])
def test_a_seeded_fault_is_found(mutant: Step) -> None:
    for seed in range(200):
        world = ElasticWorld(elastic_job(recovery_timeout_s=0.0), mutant)
        try:
            elastic_walk(world, seed, 400)
            while not is_over(world) and world.gang.phase is Phase.RUNNING:
                loses_one(world)
                for _ in range(20):
                    world._fair_move(exits=False)
        except Violation:
            return
    raise AssertionError("nobody noticed")
