"""Elastic gangs on the model of YARN: they grow and shrink by the functions of the
ApplicationMaster, over the simulated Fair Scheduler."""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from dataclasses import replace

import pytest

from tests.sim.fresh_process import printed
from yarnam.am import queue_client_shell
from yarnam.am.probes import growth_probe
from yarnam.core.policies.policy_registry import DEFAULT, NAMES, policy_named
from yarnam.core.policies.policy_settings import read_settings
from yarnam.sim.gangs import queue_driver
from yarnam.sim.ideal.ideal_run import run
from yarnam.sim.ideal.ideal_settings import IdealSettings, Overhead, RunTimes
from yarnam.sim.ideal.trace_job import TraceJob
from yarnam.sim.ideal.yarn_trace_run import QUEUE, rm_of, run_on_yarn, trace_workload
from yarnam.sim.sim_settings import Mode, QueueSettings, RmSettings, SimSettings, relative_speed
from yarnam.sim.simulation import Outcome, simulate
from yarnam.sim.world import JobRecord, Trace

pytestmark = pytest.mark.sim

START_S = 30.0
"""Of each start of a gang before it trains, of a new size too."""

SLACK_S = 5.0
"""At each start and stop: launches, and the half second in which processes end."""


def elastic(
    job: str, submit_s: float, run_s: float, gpus: int, least: int = 1, most: int = 8
) -> TraceJob:
    return TraceJob(job, submit_s, run_s, gpus, run_s, least_gpus=least, most_gpus=most)


def on_yarn(
    policy: str,
    trace: list[TraceJob],
    rm: RmSettings,
    *,
    seed: int = 7,
    on_step: Trace | None = None,
) -> Outcome:
    chosen = read_settings(policy, policy_named(policy).settings, {})
    settings = SimSettings(
        Mode.TICKETS, seed, rm, limit_s=float("inf"), policy=policy, policy_settings=chosen,
        start_cost_s=START_S,
    )  # fmt: skip
    return simulate(trace_workload(trace, rm), settings, on_step)


def size_at(record: JobRecord, at_s: float) -> int:
    return sum(gpus for from_s, until_s, gpus in record.held if from_s <= at_s < until_s)


def work_s(job: TraceJob, record: JobRecord) -> float:
    """What was trained, in seconds on its own GPUs."""
    return sum(
        relative_speed(gpus, job.gpus) * max(0.0, until_s - from_s - START_S)
        for from_s, until_s, gpus in record.held
    )


# ---- by hand -------------------------------------------------------------------------------------


def test_optimus_moves_gpus_to_the_job_that_has_more_left() -> None:
    """Eight GPUs. The first job has all of them for 2,000 s, then gives one to the second, whose
    speed nobody knows yet. Ten minutes later, when a size may be left again, the first has about
    5,200 s of work left and the second 59,800 s. What is left takes g ** -0.9 times as long on g
    GPUs as on one: 1, 0.54, 0.37, 0.29, 0.24, 0.20. So the second's gains of further GPUs are as
    27.7, 9.8, 5.1, 3.1, 2.1 and 1.6, and the first's as 2.4 and 0.9: the largest six of these make
    two and six GPUs. When the first has ended the second has all eight."""
    trace = [elastic("first", 0.0, 1e4, 4), elastic("second", 2000.0, 6e4, 4)]
    outcome = on_yarn("optimus", trace, rm_of(1, 8))
    first, second = outcome.records
    assert size_at(first, 1900.0) == 8
    assert (size_at(first, 2300.0), size_at(second, 2300.0)) == (7, 1)
    assert (size_at(first, 3200.0), size_at(second, 3200.0)) == (2, 6)
    assert first.ended_s is not None
    assert second.ended_s is not None
    assert first.ended_s < second.ended_s
    assert second.held[-1][2] == 8
    assert first.resizes >= 2
    assert second.resizes >= 2
    assert first.attempts + second.attempts <= 9, "sizes do not flap"
    for job, record in zip(trace, outcome.records, strict=True):
        starts = len(record.held)
        assert work_s(job, record) == pytest.approx(job.run_s, abs=2 * SLACK_S * starts)


def test_gandiva_gives_idle_gpus_and_takes_them_back() -> None:
    """The first grows into all eight GPUs, goes down to its least for the second, and grows
    again."""
    trace = [elastic("first", 0.0, 1e4, 4, least=2), TraceJob("second", 1000.0, 1000.0, 6)]
    outcome = on_yarn("gandiva", trace, rm_of(1, 8))
    first, second = outcome.records
    assert size_at(first, 900.0) == 8
    assert (size_at(first, 1500.0), size_at(second, 1500.0)) == (2, 6)
    assert first.held[-1][2] == 8
    assert second.ended_s == pytest.approx(1000.0 + 1000.0 + 2 * START_S, abs=60.0)
    assert (first.resizes, second.resizes) == (2, 0)


def test_without_a_policy_a_gang_grows_by_its_own_rules() -> None:
    """It takes what fits after its patience of a minute, and grows when the other has ended and it
    has run for five minutes."""
    trace = [TraceJob("first", 0.0, 1000.0, 6), elastic("second", 10.0, 1e4, 4)]
    first, second = on_yarn(DEFAULT, trace, rm_of(1, 8)).records
    assert second.stood_s == pytest.approx(10.0 + 60.0, abs=10.0)
    assert size_at(second, 900.0) == 2
    assert first.ended_s is not None
    assert [gpus for _, _, gpus in second.held] == [2, 8]
    assert second.held[-1][0] == pytest.approx(first.ended_s + 60.0, abs=60.0)


