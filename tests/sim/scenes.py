"""Small worlds for the simulator's tests."""

from __future__ import annotations

from yarnam.core.model.job_spec import GangSpec
from yarnam.sim import Mode, Outcome, RmSettings, SimJob, SimSettings, Workload, simulate
from yarnam.sim.sim_settings import QueueSettings, sim_spec

ONE_QUEUE = (QueueSettings("root.a"),)


def cluster(nodes: int, gpus: int = 8, **more: object) -> RmSettings:
    settings: dict[str, object] = {
        "nodes": nodes, "gpus_per_node": gpus, "nodes_per_rack": max(1, nodes // 2),
        "queues": ONE_QUEUE,
    }  # fmt: skip
    return RmSettings(**{**settings, **more})  # type: ignore[arg-type]


def job(
    number: int,
    gpus: int,
    *,
    at_s: float = 0.0,
    runs_s: float = 60.0,
    per_task: int = 8,
    declared_s: float | None = None,
    queue: str = "root.a",
    gang: GangSpec | None = None,
) -> SimJob:
    spec = sim_spec(f"j{number}", queue, gpus, per_task=per_task, gang=gang)
    return SimJob(number, at_s, runs_s, declared_s, spec)


def play(
    mode: Mode, jobs: list[SimJob], rm: RmSettings, *, seed: int = 7, limit_s: float = 1e6
) -> Outcome:
    return simulate(Workload(tuple(jobs)), SimSettings(mode, seed=seed, rm=rm, limit_s=limit_s))


def stuck(outcome: Outcome) -> list[int]:
    return [r.job.number for r in outcome.records if r.ended_s is None]
