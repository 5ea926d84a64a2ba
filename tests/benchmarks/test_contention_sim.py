"""Many jobs contend for one cluster, in the simulator: idle-held GPU time and waits of yarnam with
and without tickets, beside those of an all-seeing central scheduler and of the peers' ways.

The goal of 3 for the per-job ratio at p99 is *missed* under heavy contention (load 2). It is
printed, and asserted only where the schedule is not chaotic, judged by the central scheduler's
ratio to itself with run times a few seconds longer. The 99th percentiles of the waits and the mean
waits of classes of sizes are held to 3 everywhere. See docs/explanation/contention.md.
"""

from __future__ import annotations

import time

import pytest

from yarnam.sim import (
    Mode,
    Report,
    RmSettings,
    SimSettings,
    WorkloadSettings,
    perturbed,
    report,
    simulate,
    table,
    workload,
)

pytestmark = [pytest.mark.benchmark, pytest.mark.sim, pytest.mark.timeout(1800)]

LIMIT_CPU_S = 60.0
IDLE_LIMITS = {Mode.TICKETS: 0.02, Mode.JITTER: 0.08}
WAIT_LIMIT = 3.0


def compare(load: float, modes: list[Mode]) -> dict[str, Report]:
    rm = RmSettings()
    given = workload(WorkloadSettings(load=load), rm)
    central = simulate(given, SimSettings(Mode.CENTRAL, rm=rm))
    again = simulate(perturbed(given, 7), SimSettings(Mode.CENTRAL, rm=rm))
    rows = [report(central, central), report(again, central, "central, shaken")]
    lines: list[str] = []
    for mode in modes:
        begun_s = time.process_time()
        outcome = simulate(given, SimSettings(mode, rm=rm))
        took_s = time.process_time() - begun_s
        rows.append(report(outcome, central))
        lines.append(f"{mode.value}: {took_s:.1f} s of CPU, {took_s / LIMIT_CPU_S:.2f} x its limit")
        assert took_s < LIMIT_CPU_S
    hours = given.jobs[-1].submit_s / 3600
    print(f"\n\n1,000 jobs on 2,000 GPUs within {hours:.1f} h (load {load})\n\n{table(rows)}")
    print("\n".join(lines))
    return {row.name: row for row in rows}


@pytest.mark.parametrize("load", [0.95, 2.0])
def test_a_thousand_jobs_on_two_thousand_gpus(load: float) -> None:
    rows = compare(load, [Mode.TICKETS, Mode.JITTER, Mode.HOLD, Mode.HBOX, Mode.DECLARED])
    for mode, limit in IDLE_LIMITS.items():
        row = rows[mode.value]
        assert row.finished == row.jobs
        assert row.idle_share <= limit
        assert row.p99_ratio <= WAIT_LIMIT
        assert row.class_ratio <= WAIT_LIMIT
        if rows["central, shaken"].wait_ratio_p99 < 1.5:
            assert row.wait_ratio_p99 <= WAIT_LIMIT
