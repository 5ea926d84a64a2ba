"""A seeded workload of Philly-like sizes and durations.

The shape follows what the Philly paper (Jeon et al., ATC 2019) says of the jobs on a Microsoft
cluster of about 2,500 GPUs: most jobs want one to eight GPUs, a few want dozens and more; run times
are heavy-tailed, from minutes to weeks, and larger jobs run longer. The numbers below are ours: a
table of sizes and a log-normal run time per size. They are not the trace.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

from yarnam.core.model.outcomes import ContainerEnd
from yarnam.sim.sim_settings import Fault, InitialGang, RmSettings, SimJob, Workload, sim_spec

SIZES = (
    (1, 0.52),
    (2, 0.10),
    (4, 0.13),
    (8, 0.15),
    (16, 0.055),
    (32, 0.028),
    (64, 0.014),
    (128, 0.003),
)
"""GPUs of a job and the share of jobs that want this many. Mean 5.7."""

MEDIAN_S = 900.0
SIGMA = 1.9
"""Run time of a one-GPU job: log-normal, median 15 min; the mean is exp(SIGMA^2 / 2) = 6.1 times
the median, 91 min."""

GROWTH = 0.15
"""The median grows with GPUs ** GROWTH: 1.4 times at 8, 1.9 times at 64 GPUs."""

LEAST_S, MOST_S = 60.0, 2 * 86400.0
"""Run times are cut off here: at two days, so that a run of 1,000 jobs is not one job's tail."""


@dataclass(frozen=True, slots=True)
class WorkloadSettings:
    """``load``: GPU-seconds that arrive, as a share of those that the cluster has meanwhile."""

    jobs: int = 1000
    seed: int = 7
    load: float = 0.95
    busy: float = 0.9
    """Share of the GPUs that are taken when the first job arrives, by gangs as a cluster in its
    steady state has them; with an empty cluster most of the jobs would meet no contention."""
    declared: float = 0.5
    """Share of jobs that declare a duration."""
    overstated: float = 3.0
    """A declared duration is 1 to this many times the true one, drawn uniformly."""


@dataclass(frozen=True, slots=True)
class _Draw:
    gpus: int
    duration_s: float
    declared_s: float | None
    queue: str


def workload(settings: WorkloadSettings, rm: RmSettings) -> Workload:
    """Jobs by time of arrival: a Poisson process whose rate gives the load. Queues are drawn by
    weight. The same settings give the same jobs."""
    dice = random.Random(settings.seed)  # noqa: S311 - reproducible, not secret
    drawn = [_draw(dice, settings, rm) for _ in range(settings.jobs)]
    wanted = sum(job.gpus * job.duration_s for job in drawn)
    gap_s = wanted / (rm.gpus * settings.load) / max(1, settings.jobs)
    jobs: list[SimJob] = []
    at_s = 0.0
    for number, job in enumerate(drawn):
        at_s += dice.expovariate(1.0 / gap_s)
        spec = sim_spec(f"j{number:04d}", job.queue, job.gpus, per_task=rm.gpus_per_node)
        jobs.append(SimJob(number, at_s, job.duration_s, job.declared_s, spec))
    return Workload(tuple(jobs), _initial_gangs(dice, settings, rm))


def perturbed(given: Workload, seed: int) -> Workload:
    """The same workload with every run time one to four seconds longer, drawn uniformly: what the
    start of processes takes alone. Under contention a schedule is chaotic, so the same scheduler
    on this workload shows how much of a job's wait is chance."""
    dice = random.Random(seed)  # noqa: S311 - reproducible, not secret
    jobs = (replace(job, duration_s=job.duration_s + dice.uniform(1.0, 4.0)) for job in given.jobs)
    return replace(given, jobs=tuple(jobs))


def faults(
    span_s: float, rm: RmSettings, seed: int, *, lost: int = 0, preempted: int = 0
) -> tuple[Fault, ...]:
    """So many nodes lost (for ten minutes each) and this many preempted, each at a uniform moment
    of the span on a node drawn at random; by time."""
    dice = random.Random(seed)  # noqa: S311 - reproducible, not secret
    ends = [ContainerEnd.LOST] * lost + [ContainerEnd.PREEMPTED] * preempted
    drawn = [Fault(dice.uniform(0.0, span_s), dice.randrange(rm.nodes), end) for end in ends]
    return tuple(sorted(drawn, key=lambda fault: fault.at_s))


def _draw(dice: random.Random, settings: WorkloadSettings, rm: RmSettings) -> _Draw:
    """One job; no larger than a quarter of the cluster or half of its queue's maximum."""
    while True:
        queue = dice.choices(rm.queues, [queue.weight for queue in rm.queues])[0]
        gpus = dice.choices([size for size, _ in SIZES], [share for _, share in SIZES])[0]
        mu = math.log(MEDIAN_S * gpus**GROWTH)
        duration_s = min(MOST_S, max(LEAST_S, dice.lognormvariate(mu, SIGMA)))
        stated = dice.uniform(1.0, settings.overstated)
        is_declared = dice.random() < settings.declared
        limit = max(1, min(rm.gpus // 4, (queue.max_gpus or rm.gpus) // 2))
        if gpus <= limit:
            return _Draw(gpus, duration_s, duration_s * stated if is_declared else None, queue.name)


def _initial_gangs(
    dice: random.Random, settings: WorkloadSettings, rm: RmSettings
) -> tuple[InitialGang, ...]:
    """The gangs that run at the start. A job is met running in proportion to its duration, at a
    uniform point of it. The cluster is filled up, then gangs are taken away at random until the
    share is right: so free GPUs are scattered as they are in life."""
    pool = [_draw(dice, settings, rm) for _ in range(20 * rm.nodes)]
    met = iter(dice.choices(pool, [job.duration_s for job in pool], k=len(pool)))
    free = [rm.gpus_per_node] * rm.nodes
    used = {queue.name: 0 for queue in rm.queues}
    limits = {queue.name: queue.max_gpus or rm.gpus for queue in rm.queues}
    gangs: list[InitialGang] = []
    for job in met:
        size = min(job.gpus, rm.gpus_per_node)
        order = sorted((room, node) for node, room in enumerate(free) if room >= size)
        pieces = [(node, 1) for _, node in order[: job.gpus // size]]
        if len(pieces) * size < job.gpus or used[job.queue] + job.gpus > limits[job.queue]:
            continue
        for node, _ in pieces:
            free[node] -= size
        used[job.queue] += job.gpus
        left_s = job.duration_s * dice.random()
        told_s = None
        if job.declared_s is not None:
            told_s = job.declared_s - job.duration_s + left_s
        name = f"initial{len(gangs)}"
        began_s = left_s - job.duration_s
        gangs.append(InitialGang(name, job.queue, size, tuple(pieces), began_s, left_s, told_s))
        if not any(free):
            break
    dice.shuffle(gangs)
    taken = rm.gpus - sum(free)
    while gangs and taken > settings.busy * rm.gpus:
        taken -= gangs.pop().gpus
    return tuple(gangs)
