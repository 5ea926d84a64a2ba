"""The ideal model: what it decides on cases that a reader can follow, and its rules on bad
traces."""

from __future__ import annotations

from typing import Any

import pytest

from yarnam.core.policies.gpu_nodes import Packing
from yarnam.core.policies.policy_registry import NAMES, policy_named
from yarnam.core.policies.policy_settings import read_settings
from yarnam.errors import UsageError
from yarnam.sim.ideal import ideal_run
from yarnam.sim.ideal.ideal_report import IdealRow, UsageCurve
from yarnam.sim.ideal.ideal_run import IdealOutcome, run
from yarnam.sim.ideal.ideal_settings import IdealSettings, Instant, Overhead, RunTimes
from yarnam.sim.ideal.policy_comparison import compare, estimate, shaken, t_95
from yarnam.sim.ideal.trace_job import TraceJob

pytestmark = pytest.mark.sim


def settings(policy: str, gpus: int, *, options: dict[str, str] | None = None, **more: Any):  # type: ignore[no-untyped-def]
    known = policy_named(policy).settings
    zero = {one.name: "0" for one in known if one.name in ("least_run", "least_pause")}
    return IdealSettings(policy, gpus, read_settings(policy, known, zero | (options or {})), **more)


def ends(outcome_of: IdealSettings, trace: list[TraceJob]) -> dict[str, float]:
    rows: list[IdealRow] = []
    run(trace, outcome_of, on_row=rows.append)
    return {row.job: row.end_s for row in rows}


def made(policy: str, gpus: int, trace: list[TraceJob], **more: Any) -> IdealOutcome:
    return run(trace, settings(policy, gpus, **more))


def test_two_of_four_gangs_run_and_two_wait() -> None:
    """FfDL's demonstration: eight GPUs, four jobs of four learners. Gangs never deadlock."""
    trace = [TraceJob(f"j{number}", 0.0, 100.0, 4, tasks=4) for number in range(4)]
    for policy in NAMES:
        found = ends(settings(policy, 8, nodes=((4, 0), (4, 0))), trace)
        assert len(found) == 4, policy
    fifo = ends(settings("fifo", 8, nodes=((4, 0), (4, 0))), trace)
    assert fifo == {"j0": 100.0, "j1": 100.0, "j2": 200.0, "j3": 200.0}


def test_the_shortest_first_by_hand() -> None:
    trace = [
        TraceJob("a", 0.0, 100.0, 2),
        TraceJob("b", 10.0, 20.0, 2),
        TraceJob("c", 10.0, 5.0, 1),
    ]
    assert ends(settings("fifo", 2), trace) == {"a": 100.0, "b": 120.0, "c": 125.0}
    assert ends(settings("srtf", 2), trace) == {"c": 15.0, "b": 35.0, "a": 125.0}


def test_a_restart_costs_what_is_stated() -> None:
    trace = [TraceJob("a", 0.0, 100.0, 2), TraceJob("b", 50.0, 10.0, 2)]
    costly = settings("srtf", 2, overhead=Overhead.RESTART, overhead_of=lambda _job: 7.0)
    # a starts, b stops it, a starts again: seven seconds each time.
    assert ends(costly, trace) == {"b": 67.0, "a": 67.0 + 7.0 + 100.0 - 43.0}


def test_every_event_costs_whoever_runs_by_muris_rule() -> None:
    trace = [TraceJob("a", 0.0, 100.0, 1), TraceJob("b", 50.0, 10.0, 1)]
    found = ends(
        settings("srtf", 2, overhead=Overhead.EVERY_EVENT, overhead_of=lambda _job: 4.0), trace
    )
    # a loses four seconds at b's arrival, and four at b's end.
    assert found == {"b": 60.0, "a": 108.0}


def test_slices_share_the_gpus_of_two_equal_jobs() -> None:
    trace = [TraceJob("a", 0.0, 600.0, 8), TraceJob("b", 0.0, 600.0, 8)]
    found = ends(settings("gandiva", 8), trace)
    assert abs(found["a"] - found["b"]) <= 60.0
    assert max(found.values()) == pytest.approx(1200.0)


def test_slices_cost_no_more_than_their_share() -> None:
    trace = [TraceJob(f"j{number}", 0.0, 7200.0, 8) for number in range(3)]
    costly = settings("gandiva", 8, overhead=Overhead.RESTART, overhead_of=lambda _job: 30.0)
    outcome = run(trace, costly)
    # Each job starts once whatever the slices are, and ends within one.
    assert outcome.report.makespan_s <= 3 * 7200.0 / 0.95 + 3 * 30.0


def test_optimus_moves_gpus_to_who_gains() -> None:
    elastic = {"least_gpus": 1, "most_gpus": 8}
    trace = [TraceJob("a", 0.0, 1e4, 4, **elastic), TraceJob("b", 0.0, 1e4, 4, **elastic)]
    together = ends(settings("optimus", 8), trace)
    alone = ends(settings("optimus", 8), trace[:1])
    assert together == {"a": 1e4, "b": 1e4}
    # The gang grows from four GPUs to eight: 2 ** 0.9 times as fast.
    assert alone["a"] == pytest.approx(1e4 / 2**0.9, rel=0.07)


