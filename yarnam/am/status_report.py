"""The job's status: what the gang machine knows, what the agents measure, and what the AM knows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from yarnam.core.gang import Gang, describe, policy_for
from yarnam.core.gang.roles.role_states import role_states
from yarnam.core.model.events import TimerKind
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.job_status import (
    ExcludedFiles,
    Holding,
    JobStatus,
    Ledger,
    MirrorStatus,
    OutputStatus,
    Phase,
    PolicyStatus,
    SizeStatus,
    StagingStatus,
    SuspectStatus,
    TaskStatus,
    TimeLimitStatus,
    WaitQueueStatus,
    byte_words,
)
from yarnam.core.model.metrics import (
    GPU_PERCENT,
    LOSS_NAMES,
    SDK_METRICS,
    STEP_S,
    USAGE_METRICS,
    AgentMetrics,
    Measured,
)
from yarnam.core.model.outcomes import Verdict, VerdictKind
from yarnam.core.queue_client.wait_status import waiting_text
from yarnam.ports import AgentStaging
from yarnam.wire.output_paths import partial_output_path
from yarnam.wire.records import JobRecord

_JOB_WORD = re.compile(r"(yarnam \w+ )JOB\b")

WAITS = frozenset({Phase.PENDING, Phase.ACQUIRING, Phase.REPLACING, Phase.BACKING_OFF})

_NOT_OF_THE_USER = SDK_METRICS.union(USAGE_METRICS)

MAX_SUSPECTS_SHOWN = 10
"""Inputs that a verdict names at most; the status lists all of them."""


@dataclass(frozen=True, slots=True)
class InputsStatus:
    """The inputs' state, as known since the submission."""

    excluded_files: tuple[ExcludedFiles, ...]
    suspects: tuple[SuspectStatus, ...]


@dataclass(frozen=True, slots=True)
class AmFacts:
    """Facts that do not change during one AM attempt."""

    application: str
    am_attempt: int
    tracking_url: str = ""
    is_last_attempt: bool = False
    """YARN starts no other one after this, however it ends."""
    requested_queue: str = ""
    """The queue of its spec, if YARN has put the job into another one."""


def addressed(verdict: Verdict, application: str, kept: str = "") -> Verdict:
    """With commands that can be typed as they stand: the core does not know the job's own id and
    writes ``JOB`` for it. ``kept``: where what the tasks wrote is kept, if it is."""
    hint = _JOB_WORD.sub(rf"\g<1>{application}", verdict.hint)
    if kept:
        hint = "\n".join(part for part in (hint, f"Whatever its tasks wrote is in {kept}") if part)
    return replace(verdict, hint=hint)


def kept_place(gang: Gang, job: JobSpec, application: str) -> str:
    """Where the outputs of a job without success are kept; empty means nowhere."""
    return partial_output_path(job.output, application) if is_kept(gang, job) else ""


def is_kept(gang: Gang, job: JobSpec) -> bool:
    """Whether the tasks' files stay although the job has not succeeded: its spec says so, or the
    gang succeeded and its outputs could not be stored."""
    verdict = gang.verdict
    if not job.output or verdict is None or verdict.kind is VerdictKind.SUCCEEDED:
        return False
    could_not = verdict.kind is VerdictKind.FAILED and gang.storing is not None
    return could_not or (job.storing.keep_on_failure and bool(gang.history))


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """The facts of which a job's status is made, at one instant."""

    gang: Gang
    record: JobRecord
    am: AmFacts
    now_s: float
    metrics: Sequence[AgentMetrics] = ()
    trouble: str = ""
    """Why the AM itself is held back (HDFS or the RM does not answer). It comes before the gang's
    own reason."""
    wait_queue: WaitQueueStatus | None = None
    """The position of a job that waits."""
    no_ticket_reason: str = ""
    """Why the job has no ticket; shown while the job waits."""
    output: OutputStatus | None = None
    inputs: InputsStatus | None = None
    staging: Sequence[AgentStaging] = ()
    ledger: Ledger | None = None
    holdings: tuple[Holding, ...] = ()
    policy: PolicyStatus | None = None


