"""A handle on one submitted job: its status, logs, events and end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from hdfs_utils import HdfsError
from yarnam._light_imports import on_first_use
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.client.monitor.job_sources import JobSources
from yarnam.client.monitor.live.job_follower import HOLD_S, JobFollower, WaitLimit
from yarnam.client.monitor.logs.job_logs import LogPiece, LogRequest, LogSource, read_logs
from yarnam.client.monitor.metrics_table import metrics_table
from yarnam.client.monitor.requested_size import RequestedSize, requested_size
from yarnam.client.monitor.sessions.task_choice import ChosenTask
from yarnam.client.site import ClientTiming, Site, file_system_of, site_at
from yarnam.core.inputs.named_file_systems import named_file_systems
from yarnam.core.model.events import (
    MAX_SUSPENSION_S,
    SUSPENSION_S,
    Event,
    LeftRequest,
    ResumeRequested,
    ScaleRequested,
    SuspendRequested,
)
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.job_status import JobState, JobStatus, Phase
from yarnam.core.model.outcomes import Verdict, VerdictKind
from yarnam.core.model.session_parts import SessionKind, SessionRequest
from yarnam.errors import (
    BadConfig,
    ExitCode,
    NoPermission,
    Unavailable,
    UsageError,
    YarnamError,
)
from yarnam.ports.job_access import JobClient
from yarnam.ports.task_sessions import TaskSession
from yarnam.wire.codec import encode
from yarnam.wire.output_paths import partial_output_path, staging_path
from yarnam.wire.protocol import VERDICT_FILE
from yarnam.wire.records import JobRecord

if TYPE_CHECKING:
    import pyarrow as pa

with on_first_use():
    from hdfs_utils.outputs import committer
    from hdfs_utils.protocols import gssapi

KILL_LIMIT_S = 90.0
"""The time limit of a kill: cancelling by the AM, then by YARN, until the job has ended."""


class Job:
    """One job. Obtained from ``Client.submit`` or ``Client.job``. Thread-safe, and picklable.

    All calls raise YarnamError: Unavailable if neither the AM nor HDFS nor YARN answers.
    """

    def __init__(self, site: Site, application: str, *, key: str = "", user: str = "") -> None:
        self._sources = JobSources(site, application, key, user)

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """The handle without its connections. The process that it goes to reads the same Hadoop
        configuration, under the same path."""
        site, sources = self._sources.site, self._sources
        return _reopen, (
            str(site.conf_dir),
            site.user,
            sources.application,
            sources.key,
            sources.user,
        )

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
        """The current status: from the AM while it runs, otherwise the last one known
        (``is_last_known``) from the job's directory on HDFS, otherwise from YARN. That of a job
        that has ended removes what secrets it has left."""
        return self._sources.status().status

    def tags(self) -> tuple[str, ...]:
        """The spec's YARN application tags, without those that yarnam sets itself."""
        return tuple(tag for tag in self.record().job.tags if not tag.startswith("yarnam"))

    def watch(self) -> Iterator[JobStatus]:
        """Each new status until the job ends; the last one has the verdict.

        Survives outages of HDFS and the ResourceManager of up to ``OUTAGE_PATIENCE_S``, and new
        attempts of the AM. Ends when YARN has released everything, or ``RETIRE_LIMIT_S`` after the
        verdict.
        """
        follower = self.follower()
        while True:
            poll = follower.poll(HOLD_S)
            if poll.status is None and poll.error is not None:
                raise poll.error
            if poll.is_new and poll.status is not None:
                yield poll.status
            if poll.verdict is not None:
                return
            time.sleep(poll.pause_s)

    def wait(
        self,
        timeout_s: float | None = None,
        *,
        raise_on_failure: bool = False,
        on_status: Callable[[JobStatus], object] | None = None,
    ) -> Verdict:
        """Block until the job ends. ``on_status`` is called with each new status, the last one
        included; what it raises ends the wait.

        Raises WaitTimeout after ``timeout_s``; with ``raise_on_failure`` also the verdict as a
        JobEnded that is a UserFailed, GangTimeout, Cancelled, ... too, unless the job succeeded.
        """
        follower = self.follower()
        limit = WaitLimit(self.id, timeout_s, raise_on_failure=raise_on_failure)
        while True:
            poll = follower.poll(min(HOLD_S, limit.left_s))
            if on_status is not None and poll.is_new and poll.status is not None:
                on_status(poll.status)
            if (verdict := limit.verdict(poll)) is not None:
                return verdict
            time.sleep(min(poll.pause_s, limit.left_s))

    def follower(self) -> JobFollower:
        """The polls that ``watch`` and ``wait`` make, for callers that wait in a way of their
        own."""
        return JobFollower(self._sources)

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
        # Its end closes connections: not those of another thread that follows the same job.
        return read_logs(self._sources.separate(), request)

    def events(self) -> list[Event]:
        """All events of the gang machine so far, in order, from the journal."""
        is_over = self._sources.look_up().is_over
        if not is_over:
            line = self._sources.job_client()
            if line is not None:
                with suppress(Unavailable):
                    return list(line.events())
        return self._sources.events(is_over=is_over)

    def watch_events(self) -> Iterator[Event]:
        """Every event from the first one on, each as it happens, until the job has ended. Continues
        with the next AM attempt when one has ended. Raises Unavailable after ``OUTAGE_PATIENCE_S``
        without a reply."""
        follower = self.follower()
        shown = 0
        while True:
            # The status first: what has happened before the verdict is in the journal by then.
            poll = follower.poll(0.0)
            with suppress(Unavailable):
                events = self.events()
                yield from events[shown:]
                shown = max(shown, len(events))
                if poll.verdict is not None:
                    return
            time.sleep(max(poll.pause_s, self._timing.process_poll_s))

    def metrics(self) -> pa.Table:
        """The last metrics that the training code has reported, as a table with one row for each
        metric of each process that reports: see ``metrics_table``. Raises BadConfig without
        pyarrow."""
        return metrics_table([self.status()])

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

        ``size`` is in the unit of the spec, GPUs or tasks; with ``None`` the job chooses its size
        again. The last request counts. Raises UsageError (not elastic, no such size, job ended) and
        Unavailable (the AM does not answer; a queued job has none yet).
        """
        wanted = requested_size(self.record().job, size)
        user = self._sources.site.user
        try:
            self._living_am().scale(by=user, tasks=wanted.tasks)
        except Unavailable as error:
            self._leave(ScaleRequested(time.time(), user, wanted.tasks), error)
        return wanted

    def suspend(
        self, reason: str = "", *, limit_s: float = SUSPENSION_S, force: bool = False
    ) -> JobStatus:
        """Stop the processes at a checkpoint, give back all containers, and return the status when
        nothing is held any more. The ApplicationMaster stays, and the job's data too.

        ``limit_s``: after this long it resumes on its own. A job that is about to start, or waits,
        is suspended immediately; one that has just failed, when it is started again. Raises
        UsageError (no checkpoint directory and not ``force``, job ended or storing its outputs),
        Unavailable (the AM does not answer, or the job is not suspended in time, which its grace
        limits)."""
        job = self.record().job
        if not (job.checkpoint.directory or force):
            raise UsageError(
                f"{self.id} has no checkpoint directory: it would start from the beginning",
                hint="Give `checkpoint: {directory: ...}` in the spec; or suspend it with --force.",
            )
        if not 0 < limit_s <= MAX_SUSPENSION_S:
            most = f"{MAX_SUSPENSION_S / 86400:.0f} days"
            raise UsageError(f"a suspension lasts more than 0 s and up to {most}")
        user, patience_s = self._sources.site.user, self._timing.cancel_patience_s

        def request(line: JobClient) -> None:
            line.suspend(by=user, limit_s=limit_s, reason=reason)

        try:
            return self._until_suspended(
                request, is_wanted=True, within_s=patience_s + job.am.stop_grace_s
            )
        except Unavailable as error:
            self._leave(SuspendRequested(time.time(), user, limit_s, reason), error)

    def resume(self) -> JobStatus:
        """Let a suspended job acquire its gang again, and return its status when it does. Its
        processes continue from their checkpoint. Raises UsageError (it is not suspended, it has
        ended) and Unavailable (the AM does not answer)."""
        user = self._sources.site.user
        try:
            state = self._living_am().status().status.state
        except Unavailable as error:
            self._leave(ResumeRequested(time.time(), user), error)
        if state is not JobState.SUSPENDED:
            raise UsageError(
                f"{self.id} is not suspended: it is {state.value}",
                hint=f"To see what it does: yarnam status {self.id}",
            )

        def request(line: JobClient) -> None:
            line.resume(by=user)

        return self._until_suspended(
            request, is_wanted=False, within_s=self._timing.cancel_patience_s
        )

    def _until_suspended(
        self, request: Callable[[JobClient], None], *, is_wanted: bool, within_s: float
    ) -> JobStatus:
        """Request it, again where a gang that is being stopped for something else took no notice,
        until the job is suspended; not ``is_wanted``: until it is not."""
        deadline = time.monotonic() + within_s
        seen = 0
        while True:
            line = self._living_am()
            found = line.status(seen=seen, hold_s=self._timing.process_poll_s if seen else 0.0)
            seen, status = found.number, found.status
            if status.state.is_final or (is_wanted and status.state is JobState.STORING):
                verb = "suspend" if is_wanted else "resume"
                raise UsageError(
                    f"{self.id} is {status.state.value}: there is nothing to {verb}",
                    hint=f"For its result: yarnam status {self.id}",
                )
            if (status.state is JobState.SUSPENDED) is is_wanted:
                return status
            if time.monotonic() >= deadline:
                done = "suspended" if is_wanted else "resumed"
                raise Unavailable(
                    f"{self.id} is not {done} after {within_s:g} s: {status.reason}",
                    hint=f"It may be later. To check again: yarnam status {self.id}",
                )
            if status.phase != Phase.STOPPING.value:
                request(line)

    def interrupt(self) -> None:
        """Try what the job does when YARN preempts it; returns when its AM has accepted that.

        The AM does what it does once YARN has announced a preemption: the processes are asked to
        stop, with the spec's grace, the gang gives its containers back, and starts again from its
        checkpoint under a new attempt. It uses up no restart. A gang that does not run is left as
        it is. Raises UsageError (the job has ended) and Unavailable (the AM does not answer).
        """
        self._living_am().interrupt(by=self._sources.site.user)

    def open_session(
        self, task: ChosenTask, kind: SessionKind = SessionKind.EXEC, **more: Any
    ) -> TaskSession:
        """Open a session in a task (``choose_task``): a command, a port-forward, a connection of
        it, or a copy of files. ``more`` are fields of ``SessionRequest``. It ends with ``close``,
        and with the task's processes. Raises UsageError (the job has ended) and Unavailable."""
        by = self._sources.site.user
        request = SessionRequest(kind, by, task.ask, task.local_rank, **more)
        return self._living_am().open_session(request)

    def refresh_tokens(self) -> float:
        """Give the job new delegation tokens, by this process's Kerberos ticket. Returns their end,
        in seconds since 1970.

        The AM, the agents and running processes use them from then on: the AM immediately, the
        others within seconds. They are not renewed, so call it again before that time. Raises
        BadConfig (the site has no delegation tokens), NoPermission (no ticket, or somebody else's
        job), UsageError (the job has ended) and Unavailable.
        """
        site = self._sources.site
        if site.open_token_source is None:
            raise BadConfig(
                "this site has no delegation tokens",
                hint="Only jobs on a site with Kerberos have them; others need none.",
            )
        source = site.open_token_source()
        owner = self._sources.look_up().user
        if owner not in ("", site.user):
            raise NoPermission(
                f"{self.id} is {owner}'s job: with your tokens it could do all that you may",
                hint=f"Only {owner} can give it new ones.",
            )
        line = self._living_am()
        with hdfs_errors("looking for a Kerberos ticket"):
            principal = gssapi.identity().principal
        tokens = source.for_running_job(principal, named_file_systems(self.record().job))
        line.replace_tokens(tuple(tokens.by_alias.values()))
        return tokens.until_s or 0.0

    def close(self) -> None:
        """Close the connections. Idempotent; the job continues."""
        self._sources.close()

    @property
    def _timing(self) -> ClientTiming:
        return self._sources.site.timing

    def _living_am(self) -> JobClient:
        if self._sources.look_up().is_over:
            raise UsageError(
                f"{self.id} has ended", hint=f"For its result: yarnam status {self.id}"
            )
        self._sources.site.must_reach(f"the port of {self.id}'s ApplicationMaster")
        line = self._sources.job_client()
        if line is None:
            raise Unavailable(
                f"{self.id} has no ApplicationMaster yet",
                hint="Try again when 'yarnam status' shows that the job has started.",
            )
        return line

    def _leave(self, request: LeftRequest, error: Unavailable) -> NoReturn:
        """Leave it for the next AM where none answers. Raises Unavailable: nobody has obeyed it."""
        line = self._sources.job_client()
        if line is None:
            raise error
        try:
            line.status()
        except Unavailable:
            self._sources.leave(request)
        else:
            raise error
        raise Unavailable(
            f"{error.message}; the next ApplicationMaster finds the request and obeys it",
            hint=f"To see when it does: yarnam events {self.id} --follow",
        ) from error

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
        """Write the verdict that no other process can: the AM is gone, or was never there."""
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


