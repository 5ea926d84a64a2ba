"""History records as entries of Microsoft's Philly trace: what tools made for that trace can read.

``cluster_job_log`` of https://github.com/msr-fiddle/philly-traces (Jeon et al., "Analysis of
Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", ATC 2019). Times are UTC here.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TypedDict

from yarnam.core.accounting.history_record import HistoryRecord, RunPlacement
from yarnam.core.model.outcomes import VerdictKind
from yarnam.core.model.printable import MOST_SHOWN_AT_S, within

STATUS = {
    VerdictKind.SUCCEEDED: "Pass",
    VerdictKind.FAILED: "Failed",
    VerdictKind.CANCELLED: "Killed",
}


class PhillyNode(TypedDict):
    """The processes that ran on one node; GPUs are numbered within the entry, as the trace numbers
    them."""

    ip: str
    gpus: list[str]


class PhillyAttempt(TypedDict):
    """One run."""

    start_time: str
    end_time: str
    detail: list[PhillyNode]


class PhillyJob(TypedDict):
    """One entry. ``vc`` is the virtual cluster: the queue."""

    status: str
    vc: str
    jobid: str
    attempts: list[PhillyAttempt]
    submitted_time: str
    user: str


def philly_job(record: HistoryRecord) -> PhillyJob:
    """One record. Attempts that never got their gang are none there."""
    ends = {one.attempt: (one.started_at_s, one.ended_at_s) for one in record.attempts}
    attempts: list[PhillyAttempt] = []
    for run in record.placements:
        started_s, ended_s = ends.get(run.attempt, (record.started_at_s or 0.0, None))
        attempts.append(
            {
                "start_time": _time(started_s),
                "end_time": _time(record.ended_at_s if ended_s is None else ended_s),
                "detail": _detail(run),
            }
        )
    return {
        "status": STATUS[record.verdict.kind],
        "vc": record.queue,
        "jobid": record.application,
        "attempts": attempts,
        "submitted_time": _time(record.submitted_at_s),
        "user": record.user,
    }


def _detail(run: RunPlacement) -> list[PhillyNode]:
    return [
        {"ip": node.node, "gpus": [f"gpu{number}" for number in range(node.gpus)]}
        for node in run.nodes
    ]


def _time(at_s: float) -> str:
    at_s = within(at_s, MOST_SHOWN_AT_S)
    return datetime.fromtimestamp(at_s, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
