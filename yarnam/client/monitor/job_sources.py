"""The sources of a job's status: its AM while that runs, its directory on HDFS, and YARN."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlsplit

from hdfs_utils import HdfsError
from hdfs_utils import uri as uris
from yarnam._light_imports import on_first_use
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.adapters.hdfs.small_files import read_if_exists
from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.client.monitor.yarn_status import (
    final_status,
    in_queue,
    queued_status,
    removed_status,
    verdict_from_yarn,
    yarn_status,
)
from yarnam.client.site import Site
from yarnam.client.user_paths import is_key, key_in
from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.accounting.job_retention import KEPT_S
from yarnam.core.frameworks.task_ports import joined
from yarnam.core.model.events import Event, LeftRequest
from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.core.model.outcomes import Verdict
from yarnam.core.model.snapshot import Node
from yarnam.errors import Unavailable, UsageError, YarnamError
from yarnam.ports.job_access import JobClient, StatusVersion
from yarnam.wire.codec import decode, decode_event
from yarnam.wire.protocol import (
    AM_FILE,
    CREDENTIALS_FILE,
    JOB_FILE,
    JOURNAL_DIRECTORY,
    SECRET_FILES,
    STATUS_FILE,
    VERDICT_FILE,
)
from yarnam.wire.records import AmRecord, JobRecord

with on_first_use():
    from hdfs_utils.journal import log as journal_log
    from yarnam.adapters.hdfs import history_store, job_store
    from yarnam.am import status_report
    from yarnam.client.monitor import record_completion
    from yarnam.core.accounting import ledger


_ANOTHER_AM = "its ApplicationMaster has ended, and YARN starts another one"

RECORD_WITHIN_S = 600.0
"""For this long after the end of a job, a status request completes its history record: later that
is not worth a request each time."""


class JobSources:
    """Reads one job from wherever it can be read. Thread-safe: the threads share one connection to
    the AM, and an answer that one of them misses because another has closed it is Unavailable."""

    def __init__(self, site: Site, application: str, key: str, user: str) -> None:
        self.site = site
        self.application = application
        self.key = key
        self.user = user or site.user
        self._lock = threading.Lock()
        self._job_client: JobClient | None = None
        self._job_client_of: AmRecord | None = None
        self._record: JobRecord | None = None
        self._heard: JobStatus | None = None
        """The last reply of the AM."""

    def separate(self) -> JobSources:
        """The same job with connections of its own, for who closes them when done."""
        return JobSources(self.site, self.application, self.key, self.user)

    @property
    def directory(self) -> str:
        """URI of the job's directory on HDFS."""
        if not self.key:
            self.look_up()
        return self.site.paths_of(self.user).job(self.key)

    def look_up(self) -> YarnApplication:
        """YARN's record; also learns the job's key from it. Raises UsageError: not on this cluster,
        or not one of yarnam's."""
        return self._learn(self.site.rm.application(self.application))

    def _learn(self, application: YarnApplication | None) -> YarnApplication:
        if application is not None:
            self.user = application.user or self.user
            self.key = self.key or key_in(application.tags) or ""
        self.key = self.key or self._recorded_key() or self._key_in_history()
        if self.key:
            return application or _forgotten(self.application, self.user)
        if application is None:
            raise UsageError(
                f"application {self.application} does not exist on this cluster",
                hint="To list jobs: yarnam ps --all",
            )
        raise UsageError(f"{self.application} is not a yarnam job")

    def status(
        self, *, seen: int = 0, hold_s: float = 0.0, application: YarnApplication | None = None
    ) -> StatusVersion:
        """The status now, from the nearest source. Its number is 0 when it is not the AM's own: the
        caller then polls instead of being notified. ``application`` is YARN's record, if the caller
        has just read it."""
        known = application or self.site.applications.application(self.application)
        application = self._learn(known)
        found = self._nearest(application, seen, hold_s)
        return replace(found, status=in_queue(found.status, application.queue))

    def _nearest(self, application: YarnApplication, seen: int, hold_s: float) -> StatusVersion:
        if application.is_over:
            self.close()  # the AM no longer answers there
            if application.state != "FINISHED" or application.final_status == "FAILED":
                # Its AM may have been killed before it could, or have expected another attempt.
                self.remove_secrets()
                self._complete_record(application)
            return StatusVersion(0, self._after_the_end(application))
        if application.state != "RUNNING":
            left = self._left_status()
            if left is not None and left.state.is_final:
                # YARN starts another ApplicationMaster of a failed job, to obey the verdict.
                return StatusVersion(0, left)
            last = self._last_known(application, _ANOTHER_AM)
            return StatusVersion(0, last or queued_status(application, time.time()))
        if self.site.gateway is not None:
            journaled = self._status_by_journal(application, self.events(), time.time())
            return StatusVersion(0, journaled or _starting(application))
        failure = "its ApplicationMaster has not announced its address yet"
        line = self.job_client()
        if line is not None:
            try:
                found = line.status(seen=seen, hold_s=hold_s)
            except Unavailable as error:
                self.close()
                failure = f"its ApplicationMaster does not answer ({error.message})"
            else:
                self._heard = found.status
                return found
        left = self._left_status()
        if left is not None and left.state.is_final:
            return StatusVersion(0, left)
        if (last := self._last_known(application, failure)) is not None:
            return StatusVersion(0, last)
        if line is not None and application.running_containers > 1:
            return StatusVersion(0, yarn_status(application, failure))
        return StatusVersion(0, _starting(application))

    def _last_known(self, application: YarnApplication, why: str) -> JobStatus | None:
        """The newest of what the AM has replied here, left on HDFS and journaled; ``None`` if no AM
        has done anything yet. Raises YarnamError."""
        found = [status for status in (self._heard, self._left_status()) if status is not None]
        with suppress(Unavailable):
            events = self.events()
            at_s = events[-1].at_s if events else 0.0
            by_journal = self._status_by_journal(application, events, at_s)
            # The verdict is the AM's to give: this client's machine may be another version's.
            if by_journal is not None and by_journal.verdict is None:
                found.insert(0, by_journal)
        if not found:
            return None
        newest = max(found, key=lambda status: status.at_s)
        return replace(newest, is_last_known=True, reason=why)

    def await_yarn(self, limit_s: float) -> bool:
        """Whether YARN reports within the limit (seconds) that the application is over."""
        deadline = time.monotonic() + limit_s
        while True:
            application = self.site.applications.application(self.application)
            if application is None or application.is_over:
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(self.site.timing.yarn_poll_s)

    def retire(self, limit_s: float) -> None:
        """After the verdict: wait until YARN has taken everything back (at most ``limit_s``), and
        remove what secrets the AM has left because it was killed."""
        if self.await_yarn(limit_s):
            self.remove_secrets()

    def remove_secrets(self) -> None:
        """The job's certificate and keys, and Skein's staging directory with the secret variables.
        Best effort: other people's are not ours to remove."""
        if self.user != self.site.user:
            return
        with suppress(HdfsError):
            for name in SECRET_FILES:
                self.site.files.delete(f"{self.directory}/{name}")
            staging = self.site.paths_of(self.user).skein_staging(self.application)
            self.site.files.delete(staging, recursive=True)

    def _complete_record(self, application: YarnApplication) -> None:
        """Write the history record that the AM could not. Best effort: `yarnam history repair`
        does it as well."""
        ended_s = application.finished_at_s or 0.0
        if self.user == self.site.user and time.time() - ended_s <= RECORD_WITHIN_S:
            with suppress(YarnamError):
                record_completion.complete_record(self.site, self.key, application)

    def job_client(self) -> JobClient | None:
        """A client of the AM that registered last; None when none has, or its job has ended; or
        behind a gateway, which no AM can be reached through."""
        if self.site.gateway is not None:
            return None
        try:
            content = self.read(AM_FILE)
        except Unavailable:
            with self._lock:
                if self._job_client is not None:
                    return self._job_client  # The AM that was there before may still answer.
            raise
        if content is None:
            return None
        record = decode(content, AmRecord)
        with self._lock:
            if self._job_client is not None and record == self._job_client_of:
                return self._job_client
        self.check_address(joined(record.host, record.port))
        credentials = self.read(CREDENTIALS_FILE)
        if credentials is None:
            return None  # Removed with the verdict: the AM is on its way out.
        return self._connected(record, credentials)

    def _connected(self, record: AmRecord, credentials: bytes) -> JobClient:
        with self._lock:
            if self._job_client is not None and record == self._job_client_of:
                return self._job_client  # Another thread was quicker.
            former = self._job_client
            made = self.site.open_job_client(joined(record.host, record.port), credentials)
            self._job_client, self._job_client_of = made, record
        if former is not None:
            former.close()
        return made

    def check_address(self, address: str) -> None:
        """Other users' files and ApplicationMasters do not choose whom this process connects to:
        what belongs to a job runs on a node of the cluster. Raises Unavailable."""
        if self.user == self.site.user:
            return
        host = urlsplit(f"//{address}").hostname or ""
        if host not in {str(node.node_id).lower() for node in self._nodes()}:
            raise Unavailable(f"{self.application} names {host!r}, which is not a node")

    def _nodes(self) -> Sequence[Node]:
        return self.site.rm.snapshot("root").nodes

    def record(self) -> JobRecord:
        """The job as submitted, without the values of secrets."""
        if self._record is None:
            content = self.read(JOB_FILE)
            if content is None:
                self.refuse_removed()
                raise Unavailable(f"{self.directory}/{JOB_FILE} does not exist any more")
            self._record = decode(content, JobRecord)
        return self._record

    def read(self, name: str) -> bytes | None:
        """A file of the job's directory; ``None`` if it does not exist."""
        return read_if_exists(self.site.files, f"{self.directory}/{name}")

    def leave(self, request: LeftRequest) -> None:
        """Leave a request for the next AM. Raises YarnamError."""
        job_store.leave_request(self.site.files, self.directory, request)

    def removed(self) -> HistoryRecord | None:
        """The history record of a job whose directory is not there any more."""
        if self.read(JOB_FILE) is not None:
            return None
        return self._history().record(self.key)

    def refuse_removed(self) -> None:
        """Raises UsageError if the job's directory has been removed."""
        record = self.removed()
        if record is not None:
            ended = time.strftime("%Y-%m-%d", time.localtime(record.ended_at_s))
            days = round(KEPT_S / 86400)
            raise UsageError(
                f"the files of {self.application} were removed: it ended on {ended}, and the files"
                f" of a job are removed {days} days after its end",
                hint=f"What is left of it: yarnam history show {self.application}\n"
                "To keep those of a job, set keep: forever in its spec.",
            )

    def _history(self) -> history_store.HistoryStore:
        return history_store.HistoryStore(self.site.files, self.site.paths_of(self.user).history)

    def _key_in_history(self) -> str:
        """The key of a job that YARN has forgotten, and whose directory has been removed."""
        try:
            rows = self._history().listing().rows
        except YarnamError:
            return ""
        return next((row.key for row in rows if row.application == self.application), "")

    def close(self) -> None:
        """Close the connection to the AM. Idempotent."""
        with self._lock:
            line, self._job_client, self._job_client_of = self._job_client, None, None
        if line is not None:
            line.close()

    def _recorded_key(self) -> str:
        content = read_if_exists(
            self.site.files, self.site.paths_of(self.user).application(self.application)
        )
        key = content.decode(errors="replace").strip() if content else ""
        return key if is_key(key) else ""

    def _after_the_end(self, application: YarnApplication) -> JobStatus:
        """The verdict decides; the last status has the details."""
        content = self.read(VERDICT_FILE)
        verdict = decode(content, Verdict) if content else verdict_from_yarn(application)
        left = self._left_status()
        if left is None and content is None and (kept := self.removed()) is not None:
            return removed_status(kept, application.tracking_url)
        if left is None:
            return final_status(application, verdict, time.time())
        return replace(
            left,
            state=JobState[verdict.kind.name],
            phase=verdict.kind.value,
            reason=verdict.message,
            deadline_s=None,
            verdict=verdict,
        )

    def _status_by_journal(
        self, application: YarnApplication, events: Sequence[Event], now_s: float
    ) -> JobStatus | None:
        """The status of a running job whose AM cannot be reached, derived from its events; ``None``
        without any. It lacks what comes without events: metrics, and the position in the wait
        queue."""
        if not events:
            return None
        record = self.record()
        gang, accounts = ledger.account_all(record.job, record.submitted_at_s, events)
        facts = status_report.AmFacts(
            application.application, gang.am_attempt, application.tracking_url
        )
        spent = ledger.ledger(accounts, gang, now_s)
        found = status_report.job_status(
            status_report.StatusFacts(gang, record, facts, now_s, ledger=spent)
        )
        # The verdict counts once its file exists: until then it may still be extended.
        return replace(found, verdict=None) if self.read(VERDICT_FILE) is None else found

    def events(self, *, is_over: bool = False) -> list[Event]:
        """All in the journal on HDFS, in order."""
        folder = f"{self.directory}/{JOURNAL_DIRECTORY}"
        if is_over:
            self.refuse_removed()
        with hdfs_errors(f"reading {folder}"):
            path = uris.parse(folder).path
            content = journal_log.read_journal(self.site.files, path, is_over=is_over)
        return [decode_event(line) for line in content.records]

    def _left_status(self) -> JobStatus | None:
        content = self.read(STATUS_FILE)
        return decode(content, JobStatus) if content else None


def _starting(application: YarnApplication) -> JobStatus:
    return queued_status(application, time.time(), "the ApplicationMaster is starting")


def _forgotten(application: str, user: str) -> YarnApplication:
    """YARN keeps a bounded number of ended applications; the job's directory remains."""
    return YarnApplication(
        application=application,
        name="",
        user=user,
        queue="",
        state="FINISHED",
        final_status="UNDEFINED",
        diagnostics="YARN has removed it from its records",
    )