def end_at_checkpoint(site: Site, application: str, reason: str) -> None:
    """Cancel a job of this user with all of its grace, so that its processes can save a checkpoint,
    and wait until YARN reports its end. Raises UsageError: it has succeeded and stores its outputs;
    Unavailable, as ``Job.kill`` does."""
    job = Job(site, application, user=site.user)
    try:
        state, grace_s = None, 0.0
        with suppress(YarnamError):
            state = job.status().state
            grace_s = job.record().job.am.stop_grace_s
        if state is JobState.STORING:
            raise UsageError(
                f"{application} is storing its outputs, and then ends",
                hint=f"Wait for its end (yarnam watch {application}), then submit again.",
            )
        patience_s = site.timing.cancel_patience_s + grace_s
        job.kill(reason, timeout_s=max(KILL_LIMIT_S, 2 * patience_s))
    finally:
        job.close()


def settle_killed_outputs(site: Site, job: JobSpec, application: str) -> None:
    """Keep or delete, as its spec requires, the files that the tasks of a killed job wrote.
    Harmless to repeat, also if there is nothing. Raises YarnamError."""
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


def _reopen(conf_dir: str, site_user: str, application: str, key: str, user: str) -> Job:
    return Job(site_at(conf_dir, site_user), application, key=key, user=user)