def job_status(facts: StatusFacts) -> JobStatus:
    """The gang's own status, completed with what only its ApplicationMaster knows."""
    gang, record = facts.gang, facts.record
    bringing = staging_status(gang, facts.staging)
    reported = facts.inputs or InputsStatus(excluded_files_of(record.job), ())
    by_rank = {metric.rank: metric for metric in facts.metrics}
    tried = {one.attempt for one in gang.history if one.is_pre_run}
    own = [] if gang.is_pre_run else [one for one in facts.metrics if one.attempt not in tried]
    status = describe(gang, facts.now_s)
    shown_queue = facts.wait_queue if gang.phase is Phase.PENDING else None
    return replace(
        _measured_job(status, own),
        application=facts.am.application,
        name=record.job.name,
        user=record.job.user,
        queue=record.job.queue,
        requested_queue=facts.am.requested_queue,
        reason=_reason(facts, status.reason, shown_queue, bringing),
        wait_queue=shown_queue,
        submitted_at_s=record.submitted_at_s,
        am_attempt=facts.am.am_attempt,
        tasks=tuple(_measured(task, by_rank) for task in status.tasks),
        tracking_url=facts.am.tracking_url,
        checkpoint=record.job.checkpoint.directory,
        size=_size(gang, record.job),
        roles=role_states(gang, record.job, policy_for(record.job)),
        excluded_files=reported.excluded_files,
        suspects=reported.suspects,
        staging=bringing,
        output=facts.output,
        verdict=_verdict(gang, record.job, facts.am, reported.suspects),
        ledger=facts.ledger,
        holdings=facts.holdings,
        policy=facts.policy,
        time_limit=time_limit_status(gang, record.job),
        mirror=mirror_status(own),
        interactive=record.job.interactive,
        advised=advised_words(record.job, own),
    )


def advised_words(job: JobSpec, metrics: Sequence[AgentMetrics]) -> str:
    """The reason of its size with the step as it was predicted and as it is measured; empty if a
    user chose the size."""
    if job.advised is None:
        return ""
    lead = min(metrics, key=lambda metric: metric.rank, default=None)
    measured = None if lead is None else dict(lead.values).get(STEP_S)
    return job.advised.words(None if measured is None else float(f"{measured:.2g}"))


def mirror_status(metrics: Sequence[AgentMetrics]) -> MirrorStatus | None:
    """The newest set of the first task that keeps any, with the trouble of any task."""
    reports = [metric for metric in metrics if metric.mirror is not None]
    if not reports:
        return None
    lead = min(reports, key=lambda metric: metric.rank).mirror
    assert lead is not None
    trouble = next(
        (
            f"rank {metric.rank}: {metric.mirror.trouble}" if len(reports) > 1 else lead.trouble
            for metric in reports
            if metric.mirror is not None and metric.mirror.trouble
        ),
        "",
    )
    return MirrorStatus(lead.number, lead.files, lead.size, lead.saved_at_s, len(reports), trouble)


def time_limit_status(gang: Gang, job: JobSpec) -> TimeLimitStatus | None:
    """Without the time of the present run, which changes all the time."""
    if job.time_limit_s is None:
        return None
    stops_at_s = gang.deadline_s(TimerKind.TIME_LIMIT)
    return TimeLimitStatus(job.time_limit_s, gang.ran_s, stops_at_s)


def _reason(
    facts: StatusFacts,
    own: str,
    wait_queue: WaitQueueStatus | None,
    staging: StagingStatus | None,
) -> str:
    gang = facts.gang
    reason = waiting_text(wait_queue) if wait_queue is not None else own
    if facts.output is not None and gang.phase is Phase.STORING:
        reason += f"; {facts.output.words}"
    if words := staging_text(gang, staging):
        reason += f"; {words}"
    if facts.no_ticket_reason and gang.phase in WAITS:
        why = facts.no_ticket_reason
        reason += f"; wait queue unavailable, retrying at random intervals: {why}"
    return f"{facts.trouble}; {reason}" if facts.trouble else reason


def is_news(status: JobStatus, shown: JobStatus, ledger_period_s: float) -> bool:
    """Whether it differs from what is shown in more than its time and a ledger of this period."""
    if status.at_s - shown.at_s >= ledger_period_s and status.ledger != shown.ledger:
        return True
    return replace(status, at_s=shown.at_s, ledger=shown.ledger) != shown


def _measured_job(status: JobStatus, metrics: Sequence[AgentMetrics]) -> JobStatus:
    """Adds the metrics of rank 0, or of the first rank that reports any."""
    reports = [metric for metric in metrics if _has_report(metric)]
    if not reports:
        return status
    lead = next((metric for metric in reports if metric.rank == 0), reports[0])
    return replace(
        status,
        step=lead.step,
        total_steps=lead.total_steps,
        loss=_loss(lead),
        metrics=_of_the_user(lead.values),
    )


def _verdict(
    gang: Gang, job: JobSpec, facts: AmFacts, suspects: Sequence[SuspectStatus]
) -> Verdict | None:
    if gang.verdict is None:
        return None
    kept = kept_place(gang, job, facts.application)
    return with_suspects(addressed(gang.verdict, facts.application, kept), suspects)


