"""Every policy starts the jobs of any small trace in the same order in the ideal model and in the
model of YARN, up to the delay of a look.

Jobs are compared where the order does not hang by a few seconds: where the ideal model comes to it
too when submissions, run times and starts are a look or two off."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.both_models import LOOK_S, Rows, ideal_rows, yarn_rows
from yarnam.core.policies.policy_registry import NAMES
from yarnam.sim.ideal.trace_job import TraceJob

pytestmark = pytest.mark.sim

SETTINGS = {
    "tiresias": {"limits": "2000,6000"},
    "gittins": {"limits": "2000,6000", "samples": "500,1000,1500,2500,4000,9000"},
}
APART_S = 30.0
"""Those that the ideal model starts closer to each other may start either way."""


@st.composite
def traces(draw: st.DrawFn, *, whole: bool = False) -> tuple[int, list[TraceJob]]:
    """GPUs of the node, and jobs; ``whole``: each needs all GPUs."""
    gpus = draw(st.sampled_from([4, 8]))
    sizes = [gpus] if whole else [1, 2, 3, 4, gpus]
    found: list[TraceJob] = []
    at_s = 0.0
    for name in "ABCDEF"[: draw(st.integers(3, 6))]:
        run_s = draw(st.integers(200, 3000)) + 0.0
        declared_s = draw(st.sampled_from([None, run_s, 2 * run_s]))
        found.append(TraceJob(name, at_s, run_s, draw(st.sampled_from(sizes)), declared_s))
        at_s += draw(st.integers(60, 900))
    return gpus, found


def a_bit_off(policy: str, trace: list[TraceJob], gpus: int, given: dict[str, str]) -> list[Rows]:
    """The ideal model of traces that are alike."""

    def odd(job: TraceJob) -> bool:
        return bool(ord(job.job) % 2)

    found: list[Rows] = []
    for start_s in (0.0, 8.0, 20.0):
        for late in (
            lambda _job: 0.0,
            lambda job: 12.0 * odd(job),
            lambda job: 12.0 * (not odd(job)),
        ):
            shifted = [job._replace(submit_s=job.submit_s + late(job)) for job in trace]
            found.append(ideal_rows(policy, shifted, gpus, given, lambda _job, by=start_s: by))
    for is_cut in (lambda _job: True, odd, lambda job: not odd(job)):
        cut = [job._replace(run_s=job.run_s - 15.0 * is_cut(job)) for job in trace]
        found.append(ideal_rows(policy, cut, gpus, given))
    return found


def overtakers(figure: str, ideal: list[Rows], yarn: Rows) -> list[tuple[str, str]]:
    def at_s(rows: Rows, job: str) -> float:
        return float(getattr(rows[job], figure))

    return [
        (first, then)
        for first in yarn
        for then in yarn
        if all(at_s(rows, first) + APART_S < at_s(rows, then) for rows in ideal)
        and at_s(yarn, first) > at_s(yarn, then) + LOOK_S
    ]


@pytest.mark.parametrize("policy", NAMES)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(world=traces())
def test_nobody_starts_before_whom_the_policy_starts_first(
    policy: str, world: tuple[int, list[TraceJob]]
) -> None:
    gpus, trace = world
    chosen = SETTINGS.get(policy, {})
    yarn = yarn_rows(policy, trace, gpus, chosen)
    assert len(yarn) == len(trace)
    assert not overtakers("start_s", a_bit_off(policy, trace, gpus, chosen), yarn)


@pytest.mark.parametrize("policy", ["fifo", "fifo-backfill", "srtf", "srsf", "tiresias"])
@settings(max_examples=40, deadline=None, derandomize=True)
@given(world=traces(whole=True))
def test_jobs_that_need_the_whole_node_end_in_the_order_of_the_policy(
    policy: str, world: tuple[int, list[TraceJob]]
) -> None:
    gpus, trace = world
    chosen = {"least_run": "0", "least_pause": "0"} if policy[0] in "st" else {}
    if policy == "tiresias":
        chosen |= {"limits": "2000,6000", "promote": "0"}
    yarn = yarn_rows(policy, trace, gpus, chosen)
    assert not overtakers("end_s", a_bit_off(policy, trace, gpus, chosen), yarn)
