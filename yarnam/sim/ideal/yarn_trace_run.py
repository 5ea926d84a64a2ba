"""The same trace on the model of YARN, in the figures of the ideal one: what a real cluster
costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from math import gcd

from yarnam.core.model.job_spec import CheckpointSpec, ElasticSpec, RoleSpec
from yarnam.core.model.snapshot import ClusterSnapshot, QueueView
from yarnam.core.placement.elastic_sizes import settled_shape
from yarnam.core.policies.policy_settings import Settings
from yarnam.sim.ideal.ideal_report import Figures, IdealRow
from yarnam.sim.ideal.ideal_run import OnRow, OnTime
from yarnam.sim.ideal.ideal_settings import RunTimes
from yarnam.sim.ideal.policy_comparison import FIGURES, PolicyFigures, estimate
from yarnam.sim.ideal.trace_job import TraceJob
from yarnam.sim.sim_settings import (
    Mode,
    QueueSettings,
    RmSettings,
    SimJob,
    SimSettings,
    Workload,
    sim_spec,
)
from yarnam.sim.simulation import stream
from yarnam.sim.world import JobRecord, Trace

QUEUE = "root.all"


def run_on_yarn(
    trace: Iterable[TraceJob],
    rm: RmSettings,
    policy: str,
    settings: Settings,
    *,
    seed: int = 7,
    name: str = "",
    on_row: OnRow | None = None,
    run_times: RunTimes = RunTimes.DECLARED,
    start_cost_s: float = 0.0,
    on_step: Trace | None = None,
    on_time: OnTime | None = None,
) -> PolicyFigures:
    """All jobs in one queue, each with checkpoints, so that a policy may suspend it. ``trace`` is
    in the order of submission; in memory are the jobs that wait or run, as in the ideal model.
    ``on_row`` gets each job at its end. ``start_cost_s``: as ``Overhead.RESTART`` has it;
    ``on_step`` gets a line for each step of each gang."""
    chosen = SimSettings(
        Mode.TICKETS, seed, rm, limit_s=float("inf"), policy=policy, policy_settings=settings,
        start_cost_s=start_cost_s,
    )  # fmt: skip
    seen = _Gathered(rm.gpus, on_row, on_time)
    stopped_at_s = stream(
        seen.taken(trace, rm, run_times),
        chosen,
        on_record=seen.ended,
        on_gpus=seen.used,
        trace=on_step,
    )
    if stopped_at_s is not None:
        seen.used(stopped_at_s, 0)
    report = seen.figures.report(
        name or f"{policy} on YARN", seen.unfinished, 0, stopped_at_s if seen.unfinished else None
    )
    estimates = {figure: estimate([getattr(report, figure)]) for figure in FIGURES}
    return PolicyFigures(report.name, report, estimates, seen.figures)


class _Gathered:
    """The state of a run: the living jobs of the trace, and figures."""

    def __init__(self, gpus: int, on_row: OnRow | None, on_time: OnTime | None) -> None:
        self.figures = Figures(gpus)
        self._on_row = on_row
        self._on_time = on_time
        self._living: dict[int, TraceJob] = {}
        self._used = 0

    @property
    def unfinished(self) -> int:
        """Jobs that have been submitted and have not ended."""
        return len(self._living)

    def taken(
        self, trace: Iterable[TraceJob], rm: RmSettings, run_times: RunTimes
    ) -> Iterator[SimJob]:
        for job, made in _jobs(trace, rm, run_times):
            self._living[made.number] = job
            yield made

    def used(self, at_s: float, gpus: int) -> None:
        self._used += gpus
        self.figures.usage.now(at_s, self._used)
        if self._on_time is not None:
            self._on_time(at_s)

    def ended(self, record: JobRecord) -> None:
        stood_s, ended_s = record.stood_s, record.ended_s
        if stood_s is None or ended_s is None:
            return  # It has failed before its gang stood.
        job = self._living.pop(record.job.number)
        row = IdealRow(
            job.job, job.queue, job.gpus, record.job.submit_s, stood_s, ended_s,
            job.run_s, len(record.held), record.resizes,
        )  # fmt: skip
        self.figures.add(row)
        if self._on_row is not None:
            self._on_row(row)


def trace_workload(
    trace: Iterable[TraceJob], rm: RmSettings, run_times: RunTimes = RunTimes.DECLARED
) -> Workload:
    """The jobs as their ApplicationMasters know them."""
    return Workload(tuple(made for _, made in _jobs(trace, rm, run_times)))


def _jobs(
    trace: Iterable[TraceJob], rm: RmSettings, run_times: RunTimes
) -> Iterator[tuple[TraceJob, SimJob]]:
    """Each job, and what its ApplicationMaster knows; times since the first submission."""
    first_s: float | None = None
    for number, job in enumerate(trace):
        if first_s is None:
            first_s = job.submit_s
        yield job, _sim_job(number, job, job.submit_s - first_s, run_times, rm)


def _sim_job(
    number: int, job: TraceJob, submit_s: float, run_times: RunTimes, rm: RmSettings
) -> SimJob:
    run_s = max(1.0, job.run_s)
    stated_s = {RunTimes.TRUE: run_s, RunTimes.DECLARED: job.declared_s, RunTimes.UNKNOWN: None}[
        run_times
    ]
    spec = sim_spec(f"j{number:06d}", QUEUE, job.gpus, per_task=rm.gpus_per_node)
    spec = replace(spec, duration_s=stated_s, checkpoint=CheckpointSpec(f"hdfs:///sim/{number}"))
    if job.most_gpus <= job.least_gpus:
        return SimJob(number, submit_s, run_s, stated_s, spec)
    role = _elastic_role(job.least_gpus, job.most_gpus, rm)
    spec = replace(spec, roles=(role,), flexible_shape=False, elastic=ElasticSpec(counts_gpus=True))
    return SimJob(number, submit_s, run_s, stated_s, spec, job.gpus)


@lru_cache(maxsize=1024)
def _elastic_role(least: int, most: int, rm: RmSettings) -> RoleSpec:
    """The tasks as at the submission: of one size, chosen for the cluster."""
    step = gcd(least, most)
    spec = sim_spec("elastic", QUEUE, most, per_task=step)
    role = replace(spec.roles[0], min_tasks=least // step)
    idle = ClusterSnapshot(0.0, rm.all_nodes(), QueueView(QUEUE))
    return settled_shape(idle, replace(spec, roles=(role,))).roles[0]


def rm_of(nodes: int, gpus: int) -> RmSettings:
    return RmSettings(
        nodes=nodes, gpus_per_node=gpus, nodes_per_rack=16, queues=(QueueSettings(QUEUE),)
    )
