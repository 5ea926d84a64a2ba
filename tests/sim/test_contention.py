"""Deadlock, livelock, starvation: what each way of contending comes to."""

from __future__ import annotations

import pytest

from tests.sim.scenes import cluster, job, play, stuck
from yarnam.core.model.job_spec import GangSpec
from yarnam.sim import Mode
from yarnam.sim.report import idle_share
from yarnam.sim.sim_settings import QueueSettings

pytestmark = pytest.mark.sim

OURS = [Mode.TICKETS, Mode.JITTER]


def two_of_five(gang: GangSpec | None = None) -> list:
    return [job(n, 5, per_task=1, runs_s=100.0, gang=gang) for n in range(2)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("mode", OURS)
def test_two_gangs_of_five_on_eight_gpus_both_finish(mode: Mode, seed: int) -> None:
    outcome = play(mode, two_of_five(), cluster(2, 4), seed=seed)
    assert not stuck(outcome)
    assert not any(record.is_failed for record in outcome.records)
    first, second = sorted(record.stood_s or 0.0 for record in outcome.records)
    assert second >= first + 100.0, "both ran at once on eight GPUs"
    assert second <= first + 100.0 + 60.0, "the second one waited longer than a look or two"


def test_two_gangs_of_five_on_eight_gpus_block_each_other_for_ever_without_gangs() -> None:
    outcome = play(Mode.HOLD, two_of_five(), cluster(2, 4))
    assert outcome.is_quiet
    assert stuck(outcome) == [0, 1]
    assert idle_share(outcome) == 1.0


def test_hbox_fails_both_after_ten_minutes() -> None:
    outcome = play(Mode.HBOX, two_of_five(), cluster(2, 4))
    assert all(record.is_failed for record in outcome.records)
    assert all(600 <= (record.ended_s or 0) <= 610 for record in outcome.records)


def test_the_central_scheduler_runs_one_after_the_other_without_a_pause() -> None:
    outcome = play(Mode.CENTRAL, two_of_five(), cluster(2, 4))
    assert [record.stood_s for record in outcome.records] == [0.0, 100.0]


@pytest.mark.parametrize("seed", range(3))
def test_blind_gangs_collide_but_do_not_deadlock(seed: int) -> None:
    """Without looking, the hold timeout and the back-off alone must get both through."""
    gang = GangSpec(look_before_ask=False, hold_timeout_s=20.0, attempts=50)
    outcome = play(Mode.JITTER, two_of_five(gang), cluster(2, 4), seed=seed)
    assert not stuck(outcome)
    assert not any(record.is_failed for record in outcome.records)
    assert sum(record.attempts for record in outcome.records) > 2, "they never collided"


@pytest.mark.parametrize("mode", OURS)
def test_many_gangs_with_room_for_two_make_progress(mode: Mode) -> None:
    """OpenPAI's gang livelock (pai #4034): ten jobs within seconds, none of them started."""
    jobs = [job(n, 8, at_s=0.1 * n, runs_s=120.0) for n in range(20)]
    outcome = play(mode, jobs, cluster(2))
    assert not stuck(outcome)
    assert not any(record.is_failed for record in outcome.records)
    ends = sorted(record.ended_s or 0.0 for record in outcome.records)
    rounds = [later - sooner for sooner, later in zip(ends, ends[2:], strict=False)]
    assert max(rounds) < 120.0 + 60.0, "nothing ended for longer than a run and a look"
    assert idle_share(outcome) < 0.08


def small_stream(queue: str = "root.a") -> list:
    """More one-GPU jobs than the cluster can take, from the first second on."""
    return [
        job(n, 1, at_s=5.0 * n, runs_s=150.0 + 10 * (n % 5), declared_s=600.0, queue=queue)
        for n in range(1, 400)
    ]


def test_a_large_gang_gets_its_turn_behind_an_endless_stream_of_small_ones() -> None:
    large = job(0, 16, at_s=400.0, runs_s=60.0)
    jobs = [*small_stream(), large]
    jobs = sorted(jobs, key=lambda one: one.number)
    wait_s = play(Mode.TICKETS, jobs, cluster(4), limit_s=2000.0).records[0].wait_s
    assert wait_s is not None
    assert wait_s < 1500.0
    by_jitter = play(Mode.JITTER, jobs, cluster(4), limit_s=2000.0).records[0].wait_s
    assert by_jitter is None, "the stream is no test of starvation"


def test_it_gets_its_turn_in_a_cluster_of_one_rack_too() -> None:
    """Where no rack can be left to the others, so that YARN may put them on kept nodes."""
    jobs = sorted([*small_stream(), job(0, 16, at_s=400.0)], key=lambda one: one.number)
    rm = cluster(4, nodes_per_rack=4)
    wait_s = play(Mode.TICKETS, jobs, rm, limit_s=2000.0).records[0].wait_s
    assert wait_s is not None
    assert wait_s < 1500.0


def test_a_head_whose_queue_is_full_does_not_block_the_others() -> None:
    queues = (QueueSettings("root.a", max_gpus=8), QueueSettings("root.b"))
    jobs = [
        job(0, 8, runs_s=5000.0, queue="root.a"),
        job(1, 8, at_s=10.0, queue="root.a"),
        job(2, 8, at_s=20.0, queue="root.b"),
    ]
    outcome = play(Mode.TICKETS, jobs, cluster(2, queues=queues))
    assert (outcome.records[2].wait_s or 1e9) < 60.0
    assert (outcome.records[1].stood_s or 0.0) > 5000.0


def test_a_queue_below_its_share_is_served_before_one_above_it() -> None:
    """Also where two nodes come free at once: what its queue has asked for counts."""
    queues = (QueueSettings("root.a"), QueueSettings("root.b"))
    jobs = [job(n, 8, at_s=n, runs_s=300.0, queue="root.a") for n in range(6)]
    jobs.append(job(6, 8, at_s=100.0, runs_s=300.0, queue="root.b"))
    outcome = play(Mode.TICKETS, jobs, cluster(2, queues=queues))
    late = outcome.records[6].stood_s or 1e9
    assert late < 400.0
    assert late < max(record.stood_s or 0.0 for record in outcome.records[:6])


def test_a_declared_short_gang_runs_on_nodes_that_are_kept() -> None:
    jobs = [
        job(0, 4, runs_s=18_000.0, declared_s=18_000.0),
        job(1, 8, at_s=10.0),
        job(2, 4, at_s=17_830.0, runs_s=100.0, declared_s=150.0),
        job(3, 4, at_s=17_840.0, runs_s=100.0),
    ]
    outcome = play(Mode.TICKETS, jobs, cluster(1))
    assert (outcome.records[2].wait_s or 1e9) < 60.0
    assert (outcome.records[1].stood_s or 1e9) < 18_060.0, "the backfill delayed the head"
    assert (outcome.records[3].stood_s or 0.0) > 18_000.0, "an undeclared gang went before the head"