def with_suspects(verdict: Verdict, suspects: Sequence[SuspectStatus]) -> Verdict:
    """Adds to a failed job's verdict the inputs that it reported, with what the checks found."""
    if verdict.kind is not VerdictKind.FAILED:
        return verdict
    shown = [suspect.words for suspect in suspects if suspect.state not in {"cleared", "gone"}]
    reported = "".join(f"\n{words}" for words in shown[:MAX_SUSPECTS_SHOWN])
    if len(shown) > MAX_SUSPECTS_SHOWN:
        reported += f"\nand {len(shown) - MAX_SUSPECTS_SHOWN} more inputs"
    return replace(verdict, message=verdict.message + reported)


def excluded_files_of(job: JobSpec) -> tuple[ExcludedFiles, ...]:
    """The input files that the job excludes."""
    return tuple(
        ExcludedFiles(given.name, len(given.skipped), given.skipped_share)
        for given in job.inputs
        if given.skipped
    )


def _size(gang: Gang, job: JobSpec) -> SizeStatus | None:
    role = job.elastic_role
    if role is None or role.min_tasks is None:
        return None
    launched = [m for m in gang.members if m.task is not None and m.target.role == role.name]
    each = launched[0].target.resources.gpus if launched else role.resources.gpus
    return SizeStatus(
        role.name,
        len(launched),
        role.min_tasks,
        role.tasks,
        each,
        gang.size_request.tasks,
        gang.size_request.requester,
    )


def _measured(task: TaskStatus, by_rank: dict[int, AgentMetrics]) -> TaskStatus:
    """Adds the metrics of the task's first rank that reports any, and what all of them use."""
    mine = [by_rank[rank] for rank in task.ranks if rank in by_rank]
    mine = [metric for metric in mine if str(metric.ask) == task.ask]
    task = replace(task, usage=_usage(mine)) if mine else task
    metric = next(filter(_has_report, mine), None)
    if metric is None:
        return task
    values = _of_the_user(metric.values)
    return replace(task, step=metric.step, loss=_loss(metric), metrics=values)


def _usage(metrics: Sequence[AgentMetrics]) -> tuple[tuple[str, Measured], ...]:
    """The usage of one task's processes: sums, and the mean of what is in percent."""
    usage = []
    for name in USAGE_METRICS:
        values = [value for metric in metrics for key, value in metric.values if key == name]
        if values:
            count = len(values) if name == GPU_PERCENT else 1
            usage.append((name, Measured(sum(values) / count)))
    return tuple(usage)


def _has_report(metric: AgentMetrics) -> bool:
    """Whether the program itself has reported anything."""
    return metric.step is not None or bool(_of_the_user(metric.values))


def _of_the_user(values: tuple[tuple[str, Measured], ...]) -> tuple[tuple[str, Measured], ...]:
    return tuple((name, value) for name, value in values if name not in _NOT_OF_THE_USER)


def _loss(metric: AgentMetrics) -> Measured | None:
    values = dict(metric.values)
    return next((values[name] for name in LOSS_NAMES if name in values), None)


def progress(status: JobStatus) -> float | None:
    """The fraction done, in [0, 1]; ``None`` means the job does not report it."""
    if status.step is None or not status.total_steps:
        return None
    return min(1.0, max(0.0, status.step / status.total_steps))


# ---- staging -------------------------------------------------------------------------------

_ON_THE_WAY = frozenset({Phase.ACQUIRING, Phase.CHECKING, Phase.STAGING, Phase.REPLACING})


def staging_status(gang: Gang, reported: Sequence[AgentStaging]) -> StagingStatus | None:
    """The staging of the gang's present members; ``None`` means no member stages anything."""
    asks = {member.ask for member in gang.everyone}
    mine = [agent for agent in reported if agent.ask in asks]
    if not mine:
        return None
    slowest = max(mine, key=_left_s)
    is_known = all(agent.left_s is not None or agent.files_done >= agent.files for agent in mine)
    return StagingStatus(
        files=sum(agent.files for agent in mine),
        files_done=sum(agent.files_done for agent in mine),
        size=sum(agent.size for agent in mine),
        done=sum(agent.done for agent in mine),
        cached=sum(agent.cached for agent in mine),
        left_s=slowest.left_s if is_known else None,
        slowest=str(slowest.ask),
        trouble=next((agent.trouble for agent in mine if agent.trouble), ""),
    )


def staging_text(gang: Gang, staging: StagingStatus | None) -> str:
    """Text for the status line; empty means nothing worth showing."""
    if staging is None or gang.phase not in _ON_THE_WAY or staging.is_done:
        return ""
    text = f"inputs: {byte_words(staging.done)} of {byte_words(staging.size)}"
    if staging.cached:
        text += f" ({byte_words(staging.cached)} were there)"
    if staging.left_s is not None and staging.left_s >= 1:
        text += f", about {staging.left_s:.0f} s left"
    return f"{text}; {staging.trouble}" if staging.trouble else text


def _left_s(agent: AgentStaging) -> float:
    if agent.files_done >= agent.files:
        return 0.0
    return float("inf") if agent.left_s is None else agent.left_s
