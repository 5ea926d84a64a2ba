"""How many GPUs a job should have: its measured runs, and the sizes that this cluster can hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from yarnam.client.monitor.job_history import JobHistory
from yarnam.client.planning.outlook import Outlook, outlook
from yarnam.client.planning.program_key import program_key
from yarnam.client.site import Site
from yarnam.client.submit.pre_run_choice import passed_before
from yarnam.client.submit.preflight import checked_on
from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.accounting.job_summary import HistoryFilter
from yarnam.core.admission.forecast import Forecast
from yarnam.core.advice import Advice, Aim, Option, Plan, advise
from yarnam.core.advice.predictions import MeasuredProgram, measured_program, shares_batch
from yarnam.core.fits.step_time import StepSample
from yarnam.core.model.job_spec import AdvisedSize, Batch, JobSpec, PreRunMode, RoleSpec
from yarnam.core.model.snapshot import NO_DATA, BytesByNode, ClusterSnapshot
from yarnam.core.placement.packing.index_memory import IndexMemory
from yarnam.core.queue_client.ticket_list import TicketList
from yarnam.errors import NeverFits, UsageError
from yarnam.wire.records import PreRunRecord

MOST_RECORDS = 50
"""The newest jobs of the same name whose records are read."""

MOST_TIMES = 8
"""Sizes above this multiple of the largest measured one are considered only if the spec names them:
of those nothing is known that could be shown."""


@dataclass(frozen=True, slots=True)
class KnownRuns:
    """The measured runs of a program in its user's history."""

    records: tuple[HistoryRecord, ...] = ()
    pre_run: PreRunRecord | None = None
    is_same_program: bool = True
    """Else the records are of jobs of the same name with another program."""

    @property
    def measured(self) -> Iterator[StepSample]:
        for record in self.records:
            for size in record.sizes:
                yield StepSample(size.nodes, size.processes, 1.0, size.step_s, size.compute_s)
        if self.pre_run is not None and self.pre_run.step_s:
            yield StepSample(1, 1, 1.0, self.pre_run.step_s)

    def work(self, batch: Batch) -> float | None:
        """The steps of the whole training, times the processes if each has its own batch, by the
        newest job that knew them; ``None`` if none did."""
        for record in self.records:
            for size in reversed(record.sizes):
                if size.steps:
                    return size.steps * (1.0 if batch is Batch.GLOBAL else size.processes)
        return None

    @property
    def basis(self) -> str:
        if not self.records:
            return "" if self.pre_run is None else f"a pre-run in {self.pre_run.application}"
        count = len(self.records)
        jobs = "one job" if count == 1 else f"{count} jobs"
        newest = self.records[0].application
        if self.is_same_program:
            return f"{jobs} of this program, the newest {newest}"
        return f"{jobs} of the same name with another program, the newest {newest}"


def known_runs(site: Site, job: JobSpec) -> KnownRuns:
    """This user's measured runs of the job's program; else those of its newest jobs of the same
    name. What the job ships is read only if there is something to compare it with. Raises BadSpec,
    Unavailable."""
    history = JobHistory(site)
    rows = [
        row
        for row in history.jobs(HistoryFilter(name=job.name)).rows
        if row.name == job.name and row.started_at_s
    ]
    records = sorted(
        (record for record in history.records(rows[:MOST_RECORDS]) if record.sizes),
        key=lambda record: -record.ended_at_s,
    )
    if not records and job.pre_run.mode is PreRunMode.OFF:
        return KnownRuns()
    key = program_key(site, job)
    same = tuple(record for record in records if key and record.program == key)
    others = tuple(record for record in records if record.framework == job.framework)
    pre_run = passed_before(site, key) if key else None
    return KnownRuns(same or others, pre_run, bool(same) or not others)


