"""The model of the Fair Scheduler's queues in the simulator: trees, limits, starvation,
preemption."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.sim import scenes
from tests.sim.scenes import cluster, job
from yarnam.adapters.yarn.allocation_xml import parse_xml
from yarnam.core.model.job_spec import GangSpec
from yarnam.core.queues.allocation_reading import read_allocations
from yarnam.core.queues.allocations import QueueConfig
from yarnam.sim import Mode, Outcome, SimJob, SimSettings, Workload, simulate
from yarnam.sim.sim_settings import PreemptionSettings

pytestmark = pytest.mark.sim

EAGER = PreemptionSettings(threshold=0.0)
PATIENT = GangSpec(hold_timeout_s=300.0)


def tree(text: str) -> QueueConfig:
    whole = (
        "<allocations><defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>"
        f"<queueMaxAMShareDefault>-1.0</queueMaxAMShareDefault>{text}</allocations>"
    )
    allocations, refusals = read_allocations(parse_xml(whole.encode()))
    assert not refusals
    return allocations.root


def play(
    root: QueueConfig,
    jobs: list[SimJob],
    *,
    nodes: int = 4,
    mode: Mode = Mode.TICKETS,
    preemption: PreemptionSettings | None = None,
    limit_s: float = 100_000.0,
) -> Outcome:
    rm = cluster(nodes, root=root, preemption=preemption, queues=())
    return simulate(Workload(tuple(jobs)), SimSettings(mode, rm=rm, limit_s=limit_s))


def stood(outcome: Outcome, number: int) -> float:
    at_s = outcome.records[number].stood_s
    assert at_s is not None, f"job {number} never started"
    return at_s


TWO = """
<queue name="a"><queue name="x"><weight>3</weight></queue><queue name="y"/></queue>
<queue name="b"><minResources>memory-mb=0,vcores=0,yarn.io/gpu=16</minResources>
  <minSharePreemptionTimeout>30</minSharePreemptionTimeout></queue>
