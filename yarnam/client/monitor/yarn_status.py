"""The status of a job from the ResourceManager alone, where its AM left nothing or no AM ran."""

from __future__ import annotations

from dataclasses import replace

from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.core.model.outcomes import Verdict, VerdictKind
from yarnam.core.queues.queue_state import names_queue
from yarnam.errors import ExitCode


def verdict_from_yarn(application: YarnApplication) -> Verdict:
    """The end of a job whose AM could not write its verdict, from YARN's own words. An application
    that YARN counts as a success without a verdict is not believed: the AM always writes its
    verdict before it ends."""
    said = application.diagnostics or "YARN reports no reason"
    at_s = application.finished_at_s or 0.0
    hint = f"yarnam logs {application.application} --am"
    if application.state == "KILLED" or application.final_status == "KILLED":
        return Verdict(
            VerdictKind.CANCELLED, int(ExitCode.CANCELLED), f"killed by YARN: {said}", "", at_s
        )
    if application.final_status == "SUCCEEDED":
        message = "the ApplicationMaster ended without a verdict"
        return Verdict(VerdictKind.FAILED, int(ExitCode.INTERNAL), message, hint, at_s)
    message = f"the ApplicationMaster failed: {said}"
    return Verdict(VerdictKind.FAILED, int(ExitCode.ATTEMPTS_EXHAUSTED), message, hint, at_s)


def queued_status(application: YarnApplication, now_s: float, reason: str = "") -> JobStatus:
    """No AM runs yet, and YARN's diagnostics say what its container waits for; or, for this reason,
    it does not answer (yet, or any more)."""
    reason = reason or " ".join(application.diagnostics.split())
    reason = reason or "waiting for the ApplicationMaster's container"
    return _status(application, JobState.QUEUED, reason, now_s)


def final_status(application: YarnApplication, verdict: Verdict, now_s: float) -> JobStatus:
    """A job that is over and has left no status."""
    return _status(application, JobState[verdict.kind.name], verdict.message, now_s, verdict)


def in_queue(status: JobStatus, reported: str) -> JobStatus:
    """The job as YARN reports its queue now: an administrator may have moved it."""
    if not reported or names_queue(reported, status.queue):
        return status
    requested = status.requested_queue or status.queue
    is_back = names_queue(reported, requested)
    return replace(status, queue=reported, requested_queue="" if is_back else requested)


def removed_status(record: HistoryRecord, tracking_url: str = "") -> JobStatus:
    """A job whose directory has been removed, from what the history has of it."""
    return JobStatus(
        application=record.application,
        name=record.name,
        user=record.user,
        queue=record.queue,
        state=JobState[record.verdict.kind.name],
        phase=record.verdict.kind.value,
        reason=record.verdict.message,
        at_s=record.ended_at_s,
        submitted_at_s=record.submitted_at_s,
        attempt=record.attempt_count,
        am_attempt=record.am_attempts,
        restarts=record.restarts,
        preemptions=record.preemptions,
        excluded_files=record.excluded_files,
        step=record.step,
        history=record.attempts,
        verdict=record.verdict,
        tracking_url=tracking_url,
        checkpoint=record.checkpoint,
        ledger=record.ledger,
        holdings=record.holdings,
    )


def _status(
    application: YarnApplication,
    state: JobState,
    reason: str,
    now_s: float,
    verdict: Verdict | None = None,
) -> JobStatus:
    return JobStatus(
        application=application.application,
        name=application.name,
        user=application.user,
        queue=application.queue,
        state=state,
        reason=reason,
        at_s=now_s,
        submitted_at_s=application.started_at_s,
        verdict=verdict,
        tracking_url=application.tracking_url,
    )


def yarn_status(application: YarnApplication, why_no_more: str) -> JobStatus:
    """The status by YARN's record alone, for jobs whose directory cannot be read (other
    people's)."""
    if application.is_over:
        return final_status(application, verdict_from_yarn(application), 0.0)
    if application.state != "RUNNING":
        return queued_status(application, 0.0)
    # The AM's own container is one; with more, at least part of the gang is granted.
    state = JobState.RUNNING if application.running_containers > 1 else JobState.ACQUIRING
    return _status(application, state, f"according to YARN ({why_no_more})", 0.0)
