"""Whatever the world does to an in-place elastic gang: who stays is not stopped, and who runs
belongs to it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from tests.property.elastic_world import Stepped, elastic_walk, never_mind_the_least
from tests.property.gang_world import Step, Violation, troubled_run
from tests.property.in_place_world import InPlaceWorld, in_place_job
from tests.property.test_elastic_gangs import ElasticMachine
from yarnam.core.accounting.ledger import account_all
from yarnam.core.gang import Gang, GangPolicy, step
from yarnam.core.model.actions import LaunchGang, StopTask
from yarnam.core.model.events import Event, GroupFormed, TimerKind
from yarnam.core.model.job_status import Phase
from yarnam.wire.codec import decode_event, encode_event


class LiveMachine(ElasticMachine):
    on_notice = False

    def __init__(self) -> None:
        super().__init__()
        self.world: InPlaceWorld = InPlaceWorld(in_place_job(on_notice=self.on_notice))

    @rule(lost=st.integers(0, 2))
    def group_forms(self, lost: int) -> None:
        self.world.group_forms(lost)


class NoticeMachine(LiveMachine):
    on_notice = True


@pytest.mark.parametrize("machine", [LiveMachine, NoticeMachine])
def test_hypothesis_finds_nothing(machine: type[LiveMachine]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=60,
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def walked(seed: int, play: Step = step) -> InPlaceWorld:
    job = in_place_job(recovery_timeout_s=0.0 if seed % 5 == 0 else 60.0, on_notice=seed % 2 == 0)
    world = InPlaceWorld(job, play, hangs=seed % 7 == 1)
    if seed % 3:
        elastic_walk(world, seed, 400)
    else:
        troubled_run(world, seed, 300)
    return world


@pytest.mark.parametrize("seed", range(60))
def test_walks(seed: int) -> None:
    world = walked(seed)
    world.drain()
    events = [decode_event(encode_event(event)) for event in world.seen]
    assert account_all(world.job, 0.0, events)[0] == world.gang, "the journal tells another story"


def test_the_walks_come_to_everything() -> None:
    worlds = [walked(seed) for seed in range(40)]
    assert sum(world.joined for world in worlds) > 20
    assert sum(world.absorbed for world in worlds) > 20
    assert sum(world.left for world in worlds) > 5
    assert sum(world.unformed for world in worlds) > 3
    assert sum(world.recoveries + world.resizes for world in worlds) > 10, "whole gangs too"


# ---- faults put in on purpose are found ----------------------------------------------------


def _stops_all_to_shrink(gang: Gang, event: Event, policy: GangPolicy) -> Stepped:
    after, actions = step(gang, event, policy)
    stops = [action for action in actions if isinstance(action, StopTask)]
    if after.phase is Phase.RUNNING and stops:
        actions += tuple(replace(stops[0], ask=member.ask) for member in after.members)
    return after, actions


def _tells_nobody(gang: Gang, event: Event, policy: GangPolicy) -> Stepped:
    after, actions = step(gang, event, policy)
    if gang.phase is Phase.RUNNING:
        actions = tuple(action for action in actions if not isinstance(action, LaunchGang))
    return after, actions


def _tells_it_late(gang: Gang, event: Event, policy: GangPolicy) -> Stepped:
    after, actions = step(gang, event, policy)
    if gang.phase is after.phase is Phase.RUNNING:
        actions = tuple(sorted(actions, key=lambda action: isinstance(action, LaunchGang)))
    return after, actions


def _starts_all_again(gang: Gang, event: Event, policy: GangPolicy) -> Stepped:
    after, actions = step(gang, event, policy)
    if gang.phase is Phase.RUNNING:
        actions = tuple(
            replace(action, waiting=()) if isinstance(action, LaunchGang) else action
            for action in actions
        )
    return after, actions


def _forgets_who_leaves(gang: Gang, event: Event, policy: GangPolicy) -> Stepped:
    after, actions = step(gang, event, policy)
    return replace(after, resizing=replace(after.resizing, leaving=())), actions


def _signals_immediately(gang: Gang, event: Event, policy: GangPolicy) -> Stepped:
    assert policy.size is not None
    return step(gang, event, replace(policy, size=replace(policy.size, leaves_on_notice=False)))


def _awaits_no_group(gang: Gang, event: Event, policy: GangPolicy) -> Stepped:
    after, actions = step(gang, event, policy)
    timers = tuple(t for t in after.timers if t.timer.kind is not TimerKind.REFORM)
    return replace(after, timers=timers), actions


def _takes_any_group(gang: Gang, event: Event, policy: GangPolicy) -> Stepped:
    if isinstance(event, GroupFormed):
        event = replace(event, tasks=len(gang.members))
    return step(gang, event, policy)


def _waits_for_ever(gang: Gang, event: Event, policy: GangPolicy) -> Stepped:
    after, actions = step(gang, event, policy)
    if after.phase is Phase.RUNNING:
        limits = {TimerKind.STOP, TimerKind.NOTICE}
        timers = tuple(t for t in after.timers if t.timer.kind not in limits)
        after = replace(after, timers=timers)
    return after, actions


@pytest.mark.parametrize(
    "mutant",
    [
        _stops_all_to_shrink,
        _tells_nobody,
        _tells_it_late,
        _starts_all_again,
        never_mind_the_least,
        _forgets_who_leaves,
        _waits_for_ever,
        _signals_immediately,
        _awaits_no_group,
        _takes_any_group,
    ],
)
def test_a_seeded_fault_is_found(mutant: Step) -> None:
    for seed in range(60):
        try:
            walked(seed, mutant)
        except Violation:
            return
    raise AssertionError("nobody noticed")
