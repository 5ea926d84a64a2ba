"""The history of ended jobs, from the records on HDFS of one user or of all."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hdfs_utils import HdfsError
from hdfs_utils import uri as uris
from yarnam._light_imports import on_first_use
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.client.user_paths import key_in
from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.accounting.job_retention import KEPT_S
from yarnam.core.accounting.job_summary import HistoryFilter, JobSummary
from yarnam.errors import UsageError, YarnamError

if TYPE_CHECKING:
    from yarnam.adapters.hdfs.histories_of_all import HistoriesOfAll
    from yarnam.adapters.hdfs.history_store import HistoryStore
    from yarnam.client.site import Site

with on_first_use():
    from yarnam.adapters.hdfs import histories_of_all, history_store
    from yarnam.client.monitor import record_completion
    from yarnam.client.submit.leftovers import job_removal

log = logging.getLogger("yarnam.client")

ALL_USERS = "*"

COMPACT_ABOVE = 256
"""The most single records: with more, a list compacts them once it has read them."""

RETENTION_S = 730 * 86400.0
"""Compaction removes records of jobs that ended this long before the newest one: two years let a
year be compared with the one before. The period is our own choice; Slurm's accounting keeps all by
default."""

RETENTION_RECORDS = 100_000
"""Compaction also removes the oldest records above this count: as many are listed in 2 s
(tests/benchmarks/test_history.py)."""

MOST_NAMED = 5
"""The most users that an error names."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Ended jobs, the newest end first. ``unreadable`` records are of another version, or damaged;
    ``hidden`` users keep theirs to themselves; of ``cut`` users only the newest were read."""

    rows: tuple[JobSummary, ...]
    unreadable: int = 0
    hidden: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()


class JobHistory:
    """The history as one user sees it. All calls raise Unavailable when HDFS does not answer.
    Several threads may use it; the jobs of all users are read by one at a time."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._of_all: HistoriesOfAll | None = None
        self._lock = threading.Lock()

    def jobs(self, chosen: HistoryFilter | None = None, user: str = "") -> Listing:
        """A filter of jobs. ``user`` is by default your own; ``*`` selects all jobs that can be
        read."""
        if user != ALL_USERS:
            store = self._store(user or self._site.user)
            found = store.listing(chosen)
            if found.single > COMPACT_ABOVE and user in {"", self._site.user}:
                with suppress(YarnamError):
                    self.compact()
            return Listing(_newest_first(found.rows), found.unreadable)
        with self._lock:
            if self._of_all is None:
                self._of_all = histories_of_all.HistoriesOfAll(self._store)
            of_all = self._of_all.listing(self._users(), self._site.user, chosen)
        return Listing(_newest_first(of_all.rows), of_all.unreadable, of_all.hidden, of_all.cut)

    def record(self, reference: str, user: str = "") -> HistoryRecord:
        """The record of one job: an application id, a key, the start of a name (the newest of that
        name), or ``last``. Raises UsageError, WireMismatch."""
        rows = [row for row in self.jobs(user=user).rows if _is_called(row, reference)]
        found = rows[0] if rows else None
        owners = {row.user for row in rows if reference in {row.application, row.key}}
        if len(owners) > 1:
            raise UsageError(
                f"{len(owners)} users have a record of {reference} in their histories: "
                f"{', '.join(sorted(owners)[:MOST_NAMED])}",
                hint="One of them at most is true. Name the job's owner: --user NAME",
            )
        record = self._store(found.user).record(found.key) if found is not None else None
        if found is None or record is None or record.user != found.user:
            raise UsageError(
                f"the history has no job {reference}",
                hint="To list it: yarnam history list\n"
                "To add jobs whose ApplicationMaster was lost: yarnam history repair",
            )
        return record

    def records(self, rows: Sequence[JobSummary]) -> Iterator[HistoryRecord]:
        """The whole records of these rows, as far as they can be read."""
        by_user: dict[str, list[str]] = {}
        for row in rows:
            by_user.setdefault(row.user, []).append(row.key)
        for user, keys in by_user.items():
            yield from self._store(user).records(keys)

    def repair(self) -> list[HistoryRecord]:
        """Write the records of your own ended jobs that have none; those that were written."""
        store = record_completion.own_history(self._site)
        known, pruned = store.keys(), store.pruned_before()
        applications = {
            key_in(one.tags): one for one in self._site.rm.applications(user=self._site.user)
        }
        written = []
        for key in self._job_keys():
            if key in known or key <= pruned:
                continue
            try:
                record = record_completion.record_from_files(self._site, key, applications.get(key))
            except YarnamError as error:
                log.warning("the history record of %s cannot be written: %s", key, error)
                continue
            if record is not None:
                store.put(record)
                written.append(record)
        return written

    def compact(self) -> int:
        """Put your own records together, one file a month, and remove those beyond ``RETENTION_S``
        and ``RETENTION_RECORDS``; how many were moved."""
        store = self._store(self._site.user)
        moved = store.compact()
        store.retain(RETENTION_S, RETENTION_RECORDS)
        return moved

    def prune(self, *, before_s: float | None = None, keep: int | None = None) -> int:
        """Remove your own records of jobs that ended before a time, and the oldest above a count;
        how many."""
        return self._store(self._site.user).prune(before_s=before_s, keep=keep)

    def prune_files(
        self, *, kept_s: float = KEPT_S, is_trial: bool = False
    ) -> tuple[job_removal.JobFiles, ...]:
        """Remove the directories of your own jobs that ended this long ago; their records stay.
        Returns those, and the ones that are old enough and have to stay, with the reason.
        ``is_trial``: removes nothing."""
        return job_removal.remove_old(self._site, kept_s, is_trial=is_trial)

    def _store(self, user: str) -> HistoryStore:
        return history_store.HistoryStore(self._site.files, self._site.paths_of(user).history)

    def _users(self) -> list[str]:
        homes = f"{self._site.files.uri}{self._site.home_prefix}"
        with hdfs_errors(f"listing {homes}"):
            return [uris.name(one.path) for one in self._site.files.list(homes) if one.is_dir]

    def _job_keys(self) -> list[str]:
        try:
            listed = self._site.files.list(self._site.paths.jobs)
        except HdfsError:
            return []
        return sorted(uris.name(one.path) for one in listed if one.is_dir)


def _newest_first(rows: Sequence[JobSummary]) -> tuple[JobSummary, ...]:
    return tuple(sorted(rows, key=lambda row: row.ended_at_s, reverse=True))


def _is_called(row: JobSummary, reference: str) -> bool:
    return (
        reference == "last"
        or reference in {row.application, row.key}
        or row.name.startswith(reference)
    )
