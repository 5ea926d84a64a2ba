"""No gang waits for ever: streams of small jobs that never stop, drawn at random, against one gang
that needs most of the cluster."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.scenes import cluster, job, play
from yarnam.core.admission.wait_queue import CERTAIN, MOST_PATIENCE_S
from yarnam.core.model.job_spec import GangSpec
from yarnam.sim import Mode, SimJob

pytestmark = [pytest.mark.sim, pytest.mark.long]

LONGEST_S = 1200.0
BOUND_S = CERTAIN * MOST_PATIENCE_S + LONGEST_S + 600.0
"""Until nobody passes it any more who is not known to end in time; until then the last that has
passed it may have begun; and looks, heartbeats and back-offs on the way."""
STREAM_S = BOUND_S + 3600.0


def stream(dice: random.Random, nodes: int, load: float, declared: float) -> list[SimJob]:
    """Small jobs, numbered from 1, beyond the bound: ``load`` times what the cluster can do."""
    jobs: list[SimJob] = []
    at_s = 0.0
    while at_s < STREAM_S:
        gpus, runs_s = dice.choice((1, 2, 4, 8)), dice.uniform(60.0, LONGEST_S)
        told_s = runs_s * dice.uniform(1.0, 2.0) if dice.random() < declared else None
        jobs.append(job(1 + len(jobs), gpus, at_s=at_s, runs_s=runs_s, declared_s=told_s))
        at_s += dice.expovariate(load * 8 * nodes / (3.75 * 0.5 * (60.0 + LONGEST_S)))
    return jobs


@settings(max_examples=6, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(2, 4),
    st.sampled_from([0.5, 0.75, 1.0]),
    st.sampled_from([0.9, 1.3]),
    st.sampled_from([0.0, 0.5, 1.0]),
)
def test_a_large_gang_gets_its_turn_within_the_bound(
    seed: int, nodes: int, share: float, load: float, declared: float
) -> None:
    small = stream(random.Random(seed), nodes, load, declared)
    large = job(0, 8 * max(1, round(nodes * share)), at_s=900.0, runs_s=300.0)
    jobs = sorted([large, *small], key=lambda each: each.submit_s)
    order = [job_number(each) for each in jobs]
    numbered = [renumbered(each, number) for number, each in enumerate(jobs)]
    outcome = play(Mode.TICKETS, numbered, cluster(nodes), seed=seed, limit_s=5 * STREAM_S)
    record = outcome.records[order.index(0)]
    assert record.wait_s is not None
    assert record.wait_s <= BOUND_S


def job_number(each: SimJob) -> int:
    return each.number


def renumbered(each: SimJob, number: int) -> SimJob:
    return SimJob(number, each.submit_s, each.duration_s, each.declared_s, each.spec)


def test_time_alone_may_let_a_job_pass_the_head() -> None:
    """The head waits for a gang that has declared its end, so nobody of unknown duration passes
    shortly before. The gang runs on beyond that: nothing happens in the cluster, but the head is no
    longer expected soon."""
    jobs = [
        job(0, 8, runs_s=36_000.0, declared_s=18_000.0),
        job(1, 16, at_s=10.0, runs_s=100.0),
        job(2, 8, at_s=17_750.0, runs_s=100.0),
    ]
    outcome = play(Mode.TICKETS, jobs, cluster(2))
    assert 18_000.0 < (outcome.records[2].stood_s or 0.0) < 18_200.0


def test_a_gang_that_does_not_look_first_asks_for_gpus_that_are_taken() -> None:
    blind = GangSpec(look_before_ask=False, hold_timeout_s=20.0, attempts=50)
    jobs = [job(0, 8, runs_s=600.0), job(1, 8, at_s=10.0, gang=blind)]
    outcome = play(Mode.JITTER, jobs, cluster(1))
    assert outcome.records[1].asks > 1, "it never asked while they were taken"
