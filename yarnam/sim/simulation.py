"""``simulate``: one workload, one mode, one seed. The same arguments give the same outcome, to the
byte, in any process."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from yarnam.core.policies.chosen_policy import PolicyInForce
from yarnam.core.policies.policy_registry import DEFAULT, policy_named
from yarnam.sim.central import CentralScheduler
from yarnam.sim.gangs.gang_job import GangJob
from yarnam.sim.gangs.hold_job import HBOX_LIMIT_S, HoldJob
from yarnam.sim.gangs.initial_gangs import InitialGangRun
from yarnam.sim.gangs.job_training import JobTraining
from yarnam.sim.gangs.policy_planner import PolicyPlanner
from yarnam.sim.gangs.schedule_watcher import ScheduleWatcher
from yarnam.sim.planners import JitterPlanner, TicketPlanner
from yarnam.sim.sim_settings import Fault, Mode, SimSettings, Workload
from yarnam.sim.sim_tickets import SimTicketQueue
from yarnam.sim.timeline import Call, Timeline
from yarnam.sim.world import JobRecord, OnWait, Trace, World
from yarnam.sim.yarn_model.containers import Container
from yarnam.sim.yarn_model.preemption import Preempted
from yarnam.sim.yarn_model.resource_manager import SimResourceManager


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened: a record for each job, by number, and every container its jobs ever had.

    ``stood`` says when the gang of (job, attempt) stood; ``reservations_left`` are nodes still
    reserved after the last job's end; ``ended_s`` is when nothing was left to happen, or the limit.
    """

    settings: SimSettings
    records: tuple[JobRecord, ...]
    containers: tuple[Container, ...]
    stood: dict[tuple[int, int], float]
    ended_s: float
    is_quiet: bool
    """Nothing was left to happen. Jobs that have not ended then wait for each other for ever."""
    reservations_left: int = 0
    preempted: tuple[Preempted, ...] = ()
    """Containers that YARN took for starved queues."""


def simulate(
    given: Workload,
    settings: SimSettings,
    trace: Trace | None = None,
    on_end: Callable[[], None] | None = None,
    on_wait: OnWait | None = None,
) -> Outcome:
    """``trace`` gets one line for each event of each gang; ``on_end`` is called when a gang's job
    has ended, ``on_wait`` with its first decision to wait."""
    records = [JobRecord(job) for job in given.jobs]
    if settings.mode in {Mode.CENTRAL, Mode.DECLARED}:
        knows_all = settings.mode is Mode.CENTRAL
        CentralScheduler(settings.rm, records, given.initial_gangs, knows_all=knows_all).run()
        ended_s = max((record.ended_s or 0.0 for record in records), default=0.0)
        return Outcome(settings, tuple(records), (), {}, ended_s, is_quiet=True)
    timeline = Timeline()
    dice = random.Random(settings.seed)  # noqa: S311 - reproducible, not secret
    rm = SimResourceManager(settings.rm, timeline, dice)
    world = World(
        timeline, dice, rm, SimTicketQueue(), trace, settings.checkpoint_s, on_end, on_wait,
        start_cost_s=settings.start_cost_s, has_policy=settings.policy != DEFAULT,
    )  # fmt: skip
    for gang in given.initial_gangs:
        InitialGangRun(gang, world).start()
    watchers = _watchers(given, world, settings)
    for record in records:
        timeline.at(record.job.submit_s, _start(record, world, settings, watchers))
    for fault in settings.faults:
        timeline.at(fault.at_s, _fault(fault, rm))
    is_quiet = timeline.run(settings.limit_s)
    return Outcome(
        settings,
        tuple(records),
        tuple(rm.containers),
        world.stood,
        timeline.now_s,
        is_quiet,
        len(rm.reservations),
        rm.preempted,
    )


def _fault(fault: Fault, rm: SimResourceManager) -> Call:
    return lambda: rm.end_all_on(fault.node, fault.end, fault.away_s)


def _watchers(given: Workload, world: World, settings: SimSettings) -> dict[str, ScheduleWatcher]:
    """Of each queue; empty: jobs wait by themselves."""
    if settings.mode is not Mode.TICKETS or settings.policy == DEFAULT:
        return {}
    in_force = PolicyInForce(policy_named(settings.policy), settings.policy_settings, 1)
    queues = dict.fromkeys(job.queue for job in given.jobs)
    return {queue: ScheduleWatcher(queue, world, in_force) for queue in queues}


def _start(
    record: JobRecord, world: World, settings: SimSettings, watchers: dict[str, ScheduleWatcher]
) -> Call:
    """A job is made when it is submitted: of those to come there is the record alone."""
    return lambda: _job(record, world, settings, watchers).start()


def _job(
    record: JobRecord, world: World, settings: SimSettings, watchers: dict[str, ScheduleWatcher]
) -> GangJob | HoldJob:
    mode, job = settings.mode, record.job
    training = JobTraining(job, world.start_cost_s, world.checkpoint_s)
    if watchers:
        planner = PolicyPlanner(job, world, watchers[job.queue], training)
        return GangJob(record, world, planner, training)
    if mode is Mode.TICKETS:
        return GangJob(record, world, TicketPlanner(job, world), training)
    if mode is Mode.JITTER:
        return GangJob(record, world, JitterPlanner(job, world), training)
    return HoldJob(record, world, HBOX_LIMIT_S if mode is Mode.HBOX else None)
