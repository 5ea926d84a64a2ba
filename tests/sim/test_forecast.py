"""The waiting forecast against what then happens in the simulator."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from yarnam.core.admission import QueueSnapshot
from yarnam.core.admission.forecast import Forecast, UnknownStart, forecast
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.core.model.tickets import Demand, RunningGang, Ticket
from yarnam.sim import Mode, RmSettings, SimSettings, Workload, WorkloadSettings, simulate, workload
from yarnam.sim.gangs.initial_gangs import InitialGangRun
from yarnam.sim.sim_tickets import SimTicketQueue
from yarnam.sim.timeline import Timeline
from yarnam.sim.world import World
from yarnam.sim.yarn_model.resource_manager import SimResourceManager

pytestmark = pytest.mark.sim

RM = RmSettings(nodes=12)

SLACK_S = 60.0
"""Asks, grants and starts, which the forecast leaves out."""


def all_at_once(seed: int) -> Workload:
    """Forty jobs on a busy cluster, all submitted in the first second: nobody comes later."""
    given = workload(WorkloadSettings(jobs=40, load=4.0, busy=0.95, seed=seed), RM)
    jobs = tuple(replace(job, submit_s=job.number / 40) for job in given.jobs)
    return replace(given, jobs=jobs)


def as_seen(given: Workload) -> tuple[ClusterSnapshot, tuple[RunningGang, ...], list[Ticket]]:
    """What a job's ApplicationMaster can know at the start."""
    timeline, dice = Timeline(), random.Random(1)
    world = World(timeline, dice, SimResourceManager(RM, timeline, dice), SimTicketQueue())
    for gang in given.initial_gangs:
        InitialGangRun(gang, world).start()
    one = Resources(32768, 4, 1)
    tickets = [
        Ticket(
            job.number + 1, job.spec.name, job.spec.name, job.queue, (Demand(one, job.gpus),),
            taken_at_s=0.0, duration_s=job.declared_s,
        )
        for job in given.jobs
    ]  # fmt: skip
    return world.rm.snapshot(RM.queues[0].name), tuple(world.tickets.running.values()), tickets


@pytest.mark.long
def test_what_happens_is_mostly_within_what_was_forecast() -> None:
    """Four of five, if ends were just as they are drawn. In twelve such worlds three of four were;
    most of the misses were in three in which everything ran longer than its age told. Of these six
    one is like that."""
    within = beyond = told = 0
    for seed in range(6):
        given = all_at_once(seed)
        snapshot, running, tickets = as_seen(given)
        outcome = simulate(given, SimSettings(Mode.TICKETS, rm=RM))
        for ticket, record in zip(tickets, outcome.records, strict=True):
            found = forecast(ticket, QueueSnapshot(snapshot, tickets, running, 1.0), plays=10)
            if not isinstance(found, Forecast) or record.wait_s is None or found.likely_s < 60.0:
                continue
            told += 1
            within += found.soonest_s - SLACK_S <= record.wait_s <= found.latest_s + SLACK_S
            beyond += record.wait_s > 2.0 * found.latest_s + SLACK_S
    assert told > 150
    assert within / told >= 0.7, f"{within} of {told}"
    assert beyond / told < 0.2, f"{beyond} of {told} waited more than twice as long as the latest"


def test_a_job_that_fits_now_starts_now() -> None:
    snapshot, running, [first, *others] = as_seen(all_at_once(0))
    idle = replace(snapshot, nodes=tuple(replace(n, used=Resources()) for n in snapshot.nodes))
    found = forecast(first, QueueSnapshot(idle, [first], (), 1.0))
    assert found == Forecast(0.0, 0.0, 0.0, found.bypassed_until_s)
    assert others
    assert running


def test_the_same_question_has_the_same_answer() -> None:
    snapshot, running, tickets = as_seen(all_at_once(2))
    answers = [
        forecast(tickets[0], QueueSnapshot(snapshot, tickets, running, 1.0)) for _ in range(2)
    ]
    assert answers[0] == answers[1]


def test_gpus_of_strangers_cannot_be_told() -> None:
    snapshot, _, tickets = as_seen(all_at_once(0))
    full = replace(snapshot, nodes=tuple(replace(n, used=n.total) for n in snapshot.nodes))
    found = forecast(tickets[0], QueueSnapshot(full, tickets, (), 1.0))
    assert isinstance(found, UnknownStart)
    assert "96 GPUs are in use by jobs that take no tickets" in found.reason


def test_a_declared_end_bounds_the_forecast() -> None:
    """One gang holds the only node and has declared that it ends in ten minutes."""
    snapshot, _, tickets = as_seen(all_at_once(0))
    node, me = replace(snapshot.nodes[0], used=snapshot.nodes[0].total), tickets[0]
    alone = replace(snapshot, nodes=(node,))
    gang = RunningGang("r", me.queue, 8, 601.0, ((node.node_id, 8),), 0.0)
    small = replace(me, demands=(Demand(Resources(1, 1, 1), 1),))
    found = forecast(small, QueueSnapshot(alone, [small], (gang,), 1.0))
    assert isinstance(found, Forecast)
    assert 0.0 < found.soonest_s < found.likely_s < found.latest_s <= 660.0
    larger = replace(small, demands=(Demand(Resources(1, 1, 1), 9),))
    assert isinstance(forecast(larger, QueueSnapshot(alone, [larger], (gang,), 1.0)), UnknownStart)
