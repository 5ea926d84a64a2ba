"""History records for tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.unit.gang.play import T0, Play, failing, job, stopped
from yarnam.core.accounting.history_record import HistoryRecord, RecordFacts, history_record
from yarnam.core.accounting.ledger import account_all
from yarnam.core.model.events import TrainingReported

FACTS = RecordFacts(
    key="20231114-221320-000001",
    application="application_1700000000000_0001",
    submitted_at_s=T0,
    written_by="am",
    am_attempts=1,
    spec_digest="5f",
    yarnam_version="0",
)


def record(*, fails: bool = False, **changes: object) -> HistoryRecord:
    """Of two tasks of two GPUs on two nodes: ten seconds of waiting, 90 of training."""
    play = Play(job())
    play.start()
    play.after(10).plan()
    play.grant_all().register_all()
    play.start_all()
    play.send(TrainingReported(0, 1, 0, 0))
    play.after(90).send(TrainingReported(0, 1, 90, 0, saved_step=60))
    one, two = play.asks()
    if fails:
        play.exited(one, failing(3))
        play.exited(two, stopped(0), stopped(1))
    else:
        play.ok(one)
        play.ok(two)
    gang, accounts = account_all(play.spec, T0, play.events)
    assert gang.verdict is not None
    made = history_record(play.spec, gang, accounts, gang.verdict, FACTS)
    return replace(made, **changes)  # type: ignore[arg-type]


def many(count: int, **changes: object) -> Iterator[HistoryRecord]:
    """Different jobs, one a minute over the months before ``T0``."""
    good, bad = record(**changes), record(fails=True, **changes)
    for number in range(count):
        yield numbered(bad if number % 5 == 4 else good, number)


def numbered(one: HistoryRecord, number: int) -> HistoryRecord:
    from datetime import datetime, timezone

    at_s = T0 - 600.0 * number
    when = datetime.fromtimestamp(at_s, tz=timezone.utc).strftime("%Y%m%d-%H%M%S")
    return replace(
        one,
        key=f"{when}-{number:06x}",
        application=f"application_1700000000000_{number:06d}",
        name=f"train-{number % 7}",
        user=f"user{number % 3}",
        queue=f"root.team{number % 4}.prod",
        submitted_at_s=at_s,
        ended_at_s=at_s + 100.0,
    )
