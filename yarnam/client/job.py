"""A handle on one submitted job: its status, logs, events and end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from hdfs_utils import HdfsError
from hdfs_utils import uri as uris
from hdfs_utils.journal.log import read_journal
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.client.monitor.job_logs import LogPiece, LogRequest, LogSource, read_logs
from yarnam.client.monitor.job_sources import JobSources
from yarnam.client.monitor.requested_size import RequestedSize, requested_size
from yarnam.client.site import ClientTiming, Site
from yarnam.client.submit.preflight import file_system_of
from yarnam.core.model.events import Event
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.core.model.outcomes import Verdict, VerdictKind
from yarnam.errors import ExitCode, Unavailable, UsageError, YarnamError, error_classes
from yarnam.wire.codec import decode_event, encode
from yarnam.wire.light_imports import on_first_use
from yarnam.wire.output_paths import partial_output_path, staging_path
from yarnam.wire.protocol import JOURNAL_DIRECTORY, VERDICT_FILE
from yarnam.wire.records import JobRecord

with on_first_use():
    from hdfs_utils.outputs import committer

HOLD_S = 10.0
"""The longest time that the AM keeps a status request open until something changes."""

RETIRE_LIMIT_S = 30.0
"""How long YARN may take to release everything after the verdict, or after its kill."""

OUTAGE_PATIENCE_S = 300.0
"""Following a job survives an outage of HDFS or the ResourceManager of this length, the same as the
ApplicationMaster."""

KILL_LIMIT_S = 90.0
"""The time limit of a kill: cancelling by the AM, then by YARN, until the job has ended."""


class Job:
    """One job. Obtained from ``Client.submit`` or ``Client.job``.

    All calls raise YarnamError: Unavailable if neither the AM nor HDFS nor YARN answers.
    """

    def __init__(self, site: Site, application: str, *, key: str = "", user: str = "") -> None:
        self._sources = JobSources(site, application, key, user)

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    @property
    def id(self) -> str:
        """YARN's application id."""
        return self._sources.application

    @property
    def directory(self) -> str:
        """URI of the job's directory on HDFS."""
        return self._sources.directory

    def record(self) -> JobRecord:
        """The submitted job, without the values of secrets."""
        return self._sources.record()

    def status(self) -> JobStatus:
        """The current status: from the AM while it runs, otherwise from its last status on HDFS,
        otherwise from YARN. That of a job that has ended removes what secrets it has left."""
        return self._sources.status().status

    def watch(self) -> Iterator[JobStatus]:
        """Each new status until the job ends; the last one has the verdict.

        Survives outages of HDFS and the ResourceManager of up to ``OUTAGE_PATIENCE_S``. Ends when
        YARN has released everything, or ``RETIRE_LIMIT_S`` after the verdict.
        """
        seen, last, outage = 0, None, _Outage(self._timing.poll_s)
        while True:
            try:
                found = self._sources.status(seen=seen, hold_s=HOLD_S)
            except Unavailable as error:
                if last is None:
                    raise
                if outage.bear(error):
                    last = replace(last, reason=error.message)
                    yield replace(last, at_s=time.time())
                continue
            outage.is_over()
            if found.status.verdict is not None:
                self._sources.retire(RETIRE_LIMIT_S)
                yield found.status
                return
            # The time of the poll alone is no news.
            shown = replace(found.status, at_s=0.0)
            if shown != last:
                last = shown
                yield found.status
            if not found.number:
                time.sleep(self._timing.poll_s)
            seen = found.number

    def wait(self, timeout_s: float | None = None, *, raise_on_failure: bool = False) -> Verdict:
        """Block until the job ends.

        Raises Unavailable after ``timeout_s``; with ``raise_on_failure`` also the error of the
        verdict (UserFailed, GangTimeout, Cancelled, ...) unless the job succeeded.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        seen, outage = 0, _Outage(self._timing.poll_s)
        while True:
            left_s = HOLD_S if deadline is None else deadline - time.monotonic()
            try:
                found = self._sources.status(seen=seen, hold_s=max(0.0, min(HOLD_S, left_s)))
            except Unavailable as error:
                if left_s <= 0:
                    raise
                outage.bear(error)
                continue
            outage.is_over()
            if (verdict := found.status.verdict) is not None:
                self._sources.retire(RETIRE_LIMIT_S)
                if raise_on_failure and (failure := error_of(verdict)) is not None:
                    raise failure
                return verdict
            if deadline is not None and time.monotonic() >= deadline:
                told = f"{found.status.state.value} {found.status.reason}".rstrip()
                raise Unavailable(f"{self.id} has not ended after {timeout_s:g} s: {told}")
            if not found.number:
                time.sleep(self._timing.poll_s)
            seen = found.number

    def logs(
        self,
        task: str | None = None,
        *,
        rank: int | None = None,
        follow: bool = False,
        tail: int | None = None,
        source: LogSource | str = LogSource.PROCESSES,
    ) -> Iterator[LogPiece]:
        """The output of the job's processes, in pieces as they arrive.

        Reads from the agents while they run, afterwards from YARN's aggregated logs. ``task`` and
        ``rank`` select processes, ``tail`` starts this many lines before the end, ``source`` is
        ``processes``, ``agent`` (the agents' logs) or ``am``. Raises UsageError for an unknown
        task.
        """
        request = LogRequest(task, rank, follow, tail, LogSource(source))
        return read_logs(self._sources, request)

    def events(self) -> list[Event]:
        """All events of the gang machine so far, in order, from the journal."""
        if not self._sources.look_up().is_over:
            line = self._sources.job_client()
            if line is not None:
                with suppress(Unavailable):
                    return list(line.events())
        return self._journal()

    def kill(self, reason: str = "", *, timeout_s: float = KILL_LIMIT_S) -> JobStatus:
        """Cancel the job, wait until YARN reports its end, and return the final status.

        The AM stops the processes and writes the verdict. If it does not answer, YARN kills the
        application and the verdict CANCELLED is written here. Killing a job that has ended has no
        effect. Raises Unavailable if the job has not ended within ``timeout_s``.
        """
        sources = self._sources
        if sources.look_up().is_over:
            return self.status()
        deadline = time.monotonic() + timeout_s
        patience_s = self._cancel(reason)
        is_gone = patience_s > 0 and sources.await_yarn(min(patience_s, timeout_s / 2))
        if not is_gone:
            sources.site.rm.kill(self.id)
            is_gone = sources.await_yarn(max(1.0, deadline - time.monotonic()))
            self._write_cancelled(reason)
            self._settle_outputs()
        if not is_gone:
            raise Unavailable(
                f"{self.id} was killed, but YARN still reports it after {timeout_s:g} s",
                hint=f"To check again: yarnam status {self.id}",
            )
        return self.status()

    def scale(self, size: int | None) -> RequestedSize:
        """Resize an elastic job; returns when its AM has accepted the request.

        ``size`` is in the unit of the spec, GPUs or tasks; None: the job chooses its size again.
        The last request counts. Raises UsageError (not elastic, no such size, job ended) and
        Unavailable (the AM does not answer; a queued job has none yet).
        """
        wanted = requested_size(self.record().job, size)
        if self._sources.look_up().is_over:
            raise UsageError(
                f"{self.id} has ended", hint=f"For its result: yarnam status {self.id}"
            )
        line = self._sources.job_client()
        if line is None:
            raise Unavailable(
                f"{self.id} has no ApplicationMaster yet",
                hint="Try again when 'yarnam status' shows that the job has started.",
            )
        line.scale(by=self._sources.site.user, tasks=wanted.tasks)
        return wanted

    def close(self) -> None:
        """Close the connections. Idempotent; the job continues."""
        self._sources.close()

    @property
    def _timing(self) -> ClientTiming:
        return self._sources.site.timing

    def _cancel(self, reason: str) -> float:
        """Ask the AM; the seconds that it may take to end, 0 when it does not answer."""
        try:
            line = self._sources.job_client()
            if line is None:
                return 0.0
            line.cancel(by=self._sources.site.user, reason=reason)
        except Unavailable:
            return 0.0
        with suppress(YarnamError):
            return self._timing.cancel_patience_s + self.record().job.am.stop_grace_s
        return self._timing.cancel_patience_s

    def _write_cancelled(self, reason: str) -> None:
        """Nobody else can: the AM is gone, or was never there."""
        site = self._sources.site
        said = f": {reason}" if reason else ""
        text = f"killed by {site.user}{said}"
        verdict = Verdict(VerdictKind.CANCELLED, int(ExitCode.CANCELLED), text, "", time.time())
        with suppress(HdfsError):
            # Never over the AM's own: it may have ended the job in the meantime.
            path = f"{self.directory}/{VERDICT_FILE}"
            site.files.write_atomic(path, encode(verdict), overwrite=False)
        self._sources.remove_secrets()

    def _settle_outputs(self) -> None:
        """Writes the verdict that the AM would have written. A verdict that the AM has written
        itself stands."""
        with suppress(YarnamError):
            if self.status().state is JobState.CANCELLED:
                settle_killed_outputs(self._sources.site, self.record().job, self.id)

    def _journal(self) -> list[Event]:
        folder = f"{self.directory}/{JOURNAL_DIRECTORY}"
        with hdfs_errors(f"reading {folder}"):
            content = read_journal(self._sources.site.files, uris.parse(folder).path)
        return [decode_event(line) for line in content.records]


def settle_killed_outputs(site: Site, job: JobSpec, application: str) -> None:
    """Keeps or deletes, as its spec says, what the tasks wrote of a job that was killed and is
    gone. Harmless to repeat, also where there is nothing. Raises YarnamError."""
    if not job.output:
        return
    files, target = file_system_of(site, job.output)
    with hdfs_errors(f"settling what was written for {job.output}"):
        staging = staging_path(target, application)
        outputs = committer.OutputCommitter(files, target, staging, application)
        if job.storing.keep_on_failure:
            outputs.keep(partial_output_path(target, application))
        else:
            outputs.discard()


class _Outage:
    """How long nobody has been able to tell anything of the job."""

    def __init__(self, poll_s: float) -> None:
        self._poll_s = poll_s
        self._began = 0.0

    def bear(self, error: Unavailable) -> bool:
        """Wait a little; True for the first time in this outage. Raises the error when it has
        lasted for too long."""
        now = time.monotonic()
        is_new = not self._began
        self._began = self._began or now
        if now - self._began > OUTAGE_PATIENCE_S:
            raise error
        time.sleep(self._poll_s)
        return is_new

    def is_over(self) -> None:
        self._began = 0.0


def error_of(verdict: Verdict) -> YarnamError | None:
    """The error that a verdict stands for; None when the job succeeded."""
    if verdict.kind is VerdictKind.SUCCEEDED:
        return None
    for kind in error_classes():
        if int(kind.exit_code) == verdict.exit_code:
            return kind(verdict.message, hint=verdict.hint)
    return YarnamError(verdict.message, hint=verdict.hint)
