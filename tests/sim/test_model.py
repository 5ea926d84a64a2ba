"""The model of YARN, held to what is known of the real one and of deadlocks."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import pytest

from tests.sim.scenes import ONE_QUEUE, cluster, job, play, stuck
from yarnam.core.admission.decision import clear_rungs
from yarnam.core.model.plans import NoFit, PlacementPlan
from yarnam.sim import Mode, RmSettings, SimSettings, Workload, WorkloadSettings, simulate, workload
from yarnam.sim.gangs.queue_driver import QueueDriver
from yarnam.sim.report import idle_share, percentile, report
from yarnam.sim.sim_settings import QueueSettings, ServingOrder
from yarnam.sim.timeline import Timeline

pytestmark = pytest.mark.sim


def closed_form(gpus: int, jobs: int, tasks: int) -> float:
    """Share of GPUs held by incomplete jobs: K GPUs granted uniformly over n jobs of L one-GPU
    tasks (docs/explanation/why-gangs.md)."""
    wanted = jobs * tasks
    complete = math.comb(wanted - tasks, gpus - tasks) / math.comb(wanted, gpus)
    return 1 - jobs * tasks * complete / gpus


@pytest.mark.parametrize(
    ("jobs", "tasks", "expected"),
    [(50, 2, 0.404), (25, 4, 0.793), (100, 2, 0.704), (50, 4, 0.975)],
)
def test_ask_and_hold_leaves_the_share_of_gpus_idle_that_the_closed_form_says(
    jobs: int, tasks: int, expected: float
) -> None:
    rm = cluster(60, 1, serving_order=ServingOrder.RANDOM, nodes_per_rack=60)
    shares: list[float] = []
    for seed in range(40):
        wanting = [job(n, tasks, per_task=1, runs_s=1e9) for n in range(jobs)]
        outcome = play(Mode.HOLD, wanting, rm, seed=seed, limit_s=100.0)
        assert len(outcome.containers) == 60
        complete = sum(record.stood_s is not None for record in outcome.records)
        shares.append(1 - complete * tasks / 60)
    mean = sum(shares) / len(shares)
    error = math.sqrt(sum((s - mean) ** 2 for s in shares) / len(shares) / (len(shares) - 1))
    assert closed_form(60, jobs, tasks) == pytest.approx(expected, abs=0.0005)
    assert abs(mean - expected) <= 4 * max(error, 0.002), f"{mean} is not {expected}"


def test_a_node_grants_one_container_per_heartbeat() -> None:
    """As seen: 16 one-GPU containers on 4 nodes came in 4 waves, 1 s apart."""
    outcome = play(Mode.HOLD, [job(0, 16, per_task=1)], cluster(4, 4))
    waves = Counter(container.node for container in outcome.containers)
    assert set(waves.values()) == {4}
    for node in range(4):
        times = [c.granted_s for c in outcome.containers if c.node == node]
        assert [round(b - a, 6) for a, b in pairwise(times)] == [1.0] * 3


def test_assign_multiple_grants_all_at_one_heartbeat() -> None:
    rm = cluster(1, 8, assign_multiple=True)
    outcome = play(Mode.HOLD, [job(0, 8, per_task=1)], rm)
    assert len({container.granted_s for container in outcome.containers}) == 1


def test_a_large_ask_reserves_a_node_and_gets_it_before_small_ones() -> None:
    """The Fair Scheduler keeps a node for the ask whose turn it is: small ones that come later do
    not take the GPUs that come free there."""
    jobs = [
        job(0, 1, runs_s=300.0),
        job(1, 7, at_s=0.1, runs_s=100.0),
        job(2, 8, at_s=10.0),
        *(job(n, 1, at_s=20.0 + n, runs_s=1000.0) for n in range(3, 8)),
    ]
    outcome = play(Mode.HOLD, jobs, cluster(1))
    assert (outcome.records[2].stood_s or 1e9) < 310.0
    without = play(Mode.HOLD, jobs, cluster(1, reservable_nodes=0.0))
    assert (without.records[2].stood_s or 1e9) > 1000.0


@pytest.mark.parametrize("mode", [Mode.TICKETS, Mode.JITTER, Mode.HBOX])
def test_nothing_stays_reserved_when_all_is_over(mode: Mode) -> None:
    jobs = [job(n, 5, per_task=5, at_s=n, runs_s=200.0) for n in range(12)]
    outcome = play(mode, jobs, cluster(4))
    assert not stuck(outcome)
    assert outcome.reservations_left == 0


@pytest.mark.parametrize("mode", [Mode.TICKETS, Mode.JITTER, Mode.HOLD, Mode.HBOX])
def test_gpus_are_conserved(mode: Mode) -> None:
    """Never more granted than there are; what was granted is freed, once, when all is over."""
    rm = RmSettings(nodes=12, queues=(*ONE_QUEUE, QueueSettings("root.b", 2.0, max_gpus=40)))
    given = workload(WorkloadSettings(jobs=80, load=4.0, busy=0.0), rm)
    outcome = simulate(given, SimSettings(mode, rm=rm))
    moments: list[tuple[float, int, int, int]] = []
    granted = freed = 0
    for container in outcome.containers:
        gpus = container.resources.gpus
        granted += gpus
        moments.append((container.granted_s, 1, container.node, gpus))
        if container.freed_s is not None:
            freed += gpus
            moments.append((container.freed_s, 0, container.node, -gpus))
    used: Counter[int] = Counter()
    for _, _, node, gpus in sorted(moments):
        used[node] += gpus
        assert 0 <= used[node] <= rm.gpus_per_node
    held = sum(used.values())
    assert granted == freed + held
    if mode is not Mode.HOLD:
        assert held == 0, "something is still held although every job has ended"


@pytest.mark.parametrize("mode", [Mode.TICKETS, Mode.JITTER])
def test_no_gang_runs_with_fewer_gpus_than_it_wants(mode: Mode) -> None:
    rm = RmSettings(nodes=8, queues=ONE_QUEUE)
    given = workload(WorkloadSettings(jobs=60, load=4.0, busy=0.5), rm)
    outcome = simulate(given, SimSettings(mode, rm=rm))
    for record in outcome.records:
        stood = {key: at_s for key, at_s in outcome.stood.items() if key[0] == record.job.number}
        assert stood, "it never stood"
        for (_, attempt), at_s in stood.items():
            gpus = sum(
                c.resources.gpus
                for c in outcome.containers
                if (c.job, c.ask.attempt) == (record.job.number, attempt)
                and c.granted_s <= at_s
                and (c.released_s is None or c.released_s > at_s)
            )
            assert gpus == record.job.gpus


def test_where_the_count_of_free_gpus_says_no_the_planner_would_too() -> None:
    """The simulator skips the planner there; that must never change an answer."""
    refused = 0
    plain = QueueDriver._may_fit

    def checked(self: QueueDriver, action) -> bool:
        nonlocal refused
        may_fit = plain(self, action)
        if not may_fit:
            refused += 1
            assert isinstance(self._plan(action), NoFit)
        return may_fit

    rm = RmSettings(nodes=6, queues=(QueueSettings("root.a", max_gpus=40),))
    given = workload(WorkloadSettings(jobs=40, load=4.0, busy=0.6), rm)
    QueueDriver._may_fit = checked
    try:
        simulate(given, SimSettings(Mode.JITTER, rm=rm))
    finally:
        QueueDriver._may_fit = plain
    assert refused > 50


def test_where_no_rung_is_said_to_keep_clear_the_planner_finds_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The simulator skips that plan; a head that has waited for long has most others refused by
    it."""
    plain, answers = QueueDriver._may_keep_clear, Counter[bool]()

    def checked(self: QueueDriver, action, avoid) -> bool:
        may = plain(self, action, avoid)
        plan = self._plan(action, tuple(sorted(avoid)))
        found = isinstance(plan, PlacementPlan) and clear_rungs(plan, avoid, self._snapshot())
        assert may or not found
        answers[may] += 1
        return may

    monkeypatch.setattr(QueueDriver, "_may_keep_clear", checked)
    monkeypatch.setattr("yarnam.core.admission.wait_queue.MOST_PATIENCE_S", 3600.0)
    queues = (QueueSettings("root.a"), QueueSettings("root.b"))
    rm = RmSettings(nodes=16, nodes_per_rack=8, queues=queues)
    given = workload(WorkloadSettings(jobs=300, load=4.0, seed=5), rm)
    simulate(given, SimSettings(Mode.TICKETS, rm=rm, limit_s=86400.0))
    assert answers[False] > 50
    assert answers[True] > 5