"""


def test_a_queue_below_its_minimum_gets_it_by_preemption_and_the_victim_resumes() -> None:
    jobs = [
        job(0, 32, runs_s=3000.0, queue="root.a.x"),
        job(1, 16, at_s=900.0, runs_s=100.0, queue="root.b", gang=PATIENT),
    ]
    outcome = play(tree(TWO), jobs, preemption=EAGER)
    assert 945.0 <= stood(outcome, 1) <= 1000.0, "30 s of starvation, 15 s until the kill"
    assert {one.job for one in outcome.preempted} == {0}
    assert {(one.queue, one.taker) for one in outcome.preempted} == {("root.a.x", "root.b")}
    victim = outcome.records[0]
    assert victim.preemptions == 1
    assert victim.ended_s is not None
    # What it had trained until its last checkpoint at 600 s stays.
    assert 3400.0 < victim.ended_s < 3700.0


def test_a_claim_takes_as_few_gangs_as_it_needs() -> None:
    """Four containers asked for at once are taken from four gangs, of which each then gives back
    all four of its GPUs."""
    root = tree(
        """<queue name="a"/><queue name="b">
        <minResources>memory-mb=0,vcores=0,yarn.io/gpu=4</minResources>
        <minSharePreemptionTimeout>5</minSharePreemptionTimeout></queue>"""
    )
    jobs = [
        *(job(n, 4, runs_s=3000.0, per_task=2, queue="root.a") for n in range(8)),
        job(8, 4, at_s=900.0, runs_s=100.0, per_task=1, queue="root.b", gang=PATIENT),
    ]
    fixed = [replace(one, spec=replace(one.spec, flexible_shape=False)) for one in jobs]
    outcome = play(root, fixed, preemption=EAGER)
    assert len(outcome.preempted) == 1
    assert sum(record.preemptions for record in outcome.records) == 1
    assert stood(outcome, 8) < 935.0


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_two_queues_do_not_take_the_same_gpus_back_and_forth(seed: int) -> None:
    """Both have a minimum of half of the cluster, and more gangs than fit into it. YARN looks for
    victims in the queue that it takes for too: gangs of 8 GPUs have more than their share in it."""
    root = tree(
        "".join(
            f"""<queue name="{name}">
            <minResources>memory-mb=0,vcores=0,yarn.io/gpu=16</minResources>
            <minSharePreemptionTimeout>5</minSharePreemptionTimeout>
            <fairSharePreemptionTimeout>10</fairSharePreemptionTimeout></queue>"""
            for name in "ab"
        )
    )
    dice = random.Random(seed)
    jobs = [
        job(
            number, dice.choice([2, 4, 8]), per_task=dice.choice([1, 2]), runs_s=5000.0,
            at_s=dice.uniform(0.0, 60.0) + (0.0 if number < 12 else 900.0),
            queue="root.a" if number < 12 else "root.b", gang=PATIENT,
        )
        for number in range(20)
    ]  # fmt: skip
    fixed = [replace(one, spec=replace(one.spec, flexible_shape=False)) for one in jobs]
    outcome = play(root, fixed, preemption=EAGER, limit_s=4500.0)
    assert {one.taker for one in outcome.preempted} >= {"root.b"}
    takes = {(one.job, one.at_s) for one in outcome.preempted}
    assert len(takes) <= len(jobs), "in the hour after the second queue has come"
    assert max(record.preemptions for record in outcome.records) <= 3


def test_nothing_is_taken_while_preemption_is_off_or_the_cluster_seems_idle() -> None:
    jobs = [
        job(0, 32, runs_s=3000.0, queue="root.a.x"),
        job(1, 16, at_s=900.0, runs_s=100.0, queue="root.b", gang=PATIENT),
    ]
    for preemption in (None, PreemptionSettings()):
        outcome = play(tree(TWO), jobs, preemption=preemption)
        assert outcome.preempted == ()
        assert stood(outcome, 1) > 3000.0


def test_a_queue_below_its_fair_share_gets_what_its_threshold_defends() -> None:
    root = tree(
        """<queue name="a"/><queue name="b">
        <fairSharePreemptionTimeout>60</fairSharePreemptionTimeout></queue>"""
    )
    large, small = 16, 8
    for gpus, is_taken in ((small, True), (large, False)):
        jobs = [
            job(0, 32, runs_s=3000.0, queue="root.a"),
            job(1, gpus, at_s=100.0, runs_s=100.0, queue="root.b", gang=PATIENT),
        ]
        outcome = play(root, jobs, preemption=EAGER)
        # Half of its fair share of 16 GPUs: a gang of 8 is entitled to them, one of 16 is not.
        assert bool(outcome.preempted) is is_taken
        assert (stood(outcome, 1) < 300.0) is is_taken


def test_a_queue_that_is_not_preemptable_keeps_everything() -> None:
    root = tree(
        TWO.replace('<queue name="x">', '<queue name="x"><allowPreemptionFrom>false'
                    "</allowPreemptionFrom>")
    )  # fmt: skip
    jobs = [
        job(0, 32, runs_s=3000.0, queue="root.a.x"),
        job(1, 16, at_s=900.0, runs_s=100.0, queue="root.b", gang=PATIENT),
    ]
    assert play(root, jobs, preemption=EAGER).preempted == ()


def test_nobody_is_brought_below_its_own_fair_share() -> None:
    """So containers as large as nodes stay where each job has one of them."""
    root = tree(
        """<queue name="a"><minResources>memory-mb=0,vcores=0,yarn.io/gpu=24</minResources></queue>
        <queue name="b"><minResources>memory-mb=0,vcores=0,yarn.io/gpu=16</minResources>
        <minSharePreemptionTimeout>30</minSharePreemptionTimeout></queue>"""
    )
    jobs = [
        *(job(n, 8, runs_s=3000.0, queue="root.a") for n in range(4)),
        job(4, 16, at_s=100.0, runs_s=100.0, queue="root.b", gang=PATIENT),
    ]
    outcome = play(root, jobs, preemption=EAGER, mode=Mode.HOLD)
    # The share of each job of the first queue is 6 GPUs.
    assert outcome.preempted == ()


def test_a_maximum_above_holds_for_all_queues_below() -> None:
    root = tree(
        """<queue name="a"><maxResources>memory-mb=9000000,vcores=9000,yarn.io/gpu=16</maxResources>
        <queue name="x"/><queue name="y"/></queue><queue name="b"/>"""
    )
    jobs = [
        job(0, 16, runs_s=600.0, queue="root.a.x"),
        job(1, 8, at_s=10.0, queue="root.a.y"),
        job(2, 16, at_s=20.0, queue="root.b"),
    ]
    outcome = play(root, jobs)
    assert stood(outcome, 1) > 600.0
    assert stood(outcome, 2) < 60.0


@pytest.mark.parametrize("mode", [Mode.TICKETS, Mode.JITTER, Mode.HOLD])
def test_an_am_share_lets_only_so_many_jobs_start(mode: Mode) -> None:
    """A quarter of the queue's 2 GiB is room for one ApplicationMaster."""
    root = tree(
        """<queue name="a"><maxResources>memory-mb=2048,vcores=99,yarn.io/gpu=99</maxResources>
        <maxAMShare>0.25</maxAMShare></queue>"""
    )
    tiny = [job(n, 1, runs_s=300.0) for n in range(3)]
    jobs = [
        replace(one, spec=replace(one.spec, roles=(replace(
            one.spec.roles[0], resources=replace(one.spec.roles[0].resources, memory_mib=1)),)))
        for one in tiny
    ]  # fmt: skip
    outcome = play(root, jobs, mode=mode)
    starts = [stood(outcome, n) for n in range(3)]
    assert starts[0] < 60.0
    assert 300.0 < starts[1] < 400.0
    assert 600.0 < starts[2] < 700.0