def predicted(found: Outlook, known: KnownRuns) -> Plan | None:
    """The speed of the job on the rung of this outlook; ``None`` if nothing was measured."""
    job = found.job
    measured = tuple(known.measured)
    if not measured or all(role.name in job.auxiliary_roles for role in job.roles):
        return None
    on_node = _processes_by_node(job, found)
    option = Option(0, job.gpus, sum(on_node.values()), max(1, len(on_node)))
    is_shared = _batch(job, measured) is Batch.GLOBAL
    [plan] = advise(measured_program(measured, is_batch_shared=is_shared), [option]).plans
    return plan


def _batch(job: JobSpec, measured: Sequence[StepSample]) -> Batch:
    """As the spec has it, else as the measured compute suggests, else global."""
    if job.elastic.batch is not None:
        return job.elastic.batch
    return Batch.PER_PROCESS if shares_batch(measured) is False else Batch.GLOBAL


def size_advice(
    job: JobSpec,
    snapshot: ClusterSnapshot,
    line: TicketList | str,
    known: KnownRuns,
    *,
    data: BytesByNode = NO_DATA,
    aim: Aim = Aim.GPUS,
    batch: Batch | None = None,
    most_gpus: int | None = None,
) -> Advice:
    """``line``: as for ``outlook``; ``batch``: by default as the spec has it, else as the measured
    compute suggests, else global. Raises UsageError if no role trains."""
    measured = tuple(known.measured)
    if batch is None:
        batch = _batch(job, measured)
    role = grown_role(job)
    program = measured_program(measured, is_batch_shared=batch is Batch.GLOBAL)
    most = MOST_TIMES * max(program.sizes, default=0)
    memory = IndexMemory()
    options = [
        _option(size, sized, snapshot, line, data, memory, is_own=sized == job)
        for size, sized in _sizes(job, role, most_gpus)
        if program.samples and (sized == job or _processes(sized) <= most)
    ]
    return advise(
        program, _without_hopeless(options), aim=aim, basis=known.basis, work=known.work(batch),
        notes=tuple(_notes(job, known, program)),
    )  # fmt: skip


def with_advised_size(
    job: JobSpec, ask: Callable[[Batch | None], Advice], report: Callable[[str], None]
) -> JobSpec:
    """The job at one size of its range, if its spec leaves that to advice; the smallest one where
    too little is known. ``ask`` gives the advice for this job; ``report`` gets the choice, and
    why."""
    role = job.elastic_role
    if role is None or not job.elastic.by_advice:
        return job
    found = ask(job.elastic.batch)
    if found.is_advised:
        [best, *_] = found.plans
        size, step_s = best.option.size, best.step_s
        advised = AdvisedSize(best.reason)
        if step_s is not None:
            advised = AdvisedSize(best.reason, step_s.likely, step_s.low, step_s.high)
    else:
        size = (role.min_tasks or 1) * _unit(job, role)
        advised = AdvisedSize(
            " ".join(("the smallest size, as too little is known.", *found.notes))
        )
    report(f"Size by advice: {advised.reason}")
    return replace(_at(job, role, size), advised=advised)


def grown_role(job: JobSpec) -> RoleSpec:
    """The role whose number of tasks is advised: the elastic one, else of those that train the one
    with the most tasks. Raises UsageError."""
    elastic = job.elastic_role
    if elastic is not None:
        return elastic
    training = [role for role in job.roles if role.name not in job.auxiliary_roles]
    if not training:
        raise UsageError(f"{job.name} has no role that trains, so there is no size to advise")
    return max(training, key=lambda role: role.tasks)


