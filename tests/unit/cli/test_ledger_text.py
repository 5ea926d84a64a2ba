"""Where a job's time went, in one line."""

from __future__ import annotations

from yarnam.cli.rendering.ledger_text import ledger_line
from yarnam.core.model.job_status import Ledger, LedgerEntry, Use

ENTRIES = (
    LedgerEntry(Use.WAITING, 300.0, 0.0),
    LedgerEntry(Use.HELD, 1.0, 2.0),
    LedgerEntry(Use.KEPT, 660.0, 2640.0),
    LedgerEntry(Use.LOST, 39.0, 156.0),
)


def test_the_largest_use_comes_first_and_the_smallest_is_left_to_the_json() -> None:
    assert ledger_line(Ledger(ENTRIES)) == (
        "ETTR 66%: training 11m00s, waiting 5m00s, training lost 39s; 0.777 GPU hours"
    )


def test_a_guess_says_so() -> None:
    assert "66% (estimated: the program reports no checkpoints):" in ledger_line(
        Ledger(ENTRIES, is_estimated=True)
    )
