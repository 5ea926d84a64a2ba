"""A handle on one submitted job: its status, its logs, its story and its end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from hdfs_utils import HdfsError
from hdfs_utils import uri as uris
from hdfs_utils.journal import read_journal
from yarnam.client.hdfs_errors import hdfs_errors
from yarnam.client.logs import LogPiece, LogRequest, LogSource, read_logs
from yarnam.client.outputs import settle_outputs
from yarnam.client.site import Site
from yarnam.client.sizes import Scaled, scaled
from yarnam.client.sources import JobSources
from yarnam.errors import ExitCode, Unavailable, UsageError, YarnamError, error_classes
from yarnam.model.events import Event
from yarnam.model.outcomes import Verdict, VerdictKind
from yarnam.model.status import JobState, JobStatus
from yarnam.wire.codec import decode_event, encode
from yarnam.wire.protocol import JOURNAL_DIRECTORY, VERDICT_FILE
from yarnam.wire.records import JobRecord

HOLD_S = 10.0
"""Longest that the AM keeps a question open that waits for news."""

POLL_S = 0.5
"""Between looks at the ResourceManager and HDFS while no AM answers."""

CANCEL_PATIENCE_S = 30.0
"""From the AM's promise to cancel until YARN is asked to kill it anyway; plus the job's grace."""

RETIRE_LIMIT_S = 30.0
"""From the verdict, or from YARN's kill, until YARN has taken everything back."""

OUTAGE_PATIENCE_S = 300.0
"""Following a job outlives an outage of HDFS or the ResourceManager of this length: as long as the
ApplicationMaster itself bears it."""

KILL_LIMIT_S = 90.0
"""For a whole kill: the AM's patience, YARN's kill, its end."""


