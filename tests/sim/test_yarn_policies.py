"""Policies on the model of YARN: the same functions, by every job's ApplicationMaster on its
own."""

from __future__ import annotations

import gc
import hashlib
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.sim.fresh_process import printed
from yarnam.am import job_accounts, queue_client_shell
from yarnam.core.admission import Ask, Decision, Planner, QueueSnapshot
from yarnam.core.model.tickets import Ticket
from yarnam.core.policies.chosen_policy import ActivePolicy
from yarnam.core.policies.policy_registry import DEFAULT, NAMES, policy_named
from yarnam.core.policies.policy_settings import read_settings
from yarnam.core.policies.queue_schedule import QueueSchedule, decide_by_schedule
from yarnam.core.policies.schedule import JobDecision
from yarnam.core.queue_client import admission_rules
from yarnam.core.queue_client.ticket_list import TicketList
from yarnam.sim import simulation
from yarnam.sim.gangs import policy_reports, queue_driver
from yarnam.sim.ideal.ideal_report import IdealRow
from yarnam.sim.ideal.ideal_run import OnRow, run
from yarnam.sim.ideal.ideal_settings import IdealSettings, Overhead, RunTimes
from yarnam.sim.ideal.policy_comparison import PolicyFigures
from yarnam.sim.ideal.trace_job import TraceJob
from yarnam.sim.ideal.yarn_trace_run import rm_of, run_on_yarn
from yarnam.sim.world import Trace

pytestmark = pytest.mark.sim

TRACE = [
    TraceJob(
        f"j{number}", number * 20.0, 300.0 + 137 * number % 900, 1 << number % 4,
        declared_s=400.0 + 137 * number % 900,
    )
    for number in range(24)
]  # fmt: skip


START_S = 30.0
"""Of each start of a gang before it trains."""


def on_yarn(
    policy: str,
    trace: list[TraceJob],
    *,
    start_cost_s: float = 0.0,
    on_step: Trace | None = None,
    on_row: OnRow | None = None,
    **given: str,
) -> PolicyFigures:
    chosen = read_settings(policy, policy_named(policy).settings, given)
    return run_on_yarn(
        trace, rm_of(2, 8), policy, chosen, start_cost_s=start_cost_s, on_step=on_step,
        on_row=on_row,
    )  # fmt: skip


def completion_times(policy: str, trace: list[TraceJob], **more: Any) -> dict[str, float]:
    found: dict[str, float] = {}
    on_yarn(policy, trace, on_row=lambda row: found.update({row.job: row.jct_s}), **more)
    return found


@pytest.mark.parametrize("policy", NAMES)
def test_yarn_costs_little_beside_the_ideal_model(policy: str) -> None:
    """Two dozen gangs that want about twice what there is. Heartbeats, polls and starts take
    seconds."""
    real = on_yarn(policy, TRACE, start_cost_s=START_S).report
    chosen = read_settings(policy, policy_named(policy).settings, {})
    settings = IdealSettings(
        policy, 16, chosen, ((8, 0), (8, 0)), run_times=RunTimes.DECLARED,
        overhead=Overhead.RESTART, overhead_of=lambda _job: START_S,
    )  # fmt: skip
    ideal = run(TRACE, settings).report
    print(f"{policy}: {real.jct_mean_s:.0f} s on YARN, {ideal.jct_mean_s:.0f} s ideal")
    assert real.unfinished == 0
    assert real.jct_mean_s <= 1.15 * ideal.jct_mean_s
    assert not real.suspensions or policy_named(policy).suspends
    assert real.suspensions or policy not in {"tiresias", "gittins", "gandiva", "srtf", "srsf"}


def test_a_later_job_does_not_pass_under_fifo_and_may_under_backfill() -> None:
    trace = [
        TraceJob("long", 0.0, 3000.0, 12, declared_s=3000.0),
        TraceJob("head", 10.0, 100.0, 16, declared_s=100.0),
        TraceJob("short", 20.0, 500.0, 4, declared_s=500.0),
    ]
    strict, filled = (completion_times(policy, trace) for policy in ("fifo", "fifo-backfill"))
    assert strict["short"] > 3000.0
    assert filled["short"] < 700.0
    # The first in the queue is not delayed by it.
    assert filled["head"] == pytest.approx(strict["head"], abs=30.0)


def test_equal_seeds_give_equal_runs() -> None:
    assert on_yarn("fifo-backfill", TRACE).report == on_yarn("fifo-backfill", TRACE).report


