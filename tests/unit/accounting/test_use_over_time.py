"""GPUs over time: what a record says of them, and averages that lose nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.accounting.records import record
from tests.unit.gang.play import T0
from tests.unit.queues.test_waiting import job, other
from yarnam.core.accounting.use_over_time import (
    MOST_POINTS,
    MOST_QUEUES,
    ROOT,
    Span,
    spans_now,
    spans_of,
    use_over_time,
)
from yarnam.core.model.job_status import AttemptRecord, Holding, Ledger, LedgerEntry, Use


def gpu_s(spans: tuple[Span, ...], kind: str) -> float:
    return sum((one.to_s - one.from_s) * getattr(one, kind) for one in spans)


def test_a_record_is_divided_as_its_ledger_is() -> None:
    """Of four GPUs: ten seconds of waiting, 90 of training."""
    spans = spans_of(record())
    assert gpu_s(spans, "waiting") == pytest.approx(4 * 10, abs=4)
    assert gpu_s(spans, "used") == pytest.approx(4 * 90, abs=8)
    assert gpu_s(spans, "held_in_vain") == 0


def incomplete(held_gpu_s: float) -> tuple[Span, ...]:
    """Two of four containers for 50 s, then all for 100 s; it trains for the last 100 s."""
    made = replace(
        record(),
        attempts=(AttemptRecord(1, 0, "RACK", T0 + 10, T0 + 160, asked=4, granted=4),),
        holdings=(Holding(T0 + 10, 2, 2), Holding(T0 + 60, 4, 4), Holding(T0 + 160, 0, 0)),
        submitted_at_s=T0,
        ended_at_s=T0 + 200,
        ledger=Ledger(
            (LedgerEntry(Use.WAITING, 10.0, 0.0), LedgerEntry(Use.HELD, 50.0, held_gpu_s))
        ),
    )
    return spans_of(made)


def test_what_an_incomplete_gang_holds_is_held_in_vain() -> None:
    spans = incomplete(100.0)
    assert gpu_s(spans, "held_in_vain") == 100
    assert gpu_s(spans, "used") == 400
    assert gpu_s(spans, "waiting") == 4 * 10, "it stores its outputs at the end"


def test_no_more_is_in_vain_than_the_ledger_says() -> None:
    """An elastic gang trains before all that it has asked for is there."""
    spans = incomplete(25.0)
    assert gpu_s(spans, "held_in_vain") == pytest.approx(25)
    assert gpu_s(spans, "used") == pytest.approx(475)


def test_a_job_that_never_held_anything_has_waited_to_its_end() -> None:
    made = replace(record(), holdings=(), attempts=(), submitted_at_s=T0, ended_at_s=T0 + 50,
                   ledger=Ledger((LedgerEntry(Use.WAITING, 50.0, 0.0),)))  # fmt: skip
    assert gpu_s(spans_of(made), "waiting") == 4 * 50


def test_jobs_that_have_not_ended_count_up_to_now() -> None:
    spans = spans_now((job(), other(1), replace(job(), gpus=None)), 100.0)
    assert spans == (
        Span("root.a", 50.0, 100.0, waiting=8), Span("root.a", 10.0, 100.0, used=8),
    )  # fmt: skip


def test_each_queue_counts_with_those_below_it() -> None:
    spans = (Span("root.dl.vision", 0, 20, used=4), Span("root.dl", 10, 20, waiting=2),
             Span("other", 0, 5, held_in_vain=2))  # fmt: skip
    found = use_over_time(spans, 0, 20, 10)
    assert list(found) == [ROOT, "other", "root.dl", "root.dl.vision"]
    rows = {name: [(p.used, p.held_in_vain, p.waiting) for p in found[name]] for name in found}
    assert rows[ROOT] == [(4, 1, 0), (4, 0, 2)]
    assert rows["root.dl"] == [(4, 0, 0), (4, 0, 2)]
    assert rows["other"] == [(0, 1, 0), (0, 0, 0)]


SPANS = st.lists(
    st.builds(
        Span,
        st.sampled_from(["root.a", "root.b"]),
        st.floats(-50, 150),
        st.floats(-50, 150),
        st.integers(0, 100).map(float),
        st.integers(0, 100).map(float),
        st.integers(0, 100).map(float),
    ),
    max_size=20,
)


@given(SPANS, st.integers(1, 30))
def test_nothing_within_the_period_is_lost(spans: list[Span], count: int) -> None:
    step_s = 100.0 / count
    found = use_over_time(spans, 0.0, 100.0, step_s)
    for name in ("used", "held_in_vain", "waiting"):
        expected = sum(
            max(0.0, min(100.0, one.to_s) - max(0.0, one.from_s)) * getattr(one, name)
            for one in spans
        )
        got = sum(getattr(point, name) * step_s for point in found[ROOT])
        assert got == pytest.approx(expected, rel=1e-6, abs=0.2)
        assert all(getattr(point, name) >= 0 for point in found[ROOT])


def test_what_others_write_into_their_records_is_bounded() -> None:
    spans = [Span(f"root.{k}", 0.0, 1e12, used=1e14) for k in range(MOST_QUEUES + 50)]
    spans.append(Span(".".join("x" * 5000), 0.0, 1.0, used=1.0))
    found = use_over_time(spans, 0.0, 1e9, 1.0, most_gpus=8)
    assert len(found) == MOST_QUEUES
    assert len(found[ROOT]) == MOST_POINTS
    assert max(len(name) for name in found) < 30
    assert found["root.0"][5].used == 8
