"""Jobs of the past as a workload: what they asked for and how long they ran, not when they
started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from yarnam.core.model.job_spec import AmSpec, EnvironmentSpec, JobSpec, RoleSpec
from yarnam.core.model.resources import Resources, am_memory_mib
from yarnam.sim.sim_settings import RmSettings, SimJob, Workload
from yarnam.sim.yarn_model.sim_nodes import SimNodes


@dataclass(frozen=True, slots=True)
class PastRole:
    """``resources`` is for one task."""

    name: str
    tasks: int
    resources: Resources


@dataclass(frozen=True, slots=True)
class PastJob:
    """One job that has run. Times in seconds, by one clock."""

    queue: str
    submitted_at_s: float
    run_s: float
    """The time from the start of all processes to the end, without repeated work."""
    roles: tuple[PastRole, ...]
    declared_s: float | None = None
    is_flexible: bool = False
    """Only the GPUs of all tasks together are known: the planner chooses the shape."""


@dataclass(frozen=True, slots=True)
class Replay:
    """``workload`` begins at 0 with the first job. Not in it are jobs of queues that take none
    (``refused``, how many by queue) and jobs with a task that no node can hold (``too_large``)."""

    workload: Workload
    refused: Mapping[str, int]
    too_large: Mapping[str, int]


def replay(past: Sequence[PastJob], rm: RmSettings) -> Replay:
    """The jobs that these queues and nodes take, by the time of submission."""
    leaves = {queue.name for queue in rm.root.leaves()} if rm.root is not None else set[str]()
    totals = set(SimNodes(rm.all_nodes()).totals)
    refused: Counter[str] = Counter()
    too_large: Counter[str] = Counter()
    taken: list[PastJob] = []
    for job in sorted(past, key=lambda one: one.submitted_at_s):
        if job.queue not in leaves:
            refused[job.queue] += 1
        elif not all(_fits(role.resources, totals) for role in job.roles):
            too_large[job.queue] += 1
        else:
            taken.append(job)
    first_s = taken[0].submitted_at_s if taken else 0.0
    jobs = tuple(
        SimJob(
            number,
            job.submitted_at_s - first_s,
            max(1.0, job.run_s),
            job.declared_s,
            _spec(f"j{number}", job),
        )
        for number, job in enumerate(taken)
    )
    return Replay(Workload(jobs), refused, too_large)


def _fits(resources: Resources, totals: set[Resources]) -> bool:
    return any(resources.fits_in(total) for total in totals)


def _spec(name: str, job: PastJob) -> JobSpec:
    return replace(_spec_of(job.queue, job.roles, is_flexible=job.is_flexible), name=name)


@lru_cache(maxsize=1024)
def _spec_of(queue: str, roles: tuple[PastRole, ...], *, is_flexible: bool) -> JobSpec:
    """Jobs of the past are mostly alike: they share what they have in common."""
    return JobSpec(
        name="",
        queue=queue,
        user="sim",
        framework="command",
        roles=tuple(
            RoleSpec(role.name, role.tasks, role.resources, ("train",), max(1, role.resources.gpus))
            for role in roles
        ),
        environment=EnvironmentSpec(),
        am=AmSpec(Resources(am_memory_mib(sum(role.tasks for role in roles), has_inputs=False), 1)),
        flexible_shape=is_flexible,
    )
