"""Findings as agents report them."""

from __future__ import annotations

from math import isfinite

from yarnam.core.model.outcomes import (
    FailureClass,
    FailureRole,
    Finding,
    Origin,
    RetryAction,
    Stream,
)
from yarnam.errors import Blame
from yarnam.wire.pb import yarnam_pb2 as pb

_LATEST_S = 4_102_444_800.0
"""The year 2100: no clock is so wrong."""


def _origin(report: pb.Finding) -> Origin | None:
    """Raises ValueError."""
    if not report.HasField("written_at_s") or not 0 <= report.written_at_s <= _LATEST_S:
        return None
    return Origin(Stream(report.stream) if report.stream else None, report.written_at_s)


def finding_of_report(report: pb.Finding) -> Finding | None:
    """``None`` means it has a word that this version does not know."""
    try:
        return Finding(
            rule=report.rule,
            failure=FailureClass(report.failure),
            role=FailureRole(report.role),
            action=RetryAction(report.action),
            blame=Blame(report.blame),
            line=report.line,
            explanation=report.explanation,
            hint=report.hint,
            is_weak=report.weak,
            at_s=report.at_s if report.HasField("at_s") and isfinite(report.at_s) else None,
            ruled_out=tuple(report.ruled_out),
            origin=_origin(report),
        )
    except ValueError:
        return None
