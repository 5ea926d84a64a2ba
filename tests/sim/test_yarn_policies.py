"""Policies on the model of YARN: the same functions, by every job's ApplicationMaster on its
own."""

from __future__ import annotations

import pytest

from yarnam.core.policies.policy_registry import policy_named
from yarnam.core.policies.policy_settings import read_settings
from yarnam.errors import UsageError
from yarnam.sim.ideal.ideal_run import run
from yarnam.sim.ideal.ideal_settings import IdealSettings, Knows
from yarnam.sim.ideal.policy_comparison import PolicyFigures
from yarnam.sim.ideal.trace_job import TraceJob
from yarnam.sim.ideal.yarn_trace_run import rm_of, run_on_yarn

pytestmark = pytest.mark.sim

TRACE = [
    TraceJob(
        f"j{number}", number * 20.0, 300.0 + 137 * number % 900, 1 << number % 4,
        declared_s=400.0 + 137 * number % 900,
    )
    for number in range(24)
]  # fmt: skip


def on_yarn(policy: str, trace: list[TraceJob], **given: str) -> PolicyFigures:
    chosen = read_settings(policy, policy_named(policy).settings, given)
    return run_on_yarn(trace, rm_of(2, 8), policy, chosen)


@pytest.mark.parametrize("policy", ["smallest-first", "fifo", "fifo-backfill"])
def test_yarn_costs_little_beside_the_ideal_model(policy: str) -> None:
    """Two dozen gangs that want about twice what there is. Heartbeats, polls and starts take
    seconds."""
    real = on_yarn(policy, TRACE).report
    chosen = read_settings(policy, policy_named(policy).settings, {})
    settings = IdealSettings(policy, 16, chosen, ((8, 0), (8, 0)), knows=Knows.DECLARED)
    ideal = run(TRACE, settings).report
    print(f"{policy}: {real.jct_mean_s:.0f} s on YARN, {ideal.jct_mean_s:.0f} s ideal")
    assert real.unfinished == 0
    assert real.jct_mean_s <= 1.15 * ideal.jct_mean_s


def test_a_later_job_does_not_pass_under_fifo_and_may_under_backfill() -> None:
    trace = [
        TraceJob("long", 0.0, 3000.0, 12, declared_s=3000.0),
        TraceJob("head", 10.0, 100.0, 16, declared_s=100.0),
        TraceJob("short", 20.0, 500.0, 4, declared_s=500.0),
    ]
    strict = list(on_yarn("fifo", trace).figures.jcts)
    filled = list(on_yarn("fifo-backfill", trace).figures.jcts)
    assert strict[2] > 3000.0
    assert filled[2] < 700.0
    # The first in the queue is not delayed by it.
    assert filled[1] == pytest.approx(strict[1], abs=30.0)


def test_equal_seeds_give_equal_runs() -> None:
    assert on_yarn("fifo-backfill", TRACE).report == on_yarn("fifo-backfill", TRACE).report


def test_a_policy_that_suspends_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot suspend or resize for tiresias"):
        on_yarn("tiresias", TRACE[:2])
