"""The record of an ended job: one bounded value, kept apart from the job's own files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from yarnam.core.accounting.ledger import Accounts, NodeShare, TrainingRun, ledger
from yarnam.core.gang import Gang
from yarnam.core.model.job_spec import AdvisedSize, JobSpec
from yarnam.core.model.job_status import AttemptRecord, ExcludedFiles, Holding, Ledger
from yarnam.core.model.outcomes import FirstCause, Verdict
from yarnam.core.model.resources import Resources

HISTORY_VERSION = 1
"""The version of history records. A reader takes a newer one as far as it knows its fields."""

MAX_ATTEMPTS = 50
MAX_RUNS = 20
LEAST_TRAINING_S = 1.0
"""A shorter training has no speed: its reports come every second."""
MAX_NODES = 64
"""The most nodes of one run; its last entry counts the others."""
MAX_HOLDINGS = 64
MAX_FOLLOWERS = 16
"""Processes that failed after the first cause."""
MAX_TEXT = 2000
"""Characters of a message, a hint, or a line."""


@dataclass(frozen=True, slots=True)
class RoleSummary:
    """The request of a role; ``resources`` is for one task."""

    name: str
    tasks: int
    resources: Resources


@dataclass(frozen=True, slots=True)
class RunPlacement:
    """Where one run of the gang was. ``nodes`` has at most ``MAX_NODES`` entries."""

    attempt: int
    nodes: tuple[NodeShare, ...]
    more_nodes: int = 0


@dataclass(frozen=True, slots=True)
class MeasuredSize:
    """The speed of one run of the gang. Times are seconds of one step."""

    nodes: int
    gpus: int
    processes: int
    """The processes that train together: without those of services."""
    step_s: float
    compute_s: float | None = None
    """The part of a step in the process itself; ``None`` if the program does not measure it."""
    steps: int | None = None
    """The steps of the whole training at this size, by the program."""

    @property
    def words(self) -> str:
        nodes = "one node" if self.nodes == 1 else f"{self.nodes} nodes"
        processes = "1 process" if self.processes == 1 else f"{self.processes} processes"
        text = f"{processes} on {nodes}: a step took {self.step_s:.3g} s"
        return text if self.compute_s is None else f"{text}, {self.compute_s:.3g} s of it compute"


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """One ended job. Times in seconds since the epoch. Without commands, variables and secrets."""

    key: str
    application: str
    name: str
    user: str
    queue: str
    submitted_at_s: float
    ended_at_s: float
    verdict: Verdict
    framework: str = ""
    spec_digest: str = ""
    """SHA-256 of the job as submitted: equal for the same spec with the same files listed."""
    roles: tuple[RoleSummary, ...] = ()
    started_at_s: float | None = None
    """When all processes ran for the first time; ``None`` if they never did."""
    attempts: tuple[AttemptRecord, ...] = ()
    """The last attempts, with their planned, requested, granted and missing containers, and their
    first causes."""
    attempt_count: int = 0
    am_attempts: int = 0
    restarts: int = 0
    preemptions: int = 0
    placements: tuple[RunPlacement, ...] = ()
    holdings: tuple[Holding, ...] = ()
    """The containers and GPUs that it held, from when on."""
    ledger: Ledger | None = None
    checkpoint: str = ""
    """The directory of its checkpoints; empty if it has none."""
    saved_step: int | None = None
    step: int | None = None
    excluded_files: tuple[ExcludedFiles, ...] = ()
    """Corrupt files of its inputs that were left out."""
    output: str = ""
    program: str = ""
    """The identity of its program, as ``PreRunSpec.key``; empty in older records."""
    sizes: tuple[MeasuredSize, ...] = ()
    """The speed of its last runs, as far as it reported steps."""
    advised: AdvisedSize | None = None
    """The advice by which its size was chosen, if it was."""
    declared_s: float | None = None
    """How long its user expected the gang to run; ``None`` if not declared."""
    written_by: str = ""
    """``am``, or ``client`` if the job's ApplicationMaster could not write it."""
    yarnam_version: str = ""
    version: int = HISTORY_VERSION

    @property
    def tasks(self) -> int:
        return sum(role.tasks for role in self.roles)

    @property
    def gpus(self) -> int:
        """The GPUs that the job asked for, all tasks together."""
        return sum(role.tasks * role.resources.gpus for role in self.roles)

    @property
    def locality(self) -> str:
        """The locality of its last run: ``node`` (one), ``rack`` (one), ``any``; empty if it never
        ran."""
        if not self.placements:
            return ""
        last = self.placements[-1]
        if len(last.nodes) + last.more_nodes == 1:
            return "node"
        return "rack" if len({node.rack for node in last.nodes}) == 1 else "any"

    @property
    def cause(self) -> FirstCause | None:
        """The cause of its failure, or else of the last attempt that failed."""
        if self.verdict.cause is not None:
            return self.verdict.cause
        causes = (record.cause for record in reversed(self.attempts) if record.cause is not None)
        return next(causes, None)


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """Facts about the job that its journal does not hold."""

    key: str
    application: str
    submitted_at_s: float
    written_by: str
    am_attempts: int = 0
    spec_digest: str = ""
    yarnam_version: str = ""
    excluded_files: Sequence[ExcludedFiles] = ()


