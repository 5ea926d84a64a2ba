"""What scheduling policies cost: YARN's price under one that suspends, and a decision's.

``make bench ARGS=tests/benchmarks/test_policy_cost.py``; seconds are of this process's CPU.
"""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import pytest

from yarnam.core.admission import QueueSnapshot
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.plans import NoFit, Reason
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, Node, NodeState, QueueView
from yarnam.core.model.tickets import Demand, PolicyTicket, RunningGang, Ticket
from yarnam.core.policies.chosen_policy import ActivePolicy
from yarnam.core.policies.policy_registry import DEFAULT, NAMES, policy_named
from yarnam.core.policies.policy_settings import read_settings
from yarnam.core.policies.queue_schedule import as_running, decide_by_schedule, queue_schedule
from yarnam.core.queue_client.ticket_list import NOBODY
from yarnam.sim.ideal.ideal_run import run
from yarnam.sim.ideal.ideal_settings import IdealSettings, Overhead, RunTimes
from yarnam.sim.ideal.trace_job import TraceJob
from yarnam.sim.ideal.yarn_trace_run import QUEUE, rm_of, run_on_yarn
from yarnam.sim.sim_settings import RmSettings
from yarnam.sim.workload import WorkloadSettings, workload

pytestmark = [pytest.mark.benchmark, pytest.mark.sim, pytest.mark.timeout(3600)]

MODEL_LIMIT_S = 600.0

LIMIT_S = 0.020
"""Of one look of an ApplicationMaster, at ``TICKETS``."""

TICKETS, NODES, NOW_S = 1000, 250, 100_000.0

GPU = Resources(8192, 4, 1)

START_S = 30.0
"""Of each start before a gang trains, in both models."""


def philly_like(jobs: int, load: float, rm: RmSettings) -> list[TraceJob]:
    given = workload(WorkloadSettings(jobs=jobs, load=load, busy=0.0, declared=1.0), rm)
    return [
        TraceJob(job.spec.name, job.submit_s, job.duration_s, job.gpus, declared_s=job.declared_s)
        for job in given.jobs
    ]


@pytest.mark.parametrize("limits", ["3250,7200", "28800,288000"])
def test_yarn_beside_the_ideal_model_under_tiresias(limits: str) -> None:
    rm = rm_of(16, 8)
    trace = philly_like(1000, 2.0, rm)
    chosen = read_settings("tiresias", policy_named("tiresias").settings, {"limits": limits})
    began_s = time.process_time()
    real = run_on_yarn(trace, rm, "tiresias", chosen, start_cost_s=START_S).report
    took_s = time.process_time() - began_s
    settings = IdealSettings(
        "tiresias", rm.gpus, chosen, ((8, 0),) * 16, run_times=RunTimes.DECLARED,
        overhead=Overhead.RESTART, overhead_of=lambda _job: START_S,
    )  # fmt: skip
    ideal = run(trace, settings).report
    ratio = real.jct_mean_s / ideal.jct_mean_s
    print(f"\ntiresias {limits}, load 2: mean JCT {real.jct_mean_s:.0f} s on YARN, "
          f"{ideal.jct_mean_s:.0f} s ideal: {ratio:.3f}; suspensions {real.suspensions} and "
          f"{ideal.suspensions}; {took_s:.0f} s of CPU")  # fmt: skip
    assert real.unfinished == 0
    assert real.suspensions > 100
    assert ratio <= 1.15


def test_ten_thousand_jobs_on_the_model_of_yarn() -> None:
    """On 2,000 GPUs, nearly as much as they can serve."""
    rm = rm_of(250, 8)
    trace = philly_like(10_000, 0.95, rm)
    began_s = time.process_time()
    found = run_on_yarn(trace, rm, DEFAULT, {}).report
    took_s = time.process_time() - began_s
    print(f"\n10,000 jobs in yarn, {DEFAULT}: {took_s:.0f} s of CPU, "
          f"{took_s / MODEL_LIMIT_S:.2f} of the limit")  # fmt: skip
    assert found.unfinished == 0
    assert took_s <= MODEL_LIMIT_S


def test_memory_of_the_ideal_model_is_that_of_living_jobs() -> None:
    """Four times the trace at the same load; of a job that has ended three figures stay."""
    peaks = [_peak_bytes(jobs) for jobs in (5_000, 20_000)]
    print(f"\n5,000 and 20,000 jobs in ideal: {peaks[0] / 1e6:.1f} MB and {peaks[1] / 1e6:.1f} MB, "
          f"{(peaks[1] - peaks[0]) / 15_000:.0f} bytes for each job more")  # fmt: skip
    assert (peaks[1] - peaks[0]) / 15_000 < 100