def test_a_suspended_job_loses_nothing_but_the_pause() -> None:
    """A short job comes while a long one has all GPUs: it goes first, and the long one goes on
    where it was."""
    trace = [TraceJob("long", 0.0, 3000.0, 16), TraceJob("short", 600.0, 300.0, 16)]
    rows: list[IdealRow] = []
    found = on_yarn("tiresias", trace, start_cost_s=START_S, on_row=rows.append, limits="6400")
    short_s, long_s = (row.jct_s for row in rows)
    assert found.report.suspensions == 1
    assert 300.0 + START_S <= short_s < 300.0 + START_S + 30.0
    # It stands still for the other's run, for one start more, and while YARN deals containers out.
    assert 3300.0 + 3 * START_S <= long_s < 3300.0 + 3 * START_S + 60.0


SEEN_BY_ALL = """
import sys
from tests.sim.test_yarn_policies import TRACE, traced
print(*traced(sys.argv[1]))
"""


@pytest.mark.parametrize("policy", ["tiresias", pytest.param("gandiva", marks=pytest.mark.long)])
def test_equal_seeds_give_equal_bytes(policy: str) -> None:
    first, again = (printed(SEEN_BY_ALL, policy, hash_seed=seed) for seed in "12")
    assert first == again
    assert int(first.split()[0]) > 200


def traced(policy: str) -> tuple[int, str]:
    """How many steps all gangs make, and a hash of them."""
    lines: list[str] = []
    on_yarn(policy, TRACE, on_step=lines.append)
    return len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest()


# ---- the same functions --------------------------------------------------------------------------


def test_the_simulator_and_the_application_master_decide_by_the_same_functions() -> None:
    assert queue_driver.step is queue_client_shell.step
    assert policy_reports.policy_ticket is job_accounts.policy_ticket
    assert policy_reports.served is job_accounts.served


@pytest.mark.parametrize("policy", ["fifo", "tiresias", "gandiva", "optimus"])
def test_every_decision_is_that_of_a_job_alone(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator computes the schedule once for all jobs; an ApplicationMaster would come to
    the same decision from the tickets that it reads."""
    chosen = read_settings(policy, policy_named(policy).settings, {})
    active = ActivePolicy(policy_named(policy), chosen, 1)
    compared = Counter[str]()

    def both(
        found: QueueSchedule, me: Ticket, seen: QueueSnapshot, plan: Planner, **more: Any
    ) -> tuple[Decision, JobDecision]:
        decision, row = decide_by_schedule(found, me, seen, plan, **more)
        assert not any(one.job == me.job and one.is_acquiring for one in seen.tickets)
        schedule, world = TicketList().schedule(me, seen, active)
        alone, its_row = decide_by_schedule(schedule, me, world, plan, **more)
        assert type(decision) is type(alone)
        assert replace(row, why="") == replace(its_row, why="")
        if isinstance(decision, Ask) and isinstance(alone, Ask):
            assert decision.ticket == alone.ticket
        compared[row.act.value] += 1
        return decision, row

    monkeypatch.setattr(admission_rules, "decide_by_schedule", both)
    elastic = [job._replace(least_gpus=1, most_gpus=16) for job in TRACE]
    on_yarn(policy, elastic if policy == "optimus" else TRACE)
    assert compared["run"] >= len(TRACE)
    assert compared["wait"] > 10


# ---- memory --------------------------------------------------------------------------------------


def test_memory_is_that_of_living_jobs() -> None:
    """Of a job that has ended a few figures stay. As many live at any time."""
    kept: dict[int, int] = {}

    def trace(jobs: int) -> Iterator[TraceJob]:
        for number in range(jobs):
            if number in {100, jobs - 1}:
                gc.collect()
                kept[number], _ = tracemalloc.get_traced_memory()
            yield TraceJob(f"j{number}", number * 60.0, 100.0, 2, 100.0)

    tracemalloc.start()
    try:
        assert run_on_yarn(trace(301), rm_of(1, 8), DEFAULT, {}).report.jobs == 301
    finally:
        tracemalloc.stop()
    assert (kept[300] - kept[100]) / 200 < 500


def test_a_run_of_centuries_stops_and_says_when(monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiting job looks every few seconds, however long the others run."""
    monkeypatch.setattr(simulation, "LEAST_MOST_EVENTS", 1000)
    monkeypatch.setattr(simulation, "EVENTS_PER_JOB", 1000)
    report = on_yarn("fifo", [TraceJob(f"j{number}", 0.0, 1e10, 8) for number in range(2)]).report
    assert report.unfinished == 2
    assert report.stopped_at_s is not None
    assert 100.0 < report.stopped_at_s < 1e9
    assert 0.9 < report.used_share <= 1.0
