"""What `yarnam queues what-if` costs: 10,000 jobs with more GPU time than the cluster has.

The jobs are those of ``sim.workload``, as a trace tells them. They arrive faster than 2,000 GPUs
can serve them, so hundreds wait at once: each poll of each of them is a decision over all others.
The command simulates the jobs twice, at the same time: wall seconds, on two cores that are quiet.

    python -m tests.benchmarks.test_what_if 1000 2000 4000

prints the same for other numbers of jobs.
"""

from __future__ import annotations

import os
import sys
import time

import pytest

from yarnam.adapters.yarn.allocation_xml import parse_xml
from yarnam.client.queues.what_if import what_if
from yarnam.core.queues.allocation_reading import read_allocations
from yarnam.core.queues.allocations import Allocations
from yarnam.sim import RmSettings
from yarnam.sim.what_if.replay import PastJob, PastRole
from yarnam.sim.workload import WorkloadSettings, workload

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

JOBS, LOAD, NODES = 10_000, 1.2, 250
LIMIT_S = 600.0

QUEUE = """<queue name="{name}"><weight>{weight}</weight>
<fairSharePreemptionTimeout>60</fairSharePreemptionTimeout></queue>"""
SITE = {"yarn.scheduler.fair.preemption": "true"}


def allocations(**weights: float) -> Allocations:
    queues = "".join(QUEUE.format(name=name, weight=weight) for name, weight in weights.items())
    text = (
        "<allocations><defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>"
        f"<queueMaxAMShareDefault>-1.0</queueMaxAMShareDefault>{queues}</allocations>"
    )
    found, refusals = read_allocations(parse_xml(text.encode()))
    assert not refusals
    return found


def past(jobs: int, load: float, nodes: int = NODES) -> list[PastJob]:
    given = workload(WorkloadSettings(jobs=jobs, load=load, busy=0.0), RmSettings(nodes))
    return [
        PastJob(
            job.queue,
            job.submit_s,
            job.duration_s,
            tuple(PastRole(role.name, role.tasks, role.resources) for role in job.spec.roles),
            job.declared_s,
            is_flexible=True,
        )
        for job in given.jobs
    ]


def taken(jobs: int) -> float:
    """Wall seconds."""
    now = allocations(research=4, products=3, speech=2, interns=1)
    other = allocations(research=2, products=3, speech=2, interns=1)
    nodes, given = RmSettings(NODES).all_nodes(), past(jobs, LOAD)
    began, cpu_began_s = time.monotonic(), _cpu_s()
    found = what_if(given, nodes, now, other, SITE)
    taken_s = time.monotonic() - began
    every = found.before[-1]
    print(f"\nqueues what-if, {jobs} jobs on {found.gpus} GPUs "
          f"(mean wait {every.wait_mean_s:.0f} s, {every.preemptions} preempted): "
          f"{taken_s:.0f} s, {_cpu_s() - cpu_began_s:.0f} s CPU, "
          f"{taken_s / LIMIT_S:.2f} of the limit for {JOBS}", flush=True)  # fmt: skip
    return taken_s


def _cpu_s() -> float:
    """Of this process and of those that it has waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def test_what_if() -> None:
    assert taken(JOBS) <= LIMIT_S


if __name__ == "__main__":
    for jobs in map(int, sys.argv[1:]):
        taken(jobs)
