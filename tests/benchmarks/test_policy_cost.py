"""What scheduling policies cost: YARN's price under one that suspends.

``make bench ARGS=tests/benchmarks/test_policy_cost.py``; seconds are of this process's CPU.
"""

from __future__ import annotations

import time

import pytest

from yarnam.core.policies.policy_registry import policy_named
from yarnam.core.policies.policy_settings import read_settings
from yarnam.sim.ideal.ideal_run import run
from yarnam.sim.ideal.ideal_settings import IdealSettings, Knows, Overhead
from yarnam.sim.ideal.trace_job import TraceJob
from yarnam.sim.ideal.yarn_trace_run import rm_of, run_on_yarn
from yarnam.sim.sim_settings import RmSettings
from yarnam.sim.workload import WorkloadSettings, workload

pytestmark = [pytest.mark.benchmark, pytest.mark.sim, pytest.mark.timeout(3600)]

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
        "tiresias", rm.gpus, chosen, ((8, 0),) * 16, knows=Knows.DECLARED,
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