def test_declared_ends_and_one_event_at_a_time() -> None:
    trace = [
        TraceJob("a", 0.0, 50.0, 1, declared_s=100.0),
        TraceJob("head", 1.0, 10.0, 2, declared_s=10.0),
        TraceJob("short", 2.0, 90.0, 1, declared_s=98.0),
    ]
    batch = settings("fifo-backfill", 2, instant=Instant.ONE_BY_ONE, run_times=RunTimes.DECLARED)
    # By the declared times short ends when head could start; a ends early, so head waits for it.
    assert ends(batch, trace) == {"a": 50.0, "short": 92.0, "head": 102.0}


def test_packing_leaves_whole_nodes_for_whole_node_jobs() -> None:
    nodes = ((4, 0),) * 4
    small = [TraceJob(f"s{number}", float(number), 1000.0, 1) for number in range(4)]
    trace = [*small, TraceJob("whole", 10.0, 10.0, 4)]
    packed = ends(settings("fifo", 16, nodes=nodes, packing=Packing.PACK), trace)
    spread = ends(settings("fifo", 16, nodes=nodes, packing=Packing.SPREAD), trace)
    assert packed["whole"] == 20.0
    assert spread["whole"] == 1010.0


@pytest.mark.parametrize("policy", NAMES)
def test_every_job_ends_and_no_gpu_is_lost(policy: str) -> None:
    trace = [
        TraceJob(f"j{number}", number * 30.0, 100.0 + 997 * number % 3000, 1 << number % 4)
        for number in range(80)
    ]
    for nodes in ((), ((8, 0), (8, 0))):
        outcome = run(trace, settings(policy, 16, nodes=nodes))
        assert outcome.report.jobs == 80
        assert outcome.report.unfinished == 0
        needed = sum(job.gpus * job.run_s for job in trace)
        assert outcome.figures.usage.gpu_s == pytest.approx(needed, rel=1e-6)
        assert outcome.report == run(iter(trace), settings(policy, 16, nodes=nodes)).report


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        ([TraceJob("a", 0.0, -1.0, 1)], "job a runs -1 s"),
        ([TraceJob("a", 0.0, 1.0, 9)], "job a needs 9 GPUs; the cluster has 8"),
        ([TraceJob("a", 5.0, 1.0, 1), TraceJob("b", 1.0, 1.0, 1)], "order of submission at job b"),
        ([TraceJob("a", 0.0, 9.0, 1), TraceJob("a", 1.0, 1.0, 1)], "job a is submitted twice"),
    ],
)
def test_a_trace_that_cannot_be_is_refused(trace: list[TraceJob], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        made("fifo", 8, trace)


def test_memory_follows_the_living_jobs() -> None:
    living: list[int] = []

    def jobs() -> Any:
        for number in range(3000):
            yield TraceJob(f"j{number}", number * 10.0, 15.0, 1)

    from yarnam.sim.ideal.ideal_run import IdealCluster

    world = IdealCluster(settings("fifo", 8), lambda _row: living.append(world.unfinished))
    world.run(jobs())
    assert max(living) <= 3


# ---- figures -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("freedom", "factor"), [(1, 12.706), (9, 2.262), (10, 2.228), (30, 2.042), (60, 2.000),
                            (99, 1.984)],
)  # fmt: skip
def test_students_t(freedom: int, factor: float) -> None:
    assert t_95(freedom) == pytest.approx(factor, abs=0.001)


def test_an_interval_of_eleven_seeds() -> None:
    found = estimate([float(number) for number in range(11)])
    assert found.half == pytest.approx(2.228 * 11**0.5 / 11**0.5, rel=1e-3)


def test_the_trace_as_it_is_does_not_count_among_shaken_ones() -> None:
    trace = [TraceJob(f"j{number}", number * 100.0, 1000.0, 8) for number in range(20)]
    runs = [("fifo", settings("fifo", 8))]
    (alone,) = compare(trace, runs, [7])
    (several,) = compare(trace, runs, [7, 8])
    assert alone.estimates["jct_mean_s"].mean == alone.report.jct_mean_s
    assert several.report == alone.report
    shaken_s = [run(shaken(trace, seed), runs[0][1]).report.jct_mean_s for seed in (7, 8)]
    assert several.estimates["jct_mean_s"].mean == pytest.approx(sum(shaken_s) / 2)


def test_gpus_in_use_are_means_over_bins() -> None:
    """Two GPUs in one second of every two, however long the run: one on the average."""
    curve = UsageCurve()
    for second in range(20_000):
        curve.now(float(second), 2 if second % 2 == 0 else 0)
    points = curve.means(100)
    assert len(points) <= 101
    assert points[0][0] == 0.0
    assert points[-1][0] == 19_999.0
    assert all(used == pytest.approx(1.0, abs=0.1) for _, used in points)


def test_a_run_that_decides_without_end_stops_and_says_when(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ideal_run, "LEAST_MOST_DECISIONS", 1000)
    trace = [TraceJob(f"j{number}", 0.0, 1e6, 8) for number in range(2)]
    report = made("gandiva", 8, trace).report
    assert (report.unfinished, report.decisions) == (2, 1000)
    assert report.stopped_at_s == pytest.approx(60_000.0, rel=0.01)
    assert report.used_share == pytest.approx(1.0, abs=0.01)
    assert made("fifo", 8, trace).report.stopped_at_s is None


def test_virtual_time_moves_while_no_job_ends() -> None:
    seen: list[float] = []
    trace = [TraceJob(f"j{number}", 0.0, 1e5, 8) for number in range(2)]
    run(trace, settings("gandiva", 8), on_time=seen.append)
    assert len(seen) > 20
    assert seen == sorted(seen)
    assert seen[0] < 1e4