def _peak_bytes(jobs: int) -> int:
    trace = (
        TraceJob(f"j{n}", n * 25.0, 600.0 + n * 7919 % 6000, 1 << n * 31 % 4) for n in range(jobs)
    )
    chosen = read_settings("fifo", policy_named("fifo").settings, {})
    tracemalloc.start()
    try:
        assert run(trace, IdealSettings("fifo", 800, chosen)).report.unfinished == 0
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# ---- one decision --------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [0, 3], ids=["one priority", "four priorities"])
@pytest.mark.parametrize("name", [name for name in NAMES if name != DEFAULT])
def test_a_decision_at_a_thousand_tickets(name: str, most: int) -> None:
    """The look of a job that runs or is suspended, and that of one that waits for its turn.
    ``most``: priorities are 0 to this."""
    policy = policy_named(name)
    active = ActivePolicy(policy, read_settings(name, policy.settings, {}), 3)
    seen = a_thousand_tickets(most)
    runs, waits = seen.running[-1].job, seen.tickets[-1]

    def as_one_that_runs() -> None:
        queue_schedule(QUEUE, seen, active, {}).row(runs)

    def as_one_that_waits() -> None:
        found, world = NOBODY.schedule(waits, seen, active)
        decide_by_schedule(found, waits, world, never_asked, may_fit=False, may_claim=False)

    took_s = [_least_s(look) for look in (as_one_that_runs, as_one_that_waits)]
    print(f"\n{name}, {TICKETS} tickets, priorities to {most}: "
          f"{took_s[0] * 1e3:.1f} ms while it runs, "
          f"{took_s[1] * 1e3:.1f} ms while it waits: {max(took_s) / LIMIT_S:.2f}")  # fmt: skip
    assert max(took_s) <= LIMIT_S


def never_asked(avoid: tuple[NodeId, ...] = (), *, blind: bool = False) -> NoFit:
    """The planner: its cost is not the policy's."""
    del avoid, blind
    return NoFit(Reason.TOO_FEW_FREE_GPUS, is_never=False, message="")


def _least_s(look: Callable[[], None]) -> float:
    """The least of many: seconds of CPU, and others run beside."""
    taken_s: list[float] = []
    for _ in range(60):
        began_s = time.process_time()
        look()
        taken_s.append(time.process_time() - began_s)
    return min(taken_s)


def a_thousand_tickets(most: int) -> QueueSnapshot:
    """400 gangs that fill 2,000 GPUs, and 600 that wait; each tenth is elastic, most have run."""
    dice, of_priorities = random.Random(7), random.Random(8)
    free, running, waiting = [8] * NODES, list[RunningGang](), list[Ticket]()
    for number in range(TICKETS):
        gpus = dice.choices([1, 2, 4, 8, 16, 32], [50, 10, 13, 15, 6, 3])[0]
        each = min(8, gpus)
        priority = of_priorities.randint(0, most)
        told = replace(_told(dice, f"application_1_{number:04d}", gpus), priority=priority)
        on = [node for node in range(NODES) if free[node] >= each][: gpus // each]
        if len(running) < 400 and len(on) * each == gpus:
            for node in on:
                free[node] -= each
            gang = RunningGang(
                told.job, QUEUE, gpus, None, tuple((_node(node), each) for node in on),
                told.since_s,
            )  # fmt: skip
            running.append(replace(gang, policy=as_running(told, gang)))
        else:
            demand = Demand(GPU.times(each), gpus // each)
            ticket = Ticket(number, told.job, told.job, QUEUE, (demand,), told.submitted_at_s)
            waiting.append(replace(ticket, policy=told, priority=priority))
    nodes = tuple(
        Node(
            _node(number), RackId(f"/r{number // 25}"), NodeState.RUNNING, GPU.times(8),
            GPU.times(8 - left),
        )
        for number, left in enumerate(free)
    )  # fmt: skip
    queue = QueueView(QUEUE, used=GPU.times(8 * NODES - sum(free)))
    return QueueSnapshot(ClusterSnapshot(NOW_S, nodes, queue), waiting, running, NOW_S)


def _node(number: int) -> NodeId:
    return NodeId(f"n{number:03d}")


def _told(dice: random.Random, job: str, gpus: int) -> PolicyTicket:
    is_elastic = gpus >= 4 and dice.random() < 0.3
    return PolicyTicket(
        job, 0, NOW_S - dice.uniform(2e4, 5e4), gpus, QUEUE,
        since_s=NOW_S - dice.uniform(0, 2e4),
        service_gpu_s=round(dice.uniform(0, 3e5), 1) if dice.random() < 0.7 else 0.0,
        counted_gpu_s=round(dice.uniform(0, 1e5), 1),
        remaining_s=dice.uniform(60, 1e5) if dice.random() < 0.6 else None,
        can_suspend=True,
        pause_cost_s=12.5,
        least_gpus=gpus // 2 if is_elastic else 0,
        most_gpus=gpus * 2 if is_elastic else 0,
        rates=((gpus // 2, 1.0), (gpus, 1.8), (gpus * 2, 3.1)) if is_elastic else (),
        remaining_steps=1e5 if is_elastic else None,
        settings_version=3,
    )  # fmt: skip
