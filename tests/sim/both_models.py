"""One trace on one node, in the ideal model and in the model of YARN. On several nodes the models
differ by placement: the planner packs better than first fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from yarnam.core.policies.policy_registry import policy_named
from yarnam.core.policies.policy_settings import Settings, read_settings
from yarnam.sim.ideal.ideal_report import IdealRow
from yarnam.sim.ideal.ideal_run import run
from yarnam.sim.ideal.ideal_settings import IdealSettings, Overhead, RunTimes
from yarnam.sim.ideal.trace_job import TraceJob
from yarnam.sim.ideal.yarn_trace_run import rm_of, run_on_yarn

LOOK_S = 10.0
"""In which a change is seen and carried out: a look, a stop, and containers of the next gang."""

Rows = dict[str, IdealRow]


def chosen(policy: str, given: Mapping[str, str]) -> Settings:
    return read_settings(policy, policy_named(policy).settings, given)


def ideal_rows(
    policy: str,
    trace: Sequence[TraceJob],
    gpus: int,
    given: Mapping[str, str],
    start_cost: Callable[[TraceJob], float] = lambda _job: 0.0,
) -> Rows:
    rows: Rows = {}
    settings = IdealSettings(
        policy, gpus, chosen(policy, given), ((gpus, 0),), run_times=RunTimes.DECLARED,
        overhead=Overhead.RESTART, overhead_of=start_cost,
    )  # fmt: skip
    run(trace, settings, on_row=lambda row: rows.update({row.job: row}))
    return rows


def yarn_rows(policy: str, trace: Sequence[TraceJob], gpus: int, given: Mapping[str, str]) -> Rows:
    rows: Rows = {}
    run_on_yarn(
        trace, rm_of(1, gpus), policy, chosen(policy, given),
        on_row=lambda row: rows.update({row.job: row}),
    )  # fmt: skip
    return rows
