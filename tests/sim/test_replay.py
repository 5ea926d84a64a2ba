"""The past as a workload, and what each queue got."""

from __future__ import annotations

import pytest

from tests.sim.scenes import cluster
from tests.sim.test_queues import EAGER, TWO, tree
from tests.unit.accounting.records import record
from yarnam.client.queues.what_if import past_job
from yarnam.core.model.resources import Resources
from yarnam.sim import Mode, SimSettings, simulate
from yarnam.sim.what_if.queue_figures import queue_figures
from yarnam.sim.what_if.replay import PastJob, PastRole, replay

pytestmark = pytest.mark.sim

LATE_S = 1_700_000_000.0


def past(queue: str, gpus: int, *, at_s: float, run_s: float, each: int = 8) -> PastJob:
    role = PastRole("worker", gpus // each, Resources(32768 * each, 4 * each, each))
    return PastJob(queue, LATE_S + at_s, run_s, (role,))


def test_jobs_come_by_their_submission_and_those_that_cannot_run_are_counted() -> None:
    rm = cluster(4, root=tree(TWO), queues=())
    given = replay(
        [
            past("root.b", 8, at_s=60.0, run_s=10.0),
            past("root.a.y", 8, at_s=0.0, run_s=20.0),
            past("root.a", 8, at_s=1.0, run_s=20.0),
            past("root.gone", 8, at_s=1.0, run_s=20.0),
            past("root.b", 16, at_s=1.0, run_s=20.0, each=16),
        ],
        rm,
    )
    assert [(job.queue, job.submit_s, job.duration_s) for job in given.workload.jobs] == [
        ("root.a.y", 0.0, 20.0),
        ("root.b", 60.0, 10.0),
    ]
    assert given.refused == {"root.a": 1, "root.gone": 1}
    assert given.too_large == {"root.b": 1}


def test_figures_of_each_queue_by_hand() -> None:
    rm = cluster(4, root=tree(TWO), queues=(), preemption=EAGER)
    given = replay(
        [
            past("root.a.x", 32, at_s=0.0, run_s=3000.0),
            past("root.b", 16, at_s=900.0, run_s=100.0),
            past("root.gone", 8, at_s=900.0, run_s=100.0),
        ],
        rm,
    )
    outcome = simulate(given.workload, SimSettings(Mode.TICKETS, rm=rm))
    rows = {row.queue: row for row in queue_figures(outcome, given)}
    assert list(rows) == ["root.a.x", "root.b", "root.gone", "all"]
    victim, taker = rows["root.a.x"], rows["root.b"]
    assert (victim.preemptions, taker.preemptions) == (1, 0)
    # One container was asked for first: the gang that loses one leaves as a whole.
    assert victim.preempted_gpus == 8
    # 900 s of 32 GPUs before the other came, of 900 s of 32 GPUs.
    assert victim.share == pytest.approx(1.0, abs=0.02)
    # 100 s, and up to 50 s until all that it had asked for was there.
    assert 16 * 100 / 3600 < taker.gpu_hours < 16 * 150 / 3600
    # About 400 s were lost since its checkpoint: 32 GPUs for 3,400 s.
    assert victim.gpu_hours == pytest.approx(32 * 3400 / 3600, rel=0.05)
    assert (rows["root.gone"].jobs, rows["root.gone"].refused) == (1, 1)
    assert rows["all"].jobs == 3
    assert rows["all"].wait_max_s == taker.wait_max_s > 40.0


def test_a_record_tells_what_a_job_needs_without_what_it_lost() -> None:
    good, failed = past_job(record()), past_job(record(fails=True))
    assert good is not None
    assert failed is not None
    assert good.run_s == pytest.approx(90.0)
    assert failed.run_s == pytest.approx(60.0), "30 s of training were lost"
    assert [(role.tasks, role.resources.gpus) for role in good.roles] == [(2, 2)]
    assert past_job(record(started_at_s=None)) is None