def history_record(
    job: JobSpec, gang: Gang, accounts: Accounts, verdict: Verdict, facts: RecordFacts
) -> HistoryRecord:
    """The record of a job that has ended with this verdict, its ledger closed by then. ``gang``
    and ``accounts`` are those after its last event, which may be long before the end, where the
    ApplicationMaster was lost."""
    end_s = max(verdict.decided_at_s, accounts.until_s)
    closed = ledger(accounts, gang, end_s, verdict)
    runs = accounts.runs
    return HistoryRecord(
        key=facts.key,
        application=facts.application,
        name=job.name,
        user=job.user,
        queue=job.queue,
        submitted_at_s=facts.submitted_at_s,
        ended_at_s=end_s,
        verdict=_cut_verdict(verdict),
        framework=job.framework,
        spec_digest=facts.spec_digest,
        roles=tuple(RoleSummary(role.name, role.tasks, role.resources) for role in job.roles),
        started_at_s=runs[0].began_at_s if runs else None,
        attempts=tuple(_cut_attempt(one) for one in gang.history[-MAX_ATTEMPTS:]),
        attempt_count=len(gang.history),
        am_attempts=max(facts.am_attempts, gang.am_attempt if gang.is_started else 0),
        restarts=gang.retries.restarts,
        preemptions=gang.retries.preemptions,
        placements=tuple(_placement(run.attempt, run.nodes) for run in runs[-MAX_RUNS:]),
        holdings=thinned(accounts.holdings),
        ledger=closed,
        checkpoint=job.checkpoint.directory,
        saved_step=next((r.saved_step for r in reversed(runs) if r.saved_step is not None), None),
        step=next((run.step for run in reversed(runs) if run.step is not None), None),
        excluded_files=tuple(facts.excluded_files),
        output=job.output,
        program=job.pre_run.key,
        sizes=measured_sizes(job, runs),
        advised=job.advised,
        declared_s=job.duration_s,
        written_by=facts.written_by,
        yarnam_version=facts.yarnam_version,
    )


def measured_sizes(job: JobSpec, runs: Sequence[TrainingRun]) -> tuple[MeasuredSize, ...]:
    """The speeds of the last runs that were long enough to show one. A gang that is resized in
    place has none: its run has no one size."""
    if job.resizes_in_place:
        return ()
    found = (_measured(job, run) for run in runs[-MAX_RUNS:])
    return tuple(size for size in found if size is not None)


def _measured(job: JobSpec, run: TrainingRun) -> MeasuredSize | None:
    processes = sum(count for role, count in run.processes if role not in job.services)
    step_s = run.step_s
    if step_s is None and run.step is not None and run.first_step is not None:
        steps, training_s = run.step - run.first_step, max(0.0, run.training_s - run.saving_s)
        step_s = training_s / steps if steps > 0 and training_s >= LEAST_TRAINING_S else None
    if step_s is None or step_s <= 0.0 or not processes:
        return None
    gpus = sum(node.gpus for node in run.nodes)
    compute_s = run.compute_s if run.step_s is not None else None
    return MeasuredSize(len(run.nodes), gpus, processes, step_s, compute_s, run.total_steps)


def _placement(attempt: int, nodes: tuple[NodeShare, ...]) -> RunPlacement:
    return RunPlacement(attempt, nodes[:MAX_NODES], max(0, len(nodes) - MAX_NODES))


def thinned(holdings: tuple[Holding, ...]) -> tuple[Holding, ...]:
    """Keep at most ``MAX_HOLDINGS`` of them. The last one stays: it shows when everything was given
    back."""
    while len(holdings) > MAX_HOLDINGS:
        holdings = (*holdings[:-1:2], holdings[-1])
    return holdings


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."


def _cut_verdict(verdict: Verdict) -> Verdict:
    return replace(
        verdict,
        message=_cut(verdict.message),
        hint=_cut(verdict.hint),
        cause=_cut_cause(verdict.cause),
    )


def _cut_attempt(record: AttemptRecord) -> AttemptRecord:
    return replace(
        record,
        outcome=_cut(record.outcome),
        missing=record.missing[:MAX_FOLLOWERS],
        cause=_cut_cause(record.cause),
    )


def _cut_cause(cause: FirstCause | None) -> FirstCause | None:
    if cause is None:
        return None
    finding = replace(
        cause.finding,
        line=_cut(cause.finding.line),
        ruled_out=tuple(_cut(text) for text in cause.finding.ruled_out[:MAX_FOLLOWERS]),
    )
    return replace(cause, finding=finding, then=cause.then[:MAX_FOLLOWERS])