def test_what_is_reserved_first_is_first_however_late_it_is_made() -> None:
    timeline, seen = Timeline(), []
    first = timeline.reserve(2)
    timeline.at(2.0, lambda: seen.append("usual"))
    timeline.at(1.0, lambda: timeline.at(2.0, lambda: seen.append("second"), first + 1))
    timeline.at(2.0, lambda: seen.append("first"), first)
    timeline.run(5.0)
    assert seen == ["first", "second", "usual"]


def test_the_timeline_keeps_the_order_of_what_is_due_at_once() -> None:
    timeline, seen = Timeline(), []
    timeline.at(2.0, lambda: seen.append("late"))
    for name in "abc":
        timeline.at(1.0, lambda name=name: seen.append(name))
    timeline.at(1.0, lambda: seen.append("never")).cancel()
    assert not timeline.run(1.5)
    assert timeline.run(3.0)
    assert seen == ["a", "b", "c", "late"]


def test_idle_time_is_counted_from_the_grant_to_the_last_agent() -> None:
    """By hand: two gangs of five hold eight GPUs for 100 s and never stand."""
    jobs = [job(n, 5, per_task=1) for n in range(2)]
    outcome = play(Mode.HOLD, jobs, cluster(2, 4), limit_s=100.0)
    assert idle_share(outcome) == 1.0
    alone = play(Mode.HOLD, [job(0, 4, per_task=4, runs_s=100.0)], cluster(1, 4))
    (container,) = alone.containers
    assert container.freed_s is not None
    held_s = (alone.records[0].stood_s or 0.0) - container.granted_s
    assert idle_share(alone) == pytest.approx(held_s / (container.freed_s - container.granted_s))


