"""The same trace on the model of YARN, in the figures of the ideal one: what a real cluster
costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from yarnam.core.model.job_spec import CheckpointSpec
from yarnam.core.policies.policy_settings import Settings
from yarnam.sim.ideal.ideal_report import Figures, IdealRow
from yarnam.sim.ideal.ideal_settings import Knows
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
from yarnam.sim.simulation import simulate
from yarnam.sim.world import Trace

QUEUE = "root.all"


def run_on_yarn(
    trace: Sequence[TraceJob],
    rm: RmSettings,
    policy: str,
    settings: Settings,
    *,
    seed: int = 7,
    name: str = "",
    on_end: Callable[[], None] | None = None,
    knows: Knows = Knows.DECLARED,
    start_cost_s: float = 0.0,
    on_step: Trace | None = None,
) -> PolicyFigures:
    """All jobs in one queue, each with checkpoints, so that a policy may suspend it.
    ``start_cost_s``: as ``Overhead.RESTART`` has it; ``on_step`` gets a line for each step of each
    gang."""
    first_s = trace[0].submit_s if trace else 0.0
    jobs = tuple(
        _sim_job(number, job, job.submit_s - first_s, knows, rm) for number, job in enumerate(trace)
    )
    chosen = SimSettings(
        Mode.TICKETS, seed, rm, limit_s=float("inf"), policy=policy, policy_settings=settings,
        start_cost_s=start_cost_s,
    )  # fmt: skip
    outcome = simulate(Workload(jobs), chosen, on_step, on_end)
    figures, unfinished = Figures(rm.gpus), 0
    steps: list[tuple[float, int]] = []
    for job, record in zip(trace, outcome.records, strict=True):
        if record.ended_s is None or record.stood_s is None:
            unfinished += 1
            continue
        for from_s, until_s in record.held:
            steps += [(from_s, job.gpus), (until_s, -job.gpus)]
        figures.add(
            IdealRow(
                job.job, job.queue, job.gpus, record.job.submit_s, record.stood_s, record.ended_s,
                job.run_s, len(record.held),
            )
        )  # fmt: skip
    used = 0
    for at_s, change in sorted(steps):
        used += change
        figures.usage.now(at_s, used)
    report = figures.report(name or f"{policy} on YARN", unfinished, 0)
    estimates = {figure: estimate([getattr(report, figure)]) for figure in FIGURES}
    return PolicyFigures(report.name, report, estimates, figures)


def _sim_job(number: int, job: TraceJob, submit_s: float, knows: Knows, rm: RmSettings) -> SimJob:
    run_s = max(1.0, job.run_s)
    told_s = {Knows.TRUE: run_s, Knows.DECLARED: job.declared_s, Knows.NOTHING: None}[knows]
    spec = sim_spec(f"j{number:06d}", QUEUE, job.gpus, per_task=rm.gpus_per_node)
    spec = replace(spec, duration_s=told_s, checkpoint=CheckpointSpec(f"hdfs:///sim/{number}"))
    return SimJob(number, submit_s, run_s, told_s, spec)


def rm_of(nodes: int, gpus: int) -> RmSettings:
    return RmSettings(
        nodes=nodes, gpus_per_node=gpus, nodes_per_rack=16, queues=(QueueSettings(QUEUE),)
    )