def _sizes(job: JobSpec, role: RoleSpec, most_gpus: int | None) -> Iterator[tuple[int, JobSpec]]:
    """The job itself, and with 1, 2, 4, … tasks (or GPUs, where the planner shapes the tasks),
    within the bounds of an elastic role."""
    unit = _unit(job, role)
    own = role.tasks * unit
    least = (role.min_tasks or 1) * unit if role.is_elastic else 1
    each = 1 if job.flexible_shape else max(1, role.resources.gpus)
    fixed = job.gpus - role.tasks * role.resources.gpus
    limit = fixed + 1024 * each if most_gpus is None else most_gpus
    most = own if role.is_elastic else max(own, (limit - fixed) // each)
    counts = {2**power for power in range(11)} | {own, least}
    if job.flexible_shape:
        # Its processes for each GPU stay as they are.
        counts = {one for one in counts if role.processes_per_task * one % unit == 0}
    for count in sorted(counts):
        if least <= count <= most and (most_gpus is None or fixed + count * each <= most_gpus):
            yield count, _at(job, role, count)


def _unit(job: JobSpec, role: RoleSpec) -> int:
    """The sizes that one task of the role counts for."""
    return role.resources.gpus if job.flexible_shape else 1


def _at(job: JobSpec, role: RoleSpec, count: int) -> JobSpec:
    """The job with this many tasks, or GPUs, of the role."""
    unit = _unit(job, role)
    if job.flexible_shape and count != role.tasks * unit:
        share = role.resources
        sized = replace(
            role, tasks=1, min_tasks=None,
            resources=replace(
                share, gpus=count,
                memory_mib=-(-share.memory_mib * count // unit),
                vcores=-(-share.vcores * count // unit),
            ),
            processes_per_task=max(1, role.processes_per_task * count // unit),
        )  # fmt: skip
    else:
        sized = replace(role, tasks=role.tasks if job.flexible_shape else count, min_tasks=None)
    if sized == replace(role, min_tasks=None) and not role.is_elastic:
        return job
    roles = tuple(sized if one.name == role.name else one for one in job.roles)
    return replace(job, roles=roles)


def _option(
    size: int,
    job: JobSpec,
    snapshot: ClusterSnapshot,
    line: TicketList | str,
    data: BytesByNode,
    memory: IndexMemory,
    *,
    is_own: bool,
) -> Option:
    option = Option(size, job.gpus, _processes(job), 1, is_own=is_own)
    try:
        found = outlook(checked_on(snapshot, job, data, memory=memory), line, memory=memory)
    except NeverFits as refusal:
        return replace(option, no_fit=refusal.message)
    on_node = _processes_by_node(job, found)
    start = found.start if isinstance(found.start, Forecast) else None
    return replace(
        option,
        nodes=max(1, len(on_node)),
        is_even=len(set(on_node.values())) <= 1,
        wait_s=None if start is None else start.likely_s,
        latest_s=None if start is None or start.latest_s == inf else start.latest_s,
    )


def _processes(job: JobSpec) -> int:
    return sum(
        role.tasks * role.processes_per_task
        for role in job.roles
        if role.name not in job.auxiliary_roles
    )


def _processes_by_node(job: JobSpec, found: Outlook) -> Counter[str]:
    on_node = Counter[str]()
    for task in found.tasks:
        if task.task.rpartition("-")[0] not in job.auxiliary_roles:
            on_node[str(task.node)] += task.processes
    return on_node


def _without_hopeless(options: Sequence[Option]) -> list[Option]:
    """Drop the sizes that can never run, but for the smallest and the user's own."""
    never = [option for option in options if option.no_fit]
    kept = {id(option) for option in (*never[:1], *(one for one in never if one.is_own))}
    return [option for option in options if not option.no_fit or id(option) in kept]


def _notes(job: JobSpec, known: KnownRuns, program: MeasuredProgram) -> Iterator[str]:
    if not known.is_same_program and known.records:
        yield "The program has changed since those runs; it may be faster or slower now."
    role = next(role for role in job.roles if role.name == job.leading_role)
    peak = known.pre_run.peak_memory_mib if known.pre_run is not None else None
    if peak and peak * role.processes_per_task > role.resources.memory_mib:
        needed = peak * role.processes_per_task
        yield (
            f"A task of {role.name} needs {needed} MiB of memory by the pre-run, and gets "
            f"{role.resources.memory_mib} MiB."
        )
    if program.samples and all(sample.compute_s is None for sample in program.samples):
        yield "The share of the network is not known: mark the compute with `train.compute`."
