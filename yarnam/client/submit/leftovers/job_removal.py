"""Removes the directories of ended jobs from HDFS, once they have been kept for long enough.

Each submit looks at some of them at random; `yarnam history prune --jobs` looks at all.
"""

from __future__ import annotations

import calendar
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hdfs_utils import uri as uris
from hdfs_utils.errors import NotFound
from hdfs_utils.filesystem import FileStatus
from yarnam._light_imports import on_first_use
from yarnam.adapters.hdfs.claim_files import HeldClaims
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.adapters.hdfs.small_files import clock_s, read_if_exists
from yarnam.client.site import Site
from yarnam.client.user_paths import is_key, key_in, tag_of
from yarnam.core.accounting.job_retention import KEPT_S, JobDirectory, why_kept
from yarnam.core.model.job_status import JobStatus
from yarnam.core.model.outcomes import Verdict, VerdictKind
from yarnam.errors import YarnamError
from yarnam.wire import protocol
from yarnam.wire.codec import decode
from yarnam.wire.records import AmRecord, JobRecord

if TYPE_CHECKING:
    from yarnam.adapters.hdfs.history_store import HistoryStore
    from yarnam.adapters.yarn.rest_parse import YarnApplication

with on_first_use():
    from yarnam.adapters.hdfs import history_store

SAMPLE = 20
"""Directories that one submit looks at, out of those that are old enough."""

MOST_REMOVED = 5
"""Directories that one submit removes: more than it adds."""

_OWN_NAMES = frozenset(
    {
        protocol.JOB_FILE,
        protocol.AM_FILE,
        protocol.VERDICT_FILE,
        protocol.STATUS_FILE,
        *protocol.SECRET_FILES,
        protocol.INPUTS_FILE,
        protocol.TICKET_FILE,
        protocol.EPOCHS_FILE,
        protocol.NOTIFIED_FILE,
        protocol.JOURNAL_DIRECTORY,
        protocol.FENCE_DIRECTORY,
        protocol.HADOOP_CONF_FILE,
        protocol.SHIPPED_DIRECTORY,
        protocol.RESULTS_DIRECTORY,
        protocol.FETCHED_DIRECTORY,
    }
)


@dataclass(frozen=True, slots=True)
class JobFiles:
    """The directory of one ended job."""

    key: str
    application: str
    """Empty if it is not known."""
    why_kept: str
    """Empty if the directory was removed, or would be."""


def remove_some(site: Site) -> None:
    """Raises nothing: a submit continues without it."""
    with suppress(YarnamError):
        old = _old_keys(site, time.time() - KEPT_S)
        removed = 0
        for each in _sweep(site, random.sample(old, min(SAMPLE, len(old))), KEPT_S):
            removed += not each.why_kept
            if removed >= MOST_REMOVED:
                return


def remove_old(
    site: Site, kept_s: float = KEPT_S, *, is_trial: bool = False
) -> tuple[JobFiles, ...]:
    """Remove the directories of all jobs that ended this long ago; those and the ones that stay
    for another reason, oldest first. ``is_trial``: removes nothing. Raises Unavailable."""
    return tuple(_sweep(site, _old_keys(site, time.time() - kept_s), kept_s, is_trial=is_trial))


def _sweep(
    site: Site, keys: Sequence[str], kept_s: float, *, is_trial: bool = False
) -> Iterator[JobFiles]:
    if not keys:
        return
    now_s = clock_s(site.files, site.paths.root)
    store = history_store.HistoryStore(site.files, site.paths.history)
    for start in range(0, len(keys), SAMPLE):
        some = keys[start : start + SAMPLE]
        known = site.rm.applications(user=site.user, tags=[tag_of(key) for key in some])
        applications = {key_in(app.tags): app for app in known}
        for key in some:
            try:
                directory, application = _examined(site, key, applications.get(key), store)
                reason = why_kept(directory, now_s, kept_s)
                if not reason and not is_trial:
                    with hdfs_errors(f"removing {site.paths.job(key)}"):
                        _remove(site, key, application)
            except YarnamError as error:  # one that cannot be read stops no other
                yield JobFiles(key, "", error.message)
            else:
                yield JobFiles(key, application, reason)


def _remove(site: Site, key: str, application: str) -> None:
    """The application's entry first: what is left of an interrupted removal is found again. Before
    it the claims, which a job leaves behind whose last AM was killed."""
    record = decode(_read(site, key, protocol.JOB_FILE) or b"", JobRecord)
    HeldClaims(site.files, record.job, key, site.rm.url, site.connect).release()
    if application:
        site.files.delete(site.paths.application(application))
    site.files.delete(site.paths.job(key), recursive=True)


def _examined(
    site: Site, key: str, application: YarnApplication | None, store: HistoryStore
) -> tuple[JobDirectory, str]:
    """Facts for the decision, and the id of the application, as far as it is known."""
    listed = _listed(site, site.paths.job(key))
    record = decode(_read(site, key, protocol.JOB_FILE) or b"", JobRecord)
    verdict_file = _read(site, key, protocol.VERDICT_FILE)
    status_file = _read(site, key, protocol.STATUS_FILE)
    am_file = _read(site, key, protocol.AM_FILE)
    verdict = decode(verdict_file, Verdict) if verdict_file else None
    status = decode(status_file, JobStatus) if status_file else None
    folder = protocol.RESULTS_DIRECTORY
    results = _listed(site, f"{site.paths.job(key)}/{folder}") if folder in listed else {}
    directory = JobDirectory(
        changed_at_s=max((each.mtime_ms for each in listed.values()), default=0) / 1000,
        is_over=application.is_over if application is not None else None,
        is_of_this_cluster=record.rm_url == site.rm.url,
        is_in_history=store.has(key),
        has_verdict=verdict is not None,
        state=status.state if status is not None else None,
        is_kept_forever=record.job.keeps_files,
        is_output_missing=_is_output_missing(record, verdict, status),
        has_unfetched_results=bool(results) and protocol.FETCHED_DIRECTORY not in listed,
        foreign_names=tuple(sorted(listed.keys() - _OWN_NAMES)),
    )
    if application is not None:
        return directory, application.application
    return directory, decode(am_file, AmRecord).application if am_file else ""


def _is_output_missing(
    record: JobRecord, verdict: Verdict | None, status: JobStatus | None
) -> bool:
    """A job without success stores nothing, except where storing had begun."""
    if not record.job.output:
        return False
    if status is not None and status.output is not None:
        return not status.output.is_stored
    return verdict is None or verdict.kind is VerdictKind.SUCCEEDED


def _old_keys(site: Site, before_s: float) -> list[str]:
    """Jobs that were submitted before then, oldest first: no later one can have ended before."""
    return sorted(key for key in _listed(site, site.paths.jobs) if begun_s(key) < before_s)


def begun_s(key: str) -> float:
    """When the job was submitted, by its client's clock; infinite if this is not a job's key."""
    if not is_key(key):
        return float("inf")
    try:
        return calendar.timegm(time.strptime(key[:15], "%Y%m%d-%H%M%S"))
    except ValueError:
        return float("inf")


def _listed(site: Site, directory: str) -> dict[str, FileStatus]:
    with hdfs_errors(f"listing {directory}"):
        try:
            return {uris.name(each.path): each for each in site.files.list(directory)}
        except NotFound:
            return {}


def _read(site: Site, key: str, name: str) -> bytes | None:
    return read_if_exists(site.files, f"{site.paths.job(key)}/{name}")
