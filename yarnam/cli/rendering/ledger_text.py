"""Where a job's time went, as text."""

from __future__ import annotations

from yarnam.core.model.job_status import Ledger, Use
from yarnam.core.model.printable import duration, gpu_hours

USE_TEXT = {
    Use.WAITING: "waiting",
    Use.HELD: "held incomplete",
    Use.LOCALIZING: "localizing",
    Use.STAGING: "staging",
    Use.PRE_RUN: "pre-run",
    Use.STARTING: "starting",
    Use.KEPT: "training",
    Use.LOST: "training lost",
    Use.CHECKPOINTING: "checkpointing",
    Use.RECOVERING: "recovering",
    Use.SUSPENDED: "suspended",
    Use.IDLE: "idle",
}

LEAST_SHARE = 0.005
"""Smaller parts of the time are not worth a word; the JSON has them."""


def ledger_line(ledger: Ledger) -> str:
    """``ETTR 81%: training 40m10s, waiting 8m02s, training lost 1m11s; 3.3 GPU hours``."""
    wall_s = ledger.wall_s
    shown = [
        entry
        for entry in sorted(ledger.entries, key=lambda entry: -entry.wall_s)
        if entry.wall_s >= LEAST_SHARE * wall_s and entry.wall_s > 0
    ]
    parts = ", ".join(f"{USE_TEXT[entry.use]} {duration(entry.wall_s)}" for entry in shown)
    guess = " (estimated: the program reports no checkpoints)" if ledger.is_estimated else ""
    return f"ETTR {ledger.ettr:.0%}{guess}: {parts}; {gpu_hours(ledger.gpu_s)}"
