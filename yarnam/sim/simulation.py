"""``simulate``: one workload, one mode, one seed. The same arguments give the same outcome, to the
byte, in any process. ``stream`` plays the same and keeps nothing of what is over."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from yarnam.core.policies.chosen_policy import ActivePolicy
from yarnam.core.policies.policy_registry import DEFAULT, policy_named
from yarnam.sim.central import CentralScheduler
from yarnam.sim.gangs.gang_job import GangJob
from yarnam.sim.gangs.hold_job import HBOX_LIMIT_S, HoldJob
from yarnam.sim.gangs.initial_gangs import InitialGangRun
from yarnam.sim.gangs.job_training import JobTraining
from yarnam.sim.gangs.policy_reports import PolicyReports
from yarnam.sim.gangs.queue_driver import QueueDriver
from yarnam.sim.gangs.schedule_observer import ScheduleObserver
from yarnam.sim.sim_settings import Fault, Mode, SimJob, SimSettings, Workload
from yarnam.sim.sim_tickets import SimTicketQueue
from yarnam.sim.timeline import Call, Timeline
from yarnam.sim.world import JobRecord, OnWait, Trace, World
from yarnam.sim.yarn_model.containers import Container
from yarnam.sim.yarn_model.preemption import Preempted
from yarnam.sim.yarn_model.resource_manager import SimResourceManager

MOST_JOBS = 1 << 40
"""The most jobs of one run: their submissions are numbered before all events that follow from them,
so that the order of two calls at one instant is always the same."""

EVENTS_PER_JOB, LEAST_MOST_EVENTS = 200_000, 5_000_000
"""``stream`` stops after this many events for each job submitted so far, and no sooner than after
the second number. A job of one week has some 120,000 looks; one of a century would not end. The
figures are our own choice."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result: a record for each job, by number, and every container its jobs ever had.

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
    world = _world(settings, trace)
    world.on_wait = on_wait
    if on_end is not None:
        world.on_end = lambda _record: on_end()
    for gang in given.initial_gangs:
        InitialGangRun(gang, world).start()
    is_quiet = _run(sorted(records, key=lambda one: one.job.submit_s), world, settings)
    rm = world.rm
    return Outcome(
        settings,
        tuple(records),
        tuple(rm.containers),
        world.stood,
        world.timeline.now_s,
        is_quiet,
        len(rm.reservations),
        rm.preempted,
    )


def stream(
    jobs: Iterable[SimJob],
    settings: SimSettings,
    *,
    on_record: Callable[[JobRecord], None],
    on_gpus: Callable[[float, int], None],
    trace: Trace | None = None,
) -> float | None:
    """A trace of any length, by the time of submission. A job is taken from ``jobs`` when the one
    before it has been submitted, and forgotten after ``on_record`` has had its record. Returns the
    time at which it was stopped because it had more events than its jobs account for."""
    world = _world(settings, trace, keeps_past=False)
    world.on_end, world.on_gpus = on_record, on_gpus
    submitted = 0

    def records() -> Iterator[JobRecord]:
        nonlocal submitted
        for job in jobs:
            submitted += 1
            yield JobRecord(job)

    def most_events() -> int:
        return max(LEAST_MOST_EVENTS, EVENTS_PER_JOB * submitted)

    is_quiet = _run(records(), world, settings, most_events)
    return None if is_quiet else world.timeline.now_s


def _world(settings: SimSettings, trace: Trace | None, *, keeps_past: bool = True) -> World:
    timeline = Timeline()
    dice = random.Random(settings.seed)  # noqa: S311 - reproducible, not secret
    return World(
        timeline,
        dice,
        SimResourceManager(settings.rm, timeline, dice, keeps_past=keeps_past),
        SimTicketQueue(),
        trace,
        settings.checkpoint_s,
        start_cost_s=settings.start_cost_s,
        has_policy=settings.policy != DEFAULT,
        keeps_past=keeps_past,
    )


def _run(
    records: Iterable[JobRecord],
    world: World,
    settings: SimSettings,
    most_events: Callable[[], int] | None = None,
) -> bool:
    """``records`` are in the order of submission. ``True`` means nothing is left to happen."""
    timeline, coming = world.timeline, iter(records)
    observers = _ScheduleObservers(world, settings)

    def submit_next(number: int) -> None:
        record = next(coming, None)
        if record is not None:
            timeline.at(record.job.submit_s, lambda: submit(record, number), number)

    def submit(record: JobRecord, number: int) -> None:
        submit_next(number + 1)
        _job(record, world, settings, observers).start()

    submit_next(timeline.reserve(MOST_JOBS))
    for fault in settings.faults:
        timeline.at(fault.at_s, _fault(fault, world.rm))
    return timeline.run(settings.limit_s, most_events)


def _fault(fault: Fault, rm: SimResourceManager) -> Call:
    return lambda: rm.end_all_on(fault.node, fault.end, fault.away_s)


class _ScheduleObservers:
    """The observers of the queues, one for each queue with a policy."""

    def __init__(self, world: World, settings: SimSettings) -> None:
        self._world = world
        self._of: dict[str, ScheduleObserver] = {}
        self._active: ActivePolicy | None = None
        if settings.mode is Mode.TICKETS and settings.policy != DEFAULT:
            policy = policy_named(settings.policy)
            self._active = ActivePolicy(policy, settings.policy_settings, 1)

    def of(self, queue: str) -> ScheduleObserver | None:
        """``None`` if jobs poll on their own."""
        if self._active is not None and queue not in self._of:
            self._of[queue] = ScheduleObserver(queue, self._world, self._active)
        return self._of.get(queue)


def _job(
    record: JobRecord, world: World, settings: SimSettings, observers: _ScheduleObservers
) -> GangJob | HoldJob:
    mode, job = settings.mode, record.job
    training = JobTraining(job, world.start_cost_s, world.checkpoint_s)
    if mode in {Mode.TICKETS, Mode.JITTER}:
        observer = observers.of(job.queue)
        reports = None if observer is None else PolicyReports(job, training)
        driver = QueueDriver(
            job, world, takes_tickets=mode is Mode.TICKETS, observer=observer, reports=reports
        )
        return GangJob(record, world, driver, training)
    return HoldJob(record, world, HBOX_LIMIT_S if mode is Mode.HBOX else None)