def test_tasks_have_the_size_that_both_ends_of_the_range_allow() -> None:
    trace = [elastic("pairs", 0.0, 1000.0, 8, least=4, most=10)]
    outcome = on_yarn("optimus", trace, rm_of(2, 8))
    assert {container.resources.gpus for container in outcome.containers} == {2}
    assert outcome.records[0].held[0][2] == 10


# ---- whatever comes ------------------------------------------------------------------------------

MOST_OF_QUEUE = 20


def mixed(seed: int, jobs: int = 24) -> list[TraceJob]:
    """Two in three are elastic; they want about three times what there is."""
    dice = random.Random(seed)
    trace: list[TraceJob] = []
    for number in range(jobs):
        gpus, run_s = dice.choice([1, 2, 4, 8]), dice.uniform(200.0, 2500.0)
        at_s = number * dice.uniform(10.0, 60.0)
        if number % 3:
            most = min(16, gpus * dice.choice([2, 4]))
            trace.append(elastic(f"j{number}", at_s, run_s, gpus, max(1, gpus // 2), most))
        else:
            trace.append(TraceJob(f"j{number}", at_s, run_s, gpus, run_s))
    return sorted(trace, key=lambda job: job.submit_s)


@pytest.mark.parametrize("policy", NAMES)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_nothing_is_exceeded_and_nothing_is_lost(policy: str, seed: int) -> None:
    """The queue's maximum, the nodes, the least and the most of each gang; every job ends."""
    rm = replace(rm_of(3, 8), queues=(QueueSettings(QUEUE, max_gpus=MOST_OF_QUEUE),))
    trace = mixed(seed)
    outcome = on_yarn(policy, trace, rm, seed=seed)
    assert outcome.is_quiet
    held = Counter[str]()
    on_node: dict[int, int] = defaultdict(int)
    changes: list[tuple[float, int, int, int]] = []
    for container in outcome.containers:
        assert container.freed_s is not None, "a container was never given back"
        gpus = container.resources.gpus
        # At one instant what is freed comes first.
        changes.append((container.granted_s, 1, container.node, gpus))
        changes.append((container.freed_s, 0, container.node, -gpus))
    used = 0
    for _, _, node, gpus in sorted(changes):
        used += gpus
        on_node[node] += gpus
        assert used <= MOST_OF_QUEUE
        assert 0 <= on_node[node] <= rm.gpus_per_node
    assert used == 0
    for job, record in zip(trace, outcome.records, strict=True):
        assert not record.is_failed, record.reason
        assert record.ended_s is not None
        for _, _, gpus in record.held:
            assert (job.least_gpus or job.gpus) <= gpus <= (job.most_gpus or job.gpus)
        held["resizes"] += record.resizes
        assert not record.resizes or job.most_gpus
        # Preempted by nobody: no work is done twice, and none is left out.
        starts = len(record.held)
        assert work_s(job, record) == pytest.approx(job.run_s, abs=8 * SLACK_S * starts)
    if policy in {"optimus", "gandiva"}:
        assert held["resizes"] > 10


@pytest.mark.parametrize("policy", ["optimus", "gandiva"])
def test_yarn_beside_the_ideal_model(policy: str) -> None:
    """In the ideal model a new size is told at an arrival or an end alone, and every speed is
    known; in YARN gangs start at what fits, grow by looks, and learn their speeds."""
    trace = mixed(3, 40)
    chosen = read_settings(policy, policy_named(policy).settings, {})
    rm = rm_of(3, 8)
    real = run_on_yarn(trace, rm, policy, chosen, start_cost_s=START_S).report
    settings = IdealSettings(
        policy, rm.gpus, chosen, ((8, 0),) * 3, run_times=RunTimes.DECLARED,
        overhead=Overhead.RESTART, overhead_of=lambda _job: START_S,
    )  # fmt: skip
    ideal = run(trace, settings).report
    print(
        f"{policy}: JCT {real.jct_mean_s:.0f} s on YARN, {ideal.jct_mean_s:.0f} s ideal; sizes "
        f"changed {real.resizes} and {ideal.resizes} times"
    )
    assert real.unfinished == ideal.unfinished == 0
    assert real.resizes > 0
    assert ideal.resizes > 0
    assert real.jct_mean_s <= 1.15 * ideal.jct_mean_s


SEEN_BY_ALL = """
import sys
from tests.sim.test_yarn_sizes import traced
print(*traced(sys.argv[1]))
"""


@pytest.mark.long
@pytest.mark.parametrize("policy", ["optimus", "gandiva"])
def test_equal_seeds_give_equal_bytes(policy: str) -> None:
    first, again = (printed(SEEN_BY_ALL, policy, hash_seed=seed) for seed in "12")
    assert first == again
    assert int(first.split()[1]) > 10


def traced(policy: str) -> tuple[str, int]:
    """A hash of all steps of all gangs, and how many of these were for another size."""
    lines: list[str] = []
    on_yarn(policy, mixed(1), rm_of(3, 8), on_step=lines.append)
    wanted = sum("ScaleRequested" in line for line in lines)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest(), wanted


def test_sizes_come_from_the_functions_of_the_application_master() -> None:
    assert queue_driver.step is queue_client_shell.step
    assert queue_driver.cluster_probe is growth_probe.cluster_probe
    assert queue_driver.spare_for_growth is growth_probe.spare_for_growth
    assert queue_driver.waiting_jobs is queue_client_shell.waiting_jobs
