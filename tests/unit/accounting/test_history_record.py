"""What stays of a job, its row in lists, its entry in a Philly trace, and sums."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.accounting.records import FACTS, many, record
from tests.unit.gang.play import T0, Play, job
from yarnam.core.accounting.history_record import (
    MAX_NODES,
    MAX_TEXT,
    MeasuredSize,
    history_record,
)
from yarnam.core.accounting.job_summary import HistoryFilter, sum_of, summary_of
from yarnam.core.accounting.ledger import account_all
from yarnam.core.accounting.philly import philly_job
from yarnam.core.accounting.usage import usage
from yarnam.core.model.events import TrainingReported
from yarnam.core.model.job_spec import ElasticSpec
from yarnam.core.model.job_status import Use
from yarnam.core.model.outcomes import Verdict, VerdictKind
from yarnam.wire.codec import decode, encode
from yarnam.wire.records import spec_digest


def test_the_record_says_where_when_and_how_it_went() -> None:
    found = record(fails=True)
    assert (found.name, found.user, found.queue, found.gpus, found.tasks) == (
        "mnist", "ann", "root.ml", 4, 2,
    )  # fmt: skip
    assert found.verdict.kind is VerdictKind.FAILED
    assert found.cause is not None
    assert found.started_at_s == T0 + 10
    assert found.ended_at_s == T0 + 100
    assert [node.node for run in found.placements for node in run.nodes] == ["n1", "n2"]
    assert found.locality == "rack"
    assert (found.step, found.saved_step) == (90, 60)
    assert [one.gpus for one in found.holdings] == [4, 0]
    assert found.ledger is not None
    assert found.ledger.of(Use.KEPT).gpu_s == pytest.approx(240.0)
    assert found.ledger.of(Use.LOST).gpu_s == pytest.approx(120.0)
    assert decode(encode(found), type(found)) == found


def test_the_record_has_the_speed_of_each_run() -> None:
    [size] = record(fails=True).sizes
    assert (size.nodes, size.gpus, size.processes) == (2, 4, 4)
    assert size.compute_s is None
    play = Play(job())
    play.start()
    play.plan()
    play.grant_all().register_all()
    play.start_all()
    for step in (10, 90):
        play.after(20).send(
            TrainingReported(0, 1, step, step_s=0.25, compute_s=0.2, total_steps=1000)
        )
    gang, accounts = account_all(play.spec, T0, play.events)
    ended = Verdict(VerdictKind.CANCELLED, 93, "killed", decided_at_s=T0 + 80)
    [size] = history_record(play.spec, gang, accounts, ended, FACTS).sizes
    assert size == MeasuredSize(2, 4, 4, 0.25, 0.2, 1000)
    [role] = play.spec.roles
    live = replace(
        play.spec, roles=(replace(role, min_tasks=1),), elastic=ElasticSpec(restart=False)
    )
    assert history_record(live, gang, accounts, ended, FACTS).sizes == ()


def test_a_job_whose_am_was_lost_ends_when_yarn_says() -> None:
    play = Play(job())
    play.start()
    play.plan()
    play.grant_all().register_all()
    play.start_all()
    play.after(50)
    gang, accounts = account_all(play.spec, T0, play.events)
    killed = Verdict(VerdictKind.CANCELLED, 93, "killed by YARN", decided_at_s=T0 + 80)
    found = history_record(play.spec, gang, accounts, killed, FACTS)
    assert found.ended_at_s == T0 + 80
    assert found.ledger is not None
    assert found.ledger.wall_s == pytest.approx(80.0)
    assert found.ledger.of(Use.KEPT).wall_s == 0.0
    assert found.ledger.is_estimated


def test_a_job_of_which_nothing_is_known_has_waited() -> None:
    gang, accounts = account_all(job(), T0, [])
    lost = Verdict(VerdictKind.FAILED, 75, "no AM", decided_at_s=T0 + 30)
    found = history_record(job(), gang, accounts, lost, FACTS)
    assert found.ledger is not None
    assert found.ledger.of(Use.WAITING).wall_s == 30.0
    assert (found.started_at_s, found.locality, found.am_attempts) == (None, "", 1)


def test_a_record_is_bounded_whatever_the_job_did() -> None:
    play = Play(job(workers=500, processes=1))
    play.start()
    play.plan()
    for number, ask in enumerate(play.asks()):
        play.after(2).grant(ask, f"node-{number}")
    for number, ask in enumerate(play.asks()):
        play.register(ask, f"node-{number}")
    play.start_all()
    for ask in play.asks():
        play.ok(ask)
    gang, accounts = account_all(play.spec, T0, play.events)
    assert gang.verdict is not None
    loud = replace(gang.verdict, message="x" * 100_000)
    found = history_record(play.spec, gang, accounts, loud, FACTS)
    assert len(found.placements[0].nodes) == MAX_NODES
    assert found.placements[0].more_nodes == 500 - MAX_NODES
    assert len(found.verdict.message) <= MAX_TEXT + 3
    assert found.holdings[-1].gpus == 0
    assert len(encode(found)) < 20_000


def test_filters() -> None:
    rows = [summary_of(one) for one in many(40)]
    assert {row.user for row in rows if HistoryFilter(user="user1").has(row)} == {"user1"}
    queue = HistoryFilter(queue="root.team2")
    assert {row.queue for row in rows if queue.has(row)} == {"root.team2.prod"}
    assert not any(HistoryFilter(queue="root.team").has(row) for row in rows)
    assert sum(HistoryFilter(state="FAILED").has(row) for row in rows) == 8
    since = HistoryFilter(since_s=T0 - 600.0 * 9, until_s=T0 + 100)
    assert sum(since.has(row) for row in rows) == 9
    assert all(HistoryFilter(name="train-3").has(row) == (row.name == "train-3") for row in rows)


def test_usage_adds_up() -> None:
    rows = [summary_of(one) for one in many(40)]
    found = usage(rows, ("user",))
    assert sum(row.total.jobs for row in found) == 40
    assert sum(row.total.held_gpu_s for row in found) == pytest.approx(40 * 360.0)
    whole = sum_of(rows)
    assert (whole.succeeded, whole.failed) == (32, 8)
    assert whole.ettr == pytest.approx((32 * 90 + 8 * 60) / (40 * 100))
    worst = found[0].causes[0]
    assert worst.cause == "unknown"
    assert worst.lost_gpu_s == pytest.approx(120.0 * worst.jobs)


def test_weeks_begin_on_monday_and_come_in_their_order() -> None:
    rows = [summary_of(one) for one in many(2000)]  # 14 November 2023 was a Tuesday
    found = usage(rows, ("week", "queue"))
    assert found[-1].group[0] == "2023-11-13"
    assert [row.group[0] for row in found] == sorted(row.group[0] for row in found)


def test_an_entry_of_the_philly_trace() -> None:
    assert philly_job(record()) == {
        "status": "Pass",
        "vc": "root.ml",
        "jobid": "application_1700000000000_0001",
        "attempts": [
            {
                "start_time": "2023-11-14 22:13:30",
                "end_time": "2023-11-14 22:15:00",
                "detail": [
                    {"ip": "n1", "gpus": ["gpu0", "gpu1"]},
                    {"ip": "n2", "gpus": ["gpu0", "gpu1"]},
                ],
            }
        ],
        "submitted_time": "2023-11-14 22:13:20",
        "user": "ann",
    }


def test_the_digest_tells_specs_apart_and_not_submits() -> None:
    mine = spec_digest(job())
    assert spec_digest(replace(job(), user="eve", idempotency_key="k")) == mine
    assert spec_digest(job(workers=3)) != mine
