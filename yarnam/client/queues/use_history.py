"""GPUs over time, from the history and from the jobs that have not ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from yarnam.client.queues.queue_view import queues_now
from yarnam.core.accounting.job_summary import HistoryFilter, JobSummary
from yarnam.core.accounting.use_over_time import (
    Span,
    UsePoint,
    spans_now,
    spans_of,
    use_over_time,
)
from yarnam.core.queues.overview.cluster_overview import gpu_use
from yarnam.core.queues.queues_now import QueueJob
from yarnam.errors import YarnamError

if TYPE_CHECKING:
    from yarnam.client.monitor.job_history import JobHistory, Listing
    from yarnam.client.site import Site

MOST_RECORDS = 20_000
"""Records that one answer reads, of the jobs that ended last: each is a file of its own until it is
compacted."""


@dataclass(frozen=True, slots=True)
class UseHistory:
    """``queues`` are those with use, ``root`` first. ``total_gpus``: of the cluster now, without
    those that are broken; ``None`` if it does not answer."""

    from_s: float
    step_s: float
    queues: Mapping[str, tuple[UsePoint, ...]]
    listing: Listing
    total_gpus: int | None = None
    omitted: int = 0
    """Ended jobs whose records were too many to read."""
    missing: str = ""
    """Why jobs that have not ended do not count; empty if they do."""


class UseReader:
    """Remembers what records say, which never changes. Thread-safe."""

    def __init__(self, site: Site, history: JobHistory, most: int = MOST_RECORDS) -> None:
        self._site = site
        self._history = history
        self._most = most
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[Span, ...]] = {}

    def read(
        self,
        chosen: HistoryFilter,
        user: str,
        period: tuple[float, float, float],
        counts: Callable[[QueueJob], bool] = lambda job: True,
    ) -> UseHistory:
        """``period``: from, to and step. Of the jobs that have not ended those count that
        ``counts``. Raises Unavailable if HDFS does not answer."""
        from_s, to_s, step_s = period
        # A job that ended after the period may have run in it.
        listing = self._history.jobs(replace(chosen, since_s=from_s, until_s=None), user)
        rows = [row for row in listing.rows if row.submitted_at_s < to_s]
        spans = [span for one in self._spans(rows[: self._most]) for span in one]
        total, missing = None, ""
        try:
            now = queues_now(self._site)
        except YarnamError as error:
            missing = error.message
        else:
            use = gpu_use(now.all_nodes or now.nodes)
            total = use.total - use.broken
            living = (job for job in now.jobs if counts(job))
            spans += spans_now(living, min(to_s, time.time()))
        found = use_over_time(spans, from_s, to_s, step_s, total)
        omitted = max(0, len(rows) - self._most)
        return UseHistory(from_s, step_s, found, listing, total, omitted, missing)

    def _spans(self, rows: Sequence[JobSummary]) -> list[tuple[Span, ...]]:
        with self._lock:
            wanted = {(row.user, row.key) for row in rows}
            self._known = {key: one for key, one in self._known.items() if key in wanted}
            unknown = [row for row in rows if (row.user, row.key) not in self._known]
            for record in self._history.records(unknown):
                # A record that names another user is none of his.
                if (record.user, record.key) in wanted:
                    self._known[record.user, record.key] = spans_of(record)
            return list(self._known.values())