def test_so_many_jobs_run_as_a_queue_and_those_above_allow() -> None:
    root = tree(
        """<queue name="a"><maxRunningApps>2</maxRunningApps>
        <queue name="x"/><queue name="y"/></queue>"""
    )
    jobs = [job(n, 1, runs_s=300.0, queue=f"root.a.{'xxy'[n]}") for n in range(3)]
    outcome = play(root, jobs)
    assert max(stood(outcome, 0), stood(outcome, 1)) < 60.0
    assert stood(outcome, 2) > 300.0


def test_queues_are_served_by_their_weights_at_each_level() -> None:
    """Who asks and holds, one GPU at a time: x has three times what y has, a as much as b."""
    root = tree(TWO.replace("<minResources>memory-mb=0,vcores=0,yarn.io/gpu=16</minResources>", ""))
    jobs = [
        job(n, 1, per_task=1, runs_s=1e9, queue=queue)
        for n, queue in enumerate(["root.a.x", "root.a.y", "root.b"] * 32)
    ]
    outcome = play(root, jobs, mode=Mode.HOLD)
    got = [jobs[container.job].queue for container in outcome.containers]
    assert {name: got.count(name) for name in set(got)} == {
        "root.a.x": 12, "root.a.y": 4, "root.b": 16,
    }  # fmt: skip


def test_a_job_without_gpus_is_one_of_them() -> None:
    """As in the history of a cluster on which somebody has tried `yarnam submit` with a CPU."""
    plain = job(1, 8)
    roles = tuple(
        replace(role, resources=replace(role.resources, gpus=0)) for role in plain.spec.roles
    )
    without = replace(plain, spec=replace(plain.spec, roles=roles))
    outcome = scenes.play(Mode.TICKETS, [without, job(2, 16)], cluster(2))
    assert scenes.stuck(outcome) == []
