"""Every policy, on any jobs: the same answer whatever the order of the tickets, no more GPUs than
there are, gangs whole or not at all, nobody suspended who cannot be, and nobody starved where the
policy promises it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarnam.core.model.tickets import HoldState, PolicyTicket
from yarnam.core.policies.policy_registry import NAMES, decide, policy_named
from yarnam.core.policies.policy_settings import read_settings
from yarnam.core.policies.schedule import Act, Schedule
from yarnam.core.policies.scheduling_view import GpuCount, SchedulingView

TOTAL = 16
NOW_S = 20_000.0
USUAL = {name: read_settings(name, policy_named(name).settings, {}) for name in NAMES}


@st.composite
def jobs(draw: st.DrawFn) -> list[PolicyTicket]:
    found: list[PolicyTicket] = []
    free = TOTAL
    for number in range(draw(st.integers(1, 10))):
        gpus = draw(st.sampled_from([1, 1, 2, 3, 4, 8, 16]))
        came_s = draw(st.floats(0, NOW_S))
        served = gpus * draw(st.floats(0, 5000))
        is_elastic = gpus > 1 and draw(st.booleans())
        ticket = PolicyTicket(
            job=f"j{number}",
            number=number,
            submitted_at_s=came_s,
            gpus=gpus,
            since_s=draw(st.floats(came_s, NOW_S)),
            remaining_s=draw(st.none() | st.floats(0, 1e5)),
            can_suspend=draw(st.booleans()),
            pause_cost_s=draw(st.floats(0, 100)),
            least_gpus=1 if is_elastic else 0,
            most_gpus=2 * gpus if is_elastic else 0,
            rates=((1, 1.0), (2 * gpus, 1.5 * gpus)) if is_elastic else (),
            remaining_steps=draw(st.none() | st.floats(0, 1e6)),
            priority=draw(st.sampled_from([0, 0, 0, 3])),
        )
        state = draw(st.sampled_from(list(HoldState)))
        if state is HoldState.RUNNING and gpus <= free:
            free -= gpus
            ticket = replace(ticket, state=state, service_gpu_s=served, counted_gpu_s=served)
        elif state is HoldState.SUSPENDED:
            ticket = replace(ticket, state=state, service_gpu_s=served, counted_gpu_s=served)
        found.append(ticket)
    return found


def made(name: str, tickets: list[PolicyTicket], now_s: float = NOW_S) -> Schedule:
    held = sum(one.gpus for one in tickets if one.is_running)
    seen = SchedulingView(tickets, GpuCount(TOTAL, TOTAL - held), now_s)
    return decide(policy_named(name), seen, USUAL[name])


@pytest.mark.parametrize("name", NAMES)
@given(tickets=jobs(), data=st.data())
def test_the_order_of_the_tickets_changes_nothing(
    name: str, tickets: list[PolicyTicket], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(tickets))
    first, again = made(name, tickets), made(name, shuffled)
    assert first.decisions() == again.decisions()
    assert first.next_change_s == again.next_change_s


@pytest.mark.parametrize("name", NAMES)
@given(tickets=jobs())
def test_gangs_are_whole_and_gpus_are_not_given_twice(
    name: str, tickets: list[PolicyTicket]
) -> None:
    found = made(name, tickets)
    policy = policy_named(name)
    assert sorted(one.job for one in found.order) == sorted(one.job for one in tickets)
    assert sum(found.gpus.values()) <= TOTAL
    assert found.left.free_gpus == TOTAL - sum(found.gpus.values())
    assert found.next_change_s > NOW_S
    by_job = {one.job: one for one in tickets}
    for row in found.decisions():
        ticket = by_job[row.job]
        assert row.why
        if row.gpus and not (policy.resizes and ticket.is_elastic):
            makes_way = ticket.is_running and ticket.is_elastic and policy.suspends
            assert row.gpus == ticket.gpus or (makes_way and row.gpus == ticket.least_gpus)
        if row.gpus and ticket.is_elastic:
            assert 1 <= row.gpus <= max(ticket.most_gpus, ticket.gpus)
        if row.act is Act.YIELD:
            assert policy.suspends
            assert ticket.can_suspend
        if row.act is Act.RESIZE:
            assert ticket.is_elastic
            assert policy.resizes or ticket.priority < max(one.priority for one in tickets)


@pytest.mark.parametrize("name", [name for name in NAMES if policy_named(name).starves_nobody])
def test_a_large_gang_runs_in_the_end_however_many_small_ones_come(name: str) -> None:
    """Small jobs that run for half an hour come every five minutes, for ever; the large gang needs
    all GPUs for a while."""
    large = PolicyTicket("large", 1, 1.0, TOTAL, remaining_s=600.0, since_s=1.0, can_suspend=True)
    world = [large]
    now_s, number = 1.0, 2
    settings = USUAL[name]
    ends: dict[str, float] = {}
    while now_s < 60 * 86400.0:
        world = [one for one in world if ends.get(one.job, 1e18) > now_s]
        if number % 3 or len(world) < 40:
            small = PolicyTicket(
                f"s{number}", number, now_s, 4, since_s=now_s, remaining_s=1800.0, can_suspend=True
            )
            world.append(small)
        number += 1
        held = sum(one.gpus for one in world if one.is_running)
        seen = SchedulingView(world, GpuCount(TOTAL, TOTAL - held), now_s)
        found = decide(policy_named(name), seen, settings)
        if "large" in found.gpus:
            return
        changed: list[PolicyTicket] = []
        for ticket in world:
            runs = ticket.job in found.gpus
            left_s = ticket.left_s(now_s) or 0.0
            if runs and not ticket.is_running:
                counted = 0.0 if ticket.job in found.promoted else ticket.counted_gpu_s
                ticket = replace(
                    ticket, state=HoldState.RUNNING, since_s=now_s, counted_gpu_s=counted
                )
                ends[ticket.job] = now_s + left_s
            elif ticket.is_running and not runs:
                ends.pop(ticket.job)
                ticket = replace(
                    ticket,
                    state=HoldState.SUSPENDED,
                    since_s=now_s,
                    remaining_s=left_s,
                    service_gpu_s=ticket.service(now_s),
                    counted_gpu_s=ticket.counted(now_s),
                )
            changed.append(ticket)
        world = changed
        now_s += 300.0
    raise AssertionError("it never ran")
