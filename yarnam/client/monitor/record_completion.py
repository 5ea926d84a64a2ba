"""The history record of a job whose ApplicationMaster could not write it: from what it has left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hdfs_utils import uri as uris
from hdfs_utils.errors import NotFound
from hdfs_utils.journal.log import read_journal
from yarnam._light_imports import on_first_use
from yarnam._version import __version__
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.adapters.hdfs.small_files import read_if_exists
from yarnam.client.monitor.yarn_status import verdict_from_yarn
from yarnam.core.accounting.history_record import HistoryRecord, RecordFacts, history_record
from yarnam.core.accounting.ledger import account_all
from yarnam.core.model.events import Event
from yarnam.core.model.job_status import JobStatus
from yarnam.core.model.outcomes import Verdict, VerdictKind
from yarnam.errors import ExitCode, UsageError
from yarnam.wire.codec import decode, decode_event
from yarnam.wire.protocol import AM_FILE, JOB_FILE, JOURNAL_DIRECTORY, STATUS_FILE, VERDICT_FILE
from yarnam.wire.records import AmRecord, JobRecord, spec_digest

if TYPE_CHECKING:
    from yarnam.adapters.hdfs.history_store import HistoryStore
    from yarnam.adapters.yarn.rest_parse import YarnApplication
    from yarnam.client.site import Site

with on_first_use():
    from yarnam.adapters.hdfs import history_store
    from yarnam.adapters.yarn import addresses

FORGOTTEN_S = 86400.0
"""A job of that age that the ResourceManager does not know has ended."""


def complete_record(site: Site, key: str, application: YarnApplication) -> None:
    """Write the record of one of the user's own jobs, if it has ended and has none. Raises
    YarnamError."""
    store = own_history(site)
    if store.has(key):
        return
    record = record_from_files(site, key, application)
    if record is not None:
        store.put(record)


def own_history(site: Site) -> HistoryStore:
    """The user's own history, for writing. Raises BadConfig."""
    is_checked, _ = addresses.acl_settings(site.conf_dir)
    return history_store.HistoryStore(site.files, site.paths.history, is_private=is_checked)


def record_from_files(
    site: Site, key: str, application: YarnApplication | None
) -> HistoryRecord | None:
    """The record of one of the user's own jobs; ``None`` if it has not ended, or was never
    submitted. ``application`` is YARN's record of it, if any. Raises YarnamError."""
    if application is not None and not application.is_over:
        return None
    job = _read(site, key, JOB_FILE)
    if job is None:
        return None
    record = decode(job, JobRecord)
    content = _read(site, key, VERDICT_FILE)
    if application is None and content is None and _age_s(record) < FORGOTTEN_S:
        return None
    events = _events(site, key)
    gang, accounts = account_all(record.job, record.submitted_at_s, events)
    if content is not None:
        verdict = decode(content, Verdict)
    elif application is not None:
        verdict = verdict_from_yarn(application)
    else:
        verdict = _lost_verdict(accounts.until_s)
    status = _read(site, key, STATUS_FILE)
    left = decode(status, JobStatus) if status is not None else None
    facts = RecordFacts(
        key=key,
        application=application.application if application else _application(site, key),
        submitted_at_s=record.submitted_at_s,
        written_by="client",
        am_attempts=gang.am_attempt,
        spec_digest=spec_digest(record.job),
        yarnam_version=__version__,
        excluded_files=left.excluded_files if left is not None else (),
    )
    return history_record(record.job, gang, accounts, verdict, facts)


def _lost_verdict(at_s: float) -> Verdict:
    message = "its ApplicationMaster was lost, and YARN has forgotten the application"
    return Verdict(VerdictKind.FAILED, int(ExitCode.ATTEMPTS_EXHAUSTED), message, "", at_s)


def _age_s(record: JobRecord) -> float:
    return time.time() - record.submitted_at_s


def _application(site: Site, key: str) -> str:
    content = _read(site, key, AM_FILE)
    if content is None:
        raise UsageError(f"{key} was never submitted, or YARN has forgotten it before it ran")
    return decode(content, AmRecord).application


def _events(site: Site, key: str) -> list[Event]:
    folder = f"{site.paths.job(key)}/{JOURNAL_DIRECTORY}"
    with hdfs_errors(f"reading {folder}"):
        try:
            content = read_journal(site.files, uris.parse(folder).path, is_over=True)
        except NotFound:
            return []
    return [decode_event(line) for line in content.records]


def _read(site: Site, key: str, name: str) -> bytes | None:
    return read_if_exists(site.files, f"{site.paths.job(key)}/{name}")