def test_percentiles_are_nearest_rank() -> None:
    assert percentile([float(n) for n in range(1, 101)], 0.99) == 99.0
    assert percentile([5.0], 0.99) == 5.0


def test_the_central_scheduler_compared_with_itself_is_one() -> None:
    given = workload(WorkloadSettings(jobs=60, load=3.0), RmSettings(nodes=20))
    central = simulate(given, SimSettings(Mode.CENTRAL, rm=RmSettings(nodes=20)))
    row = report(central, central)
    assert (row.wait_ratio_p99, row.finished, row.stuck) == (1.0, 60, 0)


def test_the_slowdown_is_bounded_and_compared_job_by_job() -> None:
    """By hand: a job of 4 s that waits 26 s is slowed down (26 + 4) / 10 = 3 times."""
    jobs = [job(0, 8, runs_s=26.0), job(1, 8, runs_s=4.0)]
    one_after_the_other = play(Mode.CENTRAL, jobs, cluster(1))
    side_by_side = play(Mode.CENTRAL, jobs, cluster(2))
    assert report(one_after_the_other, side_by_side).slowdown_ratio_p99 == pytest.approx(3.0)
    assert report(side_by_side, side_by_side).slowdown_ratio_p99 == 1.0


def test_a_workload_has_the_load_and_the_start_that_were_asked_for() -> None:
    rm = RmSettings()
    given = workload(WorkloadSettings(jobs=1000, load=0.9, busy=0.8), rm)
    wanted = sum(one.gpus * one.duration_s for one in given.jobs)
    assert wanted / (rm.gpus * given.jobs[-1].submit_s) == pytest.approx(0.9, rel=0.15)
    assert sum(gang.gpus for gang in given.initial_gangs) / rm.gpus == pytest.approx(0.8, abs=0.05)
    sizes = Counter(one.gpus for one in given.jobs)
    assert sum(sizes[size] for size in (1, 2, 4, 8)) > 800
    assert max(sizes) >= 64


def test_an_empty_workload_is_no_trouble() -> None:
    outcome = simulate(Workload(()), SimSettings(Mode.TICKETS))
    assert report(outcome, outcome).jobs == 0
