"""Published figures of schedulers, ours beside theirs. ``YARNAM_TRACES`` names a folder with the
public traces (``published_traces``); without it those tests are skipped."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.benchmarks.published_traces import (
    KTH,
    MURI,
    TIRESIAS_60,
    as_published,
    ffdl_jobs,
    muri_start_s,
    trace_file,
)
from tools.convert_trace import FORMATS as CONVERTED
from tools.convert_trace import convert
from yarnam.client.planning.traces.trace_reading import read_jobs
from yarnam.core.policies.gpu_nodes import Packing
from yarnam.sim.ideal.ideal_report import IdealRow
from yarnam.sim.ideal.ideal_run import run
from yarnam.sim.ideal.ideal_settings import IdealSettings, Instant, Overhead, RunTimes
from yarnam.sim.ideal.trace_job import TraceJob

pytestmark = [pytest.mark.benchmark, pytest.mark.sim, pytest.mark.timeout(1800)]

NODES_OF_EIGHT = ((8, 0),) * 8


def trace_of(name: str, kind: str) -> list[TraceJob]:
    path = trace_file(name)
    if path is None:
        pytest.skip(f"YARNAM_TRACES names no folder with {name}")
    if kind not in CONVERTED:
        return list(read_jobs(path, kind).jobs)
    with TemporaryDirectory() as folder:
        target = Path(folder, "jobs.csv")
        convert(kind, Path(path), target)
        return list(read_jobs(str(target), "csv").jobs)


def test_tiresias_on_its_60_jobs() -> None:
    trace = trace_of("60_job.csv", "tiresias")
    for (policy, skip), (jct_s, end_s) in TIRESIAS_60.items():
        chosen = as_published(policy, **({"skip": skip} if skip else {}))
        found = run(trace, IdealSettings(policy, 16, chosen)).report
        print(
            f"{policy} {skip}: JCT {found.jct_mean_s:.3f} ({jct_s}), {found.makespan_s} ({end_s})"
        )
        assert found.jct_mean_s == pytest.approx(jct_s, abs=0.0006)
        assert found.makespan_s == end_s


@pytest.mark.parametrize(("trace", "policy"), MURI)
def test_muris_table(trace: str, policy: str) -> None:
    """With their overhead within 0.1 %, with one at each start within 3 %."""
    jobs = trace_of(f"{trace}.csv", "muri")
    jct_s, end_s = MURI[trace, policy]
    chosen = as_published(policy, **({"promote": "0"} if policy == "tiresias" else {}))
    nodes = () if policy == "tiresias" else NODES_OF_EIGHT
    for overhead, bound in ((Overhead.EVERY_EVENT, 0.001), (Overhead.RESTART, 0.03)):
        began_s = time.process_time()
        found = run(
            jobs,
            IdealSettings(
                policy, 64, chosen, nodes, moves_freely=True, overhead=overhead,
                overhead_of=muri_start_s,
            ),
        ).report  # fmt: skip
        took_s = time.process_time() - began_s
        print(
            f"{trace} {policy}, {overhead.value}: JCT {found.jct_mean_s:.3f} ({jct_s}), "
            f"makespan {found.makespan_s:.3f} ({end_s}); {took_s:.1f} s of CPU"
        )
        assert found.jct_mean_s == pytest.approx(jct_s, rel=bound)
        assert found.makespan_s == pytest.approx(end_s, rel=bound)


@pytest.mark.parametrize("shortest_first", KTH)
def test_easy_on_kth_sp2(shortest_first: str) -> None:
    jobs = trace_of("kth-sp2.swf", "swf")
    rows: list[IdealRow] = []
    run(
        jobs,
        IdealSettings(
            "fifo-backfill", 100, as_published("fifo-backfill", shortest_first=shortest_first),
            instant=Instant.ONE_BY_ONE, run_times=RunTimes.DECLARED,
        ),
        on_row=rows.append,
    )  # fmt: skip
    theirs = KTH[shortest_first]
    flow_s = sum(row.jct_s for row in rows) / len(rows)
    slowdown = sum(row.slowdown for row in rows) / len(rows)
    print(f"flow {flow_s:.10f} ({theirs.flow_mean_s}), slowdown {slowdown:.12f}")
    assert len(rows) == 28_481
    assert flow_s == pytest.approx(theirs.flow_mean_s, rel=1e-9)
    assert slowdown == pytest.approx(theirs.slowdown_mean, rel=1e-9)
    assert max(row.jct_s for row in rows) == theirs.flow_max_s


def test_pack_beside_spread() -> None:
    """FfDL's study; its curves cannot be read in numbers, so ours stand alone."""
    nodes = ((4, 32),) * 100
    for load in (0.6, 0.7, 0.75):
        waits = {}
        for packing in (Packing.PACK, Packing.SPREAD):
            rows: list[IdealRow] = []
            run(
                ffdl_jobs(7, load=load),
                IdealSettings("fifo", 400, as_published("fifo", skip="1"), nodes, packing),
                on_row=rows.append,
            )
            long = sum(row.start_s - row.submit_s > 900 for row in rows)
            waits[packing] = sum(row.start_s - row.submit_s for row in rows) / len(rows)
            print(
                f"load {load} {packing.value}: mean wait {waits[packing]:.0f} s, over 15 min {long}"
            )
        assert all(wait >= 0 for wait in waits.values())


def test_a_hundred_thousand_jobs_in_under_a_minute() -> None:
    def jobs() -> list[TraceJob]:
        return [
            TraceJob(f"j{n}", n * 20.0, 600.0 + n * 7919 % 6000, 1 << n * 31 % 4)
            for n in range(100_000)
        ]

    began_s = time.process_time()
    found = run(jobs(), IdealSettings("fifo-backfill", 800, as_published("fifo-backfill"))).report
    took_s = time.process_time() - began_s
    print(f"100,000 jobs, {found.decisions:,} decisions: {took_s:.1f} s of CPU")
    assert found.unfinished == 0
    assert took_s < 60.0
