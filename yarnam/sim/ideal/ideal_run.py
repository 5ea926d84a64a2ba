"""``run``: a trace through a policy on the ideal cluster. What is in memory are the jobs that wait
or run, and eight bytes a figure for each that has ended."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import inf

from yarnam.core.model.tickets import HoldState, PolicyTicket
from yarnam.core.policies.gpu_nodes import NodeCapacity, Shape, even_shape
from yarnam.core.policies.policy_registry import decide, policy_named
from yarnam.core.policies.schedule import Schedule
from yarnam.core.policies.scheduling_view import GpuCount, SchedulingView
from yarnam.errors import UsageError
from yarnam.sim.ideal.ideal_report import Figures, IdealReport, IdealRow
from yarnam.sim.ideal.ideal_settings import IdealSettings, Instant, Overhead, RunTimes
from yarnam.sim.ideal.trace_job import TraceJob
from yarnam.sim.sim_settings import relative_speed

OnRow = Callable[[IdealRow], None]
OnTime = Callable[[float], None]
"""Gets the virtual time periodically, since the first submission."""

DECISIONS_PER_JOB, LEAST_MOST_DECISIONS = 500, 200_000
"""A run stops after this many decisions for each job submitted so far, and no sooner than after the
second number: a policy that suspends jobs as fast as they are started never ends a trace. The
figures are our own choice."""

TIME_EVERY = 64
"""Decisions between two calls of ``OnTime``."""


@dataclass(slots=True)
class _Living:
    """One job between its submission and its end."""

    job: TraceJob
    ticket: PolicyTicket
    overhead_s: float
    left_s: float
    """The remaining run time on its own GPUs, as of ``since_s``."""
    since_s: float
    rate: float = 0.0
    """Seconds of ``left_s`` done per second; 0 while it does not run."""
    start_s: float = -1.0
    starts: int = 0
    resizes: int = 0
    order: int = 0
    """The number of its last start among all starts of all jobs: settles ties between ends."""
    ends: int = 0
    """Only the last of its entries in the heap of ends counts."""


@dataclass(frozen=True, slots=True)
class IdealOutcome:
    report: IdealReport
    figures: Figures


def run(
    trace: Iterable[TraceJob],
    settings: IdealSettings,
    *,
    name: str = "",
    on_row: OnRow | None = None,
    on_time: OnTime | None = None,
) -> IdealOutcome:
    """``trace`` is in the order of submission. ``on_row`` gets each job at its end. Raises
    UsageError: it is not in that order, a time is negative, or a job is larger than the cluster."""
    world = IdealCluster(settings, on_row, on_time)
    world.run(trace)
    unfinished = world.unfinished
    stopped_at_s = world.now_s if unfinished else None
    report = world.figures.report(
        name or settings.policy, unfinished, world.decisions, stopped_at_s
    )
    return IdealOutcome(report, world.figures)


class IdealCluster:
    """One run."""

    def __init__(
        self, settings: IdealSettings, on_row: OnRow | None = None, on_time: OnTime | None = None
    ) -> None:
        self._settings = settings
        self._policy = policy_named(settings.policy)
        self._on_row = on_row
        self._on_time = on_time
        self._living: dict[str, _Living] = {}
        self._tickets: dict[str, PolicyTicket] = {}
        self._running: set[str] = set()
        self._shapes: dict[str, Shape] = {}
        self._capacity: GpuCount | NodeCapacity
        if settings.nodes:
            self._capacity = NodeCapacity(
                list(settings.nodes),
                self._shapes,
                settings.packing,
                moves=settings.moves_freely,
            )
        else:
            self._capacity = GpuCount(settings.gpus, settings.gpus)
        self._ends: list[tuple[float, int, int, str]] = []
        self._change_s = inf
        self._now_s = 0.0
        self._first_s = 0.0
        self._number = 0
        self._starts = 0
        self.decisions = 0
        self.figures = Figures(self._capacity.total_gpus)

    @property
    def unfinished(self) -> int:
        """Jobs that have been submitted and have not ended."""
        return len(self._living)

    @property
    def now_s(self) -> float:
        return self._now_s

    def run(self, trace: Iterable[TraceJob]) -> None:
        coming = iter(trace)
        following = next(coming, None)
        if following is not None:
            self._first_s = following.submit_s
        one_by_one = self._settings.instant is Instant.ONE_BY_ONE
        while (following is not None or self._living) and not self._has_decided_too_often():
            arrives_s = inf if following is None else following.submit_s - self._first_s
            ends_s = self._next_end_s()
            event_s = min(arrives_s, ends_s)
            if self._change_s < event_s:
                event_s, arrives_s, ends_s = self._change_s, inf, inf
            if event_s == inf:
                break
            self._advance(event_s)
            if one_by_one:
                is_first = self._end_as_declared()
                if arrives_s == event_s and following is not None:
                    following = self._arrive(following, coming)
                elif not is_first and self._next_end_s() == event_s:
                    self._end_next()
            else:
                while self._next_end_s() <= event_s and ends_s <= event_s:
                    self._end_next()
                while (
                    following is not None
                    and arrives_s <= event_s
                    and following.submit_s - self._first_s <= event_s
                ):
                    following = self._arrive(following, coming)
            self._decide()

    def _has_decided_too_often(self) -> bool:
        return self.decisions >= max(LEAST_MOST_DECISIONS, DECISIONS_PER_JOB * self._number)

    def _advance(self, now_s: float) -> None:
        """Let time pass for all that run: by Muri's rule each loses its overhead."""
        gap_s, self._now_s = now_s - self._now_s, now_s
        if self._settings.overhead is not Overhead.EVERY_EVENT or gap_s <= 0:
            return
        heap: list[tuple[float, int, int, str]] = []
        due = {job for at_s, _, _, job in self._ends if at_s <= now_s}
        for job in self._running:
            one = self._living[job]
            if job not in due:
                one.left_s -= max(0.0, gap_s - one.overhead_s)
                one.since_s = now_s
                self._update_left(one)
            at_s = now_s if job in due else now_s + one.left_s
            heap.append((at_s, one.order, one.ends, job))
        heapq.heapify(heap)
        self._ends = heap

    def _update_left(self, one: _Living) -> None:
        """Its ticket with what it has left by now."""
        stated_s, ran_s = self._stated_s(one), self._now_s - one.ticket.since_s
        if stated_s is not None:
            self._update(one, replace(one.ticket, remaining_s=stated_s + ran_s))

    def _next_end_s(self) -> float:
        heap = self._ends
        while heap:
            at_s, _, entry, job = heap[0]
            one = self._living.get(job)
            if one is not None and one.ends == entry and one.rate:
                return at_s
            heapq.heappop(heap)
        return inf

    def _arrive(self, job: TraceJob, coming: Iterable[TraceJob]) -> TraceJob | None:
        submit_s = job.submit_s - self._first_s
        if submit_s < self._now_s - 1e-9:
            raise UsageError(f"the trace is not in the order of submission at job {job.job}")
        if job.run_s < 0 or job.gpus < 1:
            raise UsageError(f"job {job.job} runs {job.run_s:g} s on {job.gpus} GPUs")
        if job.gpus > self._capacity.total_gpus:
            raise UsageError(
                f"job {job.job} needs {job.gpus} GPUs; the cluster has {self._capacity.total_gpus}"
            )
        if job.job in self._living:
            raise UsageError(f"job {job.job} is submitted twice")
        settings = self._settings
        overhead_s = 0.0 if settings.overhead is Overhead.NONE else settings.overhead_of(job)
        ticket = PolicyTicket(
            job=job.job,
            number=self._number,
            submitted_at_s=submit_s,
            gpus=job.gpus,
            queue=job.queue,
            since_s=submit_s,
            can_suspend=True,
            pause_cost_s=overhead_s,
            least_gpus=job.least_gpus,
            most_gpus=job.most_gpus,
            rates=self._rates(job),
            remaining_steps=job.run_s * settings.steps_per_s if job.most_gpus else None,
        )
        self._number += 1
        one = _Living(job, ticket, overhead_s, job.run_s, submit_s)
        self._living[job.job] = one
        if job.tasks > 1 or job.vcores:
            self._shapes[job.job] = even_shape(job.gpus, job.tasks, job.vcores)
        self._update(one, replace(ticket, remaining_s=self._stated_s(one)))
        return next(iter(coming), None)

    def _update(self, one: _Living, ticket: PolicyTicket) -> None:
        one.ticket = self._tickets[ticket.job] = ticket

    def _stated_s(self, one: _Living) -> float | None:
        """The remaining time that the job states, on the GPUs that it has."""
        if self._settings.run_times is RunTimes.UNKNOWN:
            return None
        if self._settings.run_times is RunTimes.TRUE:
            return one.left_s / (one.rate or 1.0)
        declared_s = one.job.declared_s
        return None if declared_s is None else max(0.0, declared_s - (one.job.run_s - one.left_s))

    def _rates(self, job: TraceJob) -> tuple[tuple[int, float], ...]:
        if not job.most_gpus:
            return ()
        base = self._settings.steps_per_s
        sizes = range(max(1, job.least_gpus), job.most_gpus + 1)
        return tuple((size, base * self._speed(job, size)) for size in sizes)

    def _speed(self, job: TraceJob, gpus: int) -> float:
        return relative_speed(gpus, job.gpus, self._settings.scaling)

    def _end_next(self) -> None:
        _, _, _, job = heapq.heappop(self._ends)
        one = self._living.pop(job)
        del self._tickets[job]
        self._running.discard(job)
        self._shapes.pop(job, None)
        self._capacity.give(one.ticket)
        row = IdealRow(
            job, one.job.queue, one.job.gpus, one.ticket.submitted_at_s, one.start_s, self._now_s,
            one.job.run_s, one.starts, one.resizes,
        )  # fmt: skip
        self.figures.add(row)
        if self._on_row is not None:
            self._on_row(row)

    def _end_as_declared(self) -> bool:
        """End the gangs that are due now and declared their run time exactly: the timetable of a
        batch system has their GPUs free from now on, whatever else happens at this instant
        first."""
        late: list[str] = []
        is_first = False
        while self._next_end_s() <= self._now_s:
            one = self._living[self._ends[0][3]]
            if one.job.declared_s == one.job.run_s:
                self._end_next()
                is_first = is_first or not late
            else:
                late.append(heapq.heappop(self._ends)[3])
        for job in late:
            one = self._living[job]
            heapq.heappush(self._ends, (self._now_s, one.order, one.ends, job))
        return is_first

    def _decide(self) -> None:
        self.decisions += 1
        if self._on_time is not None and self.decisions % TIME_EVERY == 0:
            self._on_time(self._now_s)
        seen = SchedulingView(tuple(self._tickets.values()), self._capacity, self._now_s)
        found = decide(self._policy, seen, self._settings.settings)
        gpus = found.gpus
        for job in [job for job in self._running if job not in gpus]:
            self._stop(self._living[job], HoldState.SUSPENDED)
            self._running.discard(job)
        for job, size in gpus.items():
            one = self._living[job]
            if job not in self._running:
                self._start(one, size, found)
            elif size != one.ticket.gpus or job in found.moved:
                one.resizes += size != one.ticket.gpus
                goes_on = one.ticket.started_gpu_s
                self._stop(one, HoldState.SUSPENDED)
                self._start(one, size, found, goes_on)
        assert isinstance(found.left, (GpuCount, NodeCapacity))
        self._capacity = found.left
        if isinstance(self._capacity, NodeCapacity):
            self._settle_nodes(self._capacity, found)
        self._change_s = max(found.next_change_s, self._now_s)
        if found.next_change_s <= self._now_s:
            self._change_s = inf  # It cannot reach another decision at the same instant.
        used = self._capacity.total_gpus - self._capacity.free_gpus
        self.figures.usage.now(self._now_s, used)

    def _settle_nodes(self, capacity: NodeCapacity, found: Schedule) -> None:
        for job in [job for job in capacity.pieces if job not in self._running]:
            del capacity.pieces[job]  # Suspended: it has no nodes to come back to.
        for job in found.moved:
            ticket = self._living[job].ticket
            capacity.give(ticket)
            capacity.take(replace(ticket, state=HoldState.WAITING), ticket.gpus)
        for job in self._running:
            one, nodes = self._living[job], len(capacity.pieces[job])
            if one.ticket.nodes != nodes:
                self._update(one, replace(one.ticket, nodes=nodes))

    def _start(
        self, one: _Living, gpus: int, found: Schedule, goes_on: float | None = None
    ) -> None:
        """``goes_on``: of a gang that has not waited, its ``started_gpu_s``."""
        now_s, job = self._now_s, one.job
        one.rate = self._speed(job, gpus)
        one.since_s = now_s
        one.starts += 1
        one.ends += 1
        self._starts += 1
        one.order = self._starts
        if one.start_s < 0:
            one.start_s = now_s
        pause_s = one.overhead_s if self._settings.overhead is Overhead.RESTART else 0.0
        one.since_s = now_s + pause_s
        stated_s = self._stated_s(one)
        ticket = one.ticket
        counted = 0.0 if ticket.job in found.promoted else ticket.counted_gpu_s
        self._update(
            one,
            replace(
                ticket,
                state=HoldState.RUNNING,
                gpus=gpus,
                since_s=now_s,
                counted_gpu_s=counted,
                started_gpu_s=counted if goes_on is None else min(counted, goes_on),
                remaining_s=None if stated_s is None else stated_s + pause_s,
            ),
        )
        self._running.add(ticket.job)
        heapq.heappush(
            self._ends, (one.since_s + one.left_s / one.rate, one.order, one.ends, ticket.job)
        )

    def _stop(self, one: _Living, state: HoldState) -> None:
        now_s, ticket = self._now_s, one.ticket
        one.left_s -= max(0.0, now_s - one.since_s) * one.rate
        one.left_s = max(0.0, one.left_s)
        one.since_s, one.rate = now_s, 0.0
        steps = None
        if ticket.remaining_steps is not None:
            steps = one.left_s * self._settings.steps_per_s
        self._update(
            one,
            replace(
                ticket,
                state=state,
                gpus=one.job.gpus,
                since_s=now_s,
                service_gpu_s=ticket.service(now_s),
                counted_gpu_s=ticket.counted(now_s),
                remaining_s=self._stated_s(one),
                remaining_steps=steps,
                nodes=0,
            ),
        )