class Job:
    """One job. Obtained from ``Client.submit`` or ``Client.job``.

    All calls raise YarnamError: Unavailable when neither the AM nor HDFS nor YARN answers.
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
        """What was submitted, without the values of secrets."""
        return self._sources.record()

    def status(self) -> JobStatus:
        """The job as it stands: from its AM while that lives, else from what it left on HDFS,
        else from YARN."""
        return self._sources.look().status

    def watch(self) -> Iterator[JobStatus]:
        """Each new status until the job is over; the last one has the verdict.

        Outlives outages of HDFS and the ResourceManager of up to ``OUTAGE_PATIENCE_S``. Ends when
        YARN has taken everything back too, or ``RETIRE_LIMIT_S`` after the verdict.
        """
        seen, last, outage = 0, None, _Outage()
        while True:
            try:
                found = self._sources.look(seen=seen, hold_s=HOLD_S)
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
            # The time of the look alone is no news.
            shown = replace(found.status, at_s=0.0)
            if shown != last:
                last = shown
                yield found.status
            if not found.number:
                time.sleep(POLL_S)
            seen = found.number

    def wait(self, timeout_s: float | None = None, *, raise_on_failure: bool = False) -> Verdict:
        """Block until the job is over.

        Raises Unavailable when ``timeout_s`` is over first; with ``raise_on_failure`` the error of
        the verdict (UserFailed, GangTimeout, Cancelled, ...) unless the job succeeded.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        seen, outage = 0, _Outage()
        while True:
            left_s = HOLD_S if deadline is None else deadline - time.monotonic()
            try:
                found = self._sources.look(seen=seen, hold_s=max(0.0, min(HOLD_S, left_s)))
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
                raise Unavailable(f"{self.id} is not over after {timeout_s:g} s: {told}")
            if not found.number:
                time.sleep(POLL_S)
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
        """What the job's processes printed, in pieces as they come.

        From the agents while they live, afterwards from YARN's aggregated logs. ``task`` and
        ``rank`` choose, ``tail`` starts so many lines before the end, ``source`` is ``processes``,
        ``agent`` (the agents' own logs) or ``am``. Raises UsageError for a task that is not there.
        """
        request = LogRequest(task, rank, follow, tail, LogSource(source))
        return read_logs(self._sources, request)

    def events(self) -> list[Event]:
        """The journal so far: every event of the gang machine, in order."""
        if not self._sources.look_up().is_over:
            line = self._sources.line()
            if line is not None:
                with suppress(Unavailable):
                    return list(line.events())
        return self._journal()

    def kill(self, reason: str = "", *, timeout_s: float = KILL_LIMIT_S) -> JobStatus:
        """Cancel the job and return when YARN says that it is over, with the final status.

        The AM stops the processes in order and writes the verdict. Where it does not answer, YARN
        is asked to kill it and the verdict CANCELLED is written here. Killing a job that is over
        changes nothing. Raises Unavailable when the job is not gone within ``timeout_s``.
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
                f"{self.id} was killed, but by YARN's word it is not gone after {timeout_s:g} s",
                hint=f"Look again: yarnam status {self.id}",
            )
        return self.status()

    def scale(self, size: int | None) -> Scaled:
        """Wish for another size of an elastic job; returns when its AM has noted it.

        ``size`` counts what the spec counts, GPUs or tasks; None: the job chooses by itself again.
        The last wish counts. Raises UsageError (not elastic, no such size, the job is over) and
        Unavailable (the AM does not answer: a queued job has none yet).
        """
        wanted = scaled(self.record().job, size)
        if self._sources.look_up().is_over:
            raise UsageError(f"{self.id} is over", hint=f"See how: yarnam status {self.id}")
        line = self._sources.line()
        if line is None:
            raise Unavailable(
                f"{self.id} has no ApplicationMaster yet that could note it",
                hint="Try again when 'yarnam status' shows that it has started.",
            )
        line.scale(by=self._sources.site.user, tasks=wanted.tasks)
        return wanted

    def close(self) -> None:
        """Let go of the connections. Idempotent; the job goes on."""
        self._sources.close()

    def _cancel(self, reason: str) -> float:
        """Ask the AM; the seconds that it may take to end, 0 when it does not answer."""
        try:
            line = self._sources.line()
            if line is None:
                return 0.0
            line.cancel(by=self._sources.site.user, reason=reason)
        except Unavailable:
            return 0.0
        with suppress(YarnamError):
            return CANCEL_PATIENCE_S + self.record().job.am.stop_grace_s
        return CANCEL_PATIENCE_S

    def _write_cancelled(self, reason: str) -> None:
        """Nobody else can: the AM is gone, or was never there."""
        site = self._sources.site
        said = f": {reason}" if reason else ""
        verdict = Verdict(
            VerdictKind.CANCELLED,
            int(ExitCode.CANCELLED),
            f"killed by {site.user}{said}",
            decided_at_s=time.time(),
        )
        with suppress(HdfsError):
            # Never over the AM's own: it may have ended the job in the meantime.
            path = f"{self.directory}/{VERDICT_FILE}"
            site.files.write_atomic(path, encode(verdict), overwrite=False)
        self._sources.clear_staging()

    def _settle_outputs(self) -> None:
        """As the AM would have done. Whatever it has decided itself stands."""
        with suppress(YarnamError):
            if self.status().state is JobState.CANCELLED:
                settle_outputs(self._sources.site, self.record().job, self.id)

    def _journal(self) -> list[Event]:
        folder = f"{self.directory}/{JOURNAL_DIRECTORY}"
        with hdfs_errors(f"reading {folder}"):
            content = read_journal(self._sources.site.files, uris.parse(folder).path)
        return [decode_event(line) for line in content.records]


class _Outage:
    """How long nobody has been able to tell anything of the job."""

    def __init__(self) -> None:
        self._began = 0.0

    def bear(self, error: Unavailable) -> bool:
        """Wait a little; True for the first time in this outage. Raises the error when it has
        lasted for too long."""
        now = time.monotonic()
        is_new = not self._began
        self._began = self._began or now
        if now - self._began > OUTAGE_PATIENCE_S:
            raise error
        time.sleep(POLL_S)
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
