"""The job's report to the policy of its queue: its attained service, its remaining steps, and the
cost of a pause. A fold over its journal, like the ledger, so that a killed ApplicationMaster's
successor continues with the same figures."""

from __future__ import annotations

from dataclasses import dataclass, replace

from yarnam.core.accounting.ledger import Accounts
from yarnam.core.gang import Gang
from yarnam.core.gang.policy import SizePolicy
from yarnam.core.gang.state import StopKind
from yarnam.core.model.events import CheckpointMirrored, Event, ResumeRequested, TrainingReported
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.job_status import Phase
from yarnam.core.model.tickets import HoldState, PolicyTicket

HOLDING = frozenset({Phase.CHECKING, Phase.STAGING, Phase.LAUNCHING, Phase.RUNNING, Phase.STOPPING})
"""In these phases the whole gang is held."""


@dataclass(frozen=True, slots=True)
class Service:
    """The state of the fold. Times in seconds since the epoch."""

    state: HoldState = HoldState.WAITING
    since_s: float = 0.0
    """When the gang was complete, for the first time or again with another size, or had given all
    GPUs back to a policy; for a job that waits again after a failure, when it last was complete."""
    gpu_s: float = 0.0
    """Attained GPU-seconds up to ``since_s``; all of them for a job that waits again."""
    ran_s: float = 0.0
    """How long the gang was complete before this run."""
    stop_began_s: float | None = None
    """When the gang began to stop, to be suspended or to continue with another size; ``None`` if it
    does not stop."""
    stop_cost_s: float = 0.0
    """The time from there until it held nothing, or was complete with another size."""
    start_cost_s: float = 0.0
    """The time from the last complete gang to the first report of its training, which comes once it
    has loaded its checkpoint; until that report, to its processes' start."""
    started_gpu_s: float = 0.0
    """Its attained service when its gang was last complete after a wait."""
    promoted_gpu_s: float = 0.0
    """Its attained service at its last promotion."""
    has_checkpoint: bool = False
    speeds: tuple[tuple[int, float], ...] = ()
    """Steps per second for each number of GPUs, from finished runs."""


def served(service: Service, before: Gang, event: Event, after: Gang, books: Accounts) -> Service:
    """Fold one step of the gang; ``books`` are the accounts after it."""
    if isinstance(event, CheckpointMirrored):
        return replace(service, has_checkpoint=True)
    if isinstance(event, TrainingReported):
        return _reported(service, event, books)
    if after.phase is before.phase or after.is_pre_run or before.is_pre_run:
        return service
    if isinstance(event, ResumeRequested) and event.is_promoted:
        return replace(service, promoted_gpu_s=service.gpu_s)
    was_held, is_held, at_s = before.phase in HOLDING, after.phase in HOLDING, event.at_s
    if is_held and before.phase is Phase.STOPPING:
        service = _stopped(service, at_s, books)
    if is_held and (not was_held or before.phase is Phase.STOPPING):
        spent = gpu_seconds(books)
        started = spent if not was_held else service.started_gpu_s
        service = replace(
            service, state=HoldState.RUNNING, since_s=at_s, gpu_s=spent, started_gpu_s=started
        )
    if after.phase is Phase.RUNNING:
        return replace(service, start_cost_s=max(0.0, at_s - service.since_s))
    if after.phase is Phase.STOPPING and after.stopping is not None:
        is_pause = after.stopping.kind in {StopKind.SUSPENDED, StopKind.RESIZED}
        return replace(service, stop_began_s=at_s if is_pause else None)
    if was_held and not is_held:
        return _ended(service, after, at_s, books)
    return service


def _reported(service: Service, event: TrainingReported, books: Accounts) -> Service:
    if event.saved_step is not None or event.resumed_step is not None:
        service = replace(service, has_checkpoint=True)
    run = books.runs[-1] if books.runs else None
    if run is None or run.attempt != event.attempt or run.training_s:
        return service  # Late, or not the first.
    return replace(service, start_cost_s=max(0.0, event.at_s - service.since_s))


def _ended(service: Service, after: Gang, at_s: float, books: Accounts) -> Service:
    """It holds nothing any more."""
    is_suspended = after.phase is Phase.SUSPENDED
    if is_suspended and service.stop_began_s is None:
        service = replace(service, stop_began_s=at_s)
    service = replace(_stopped(service, at_s, books), gpu_s=gpu_seconds(books))
    if not is_suspended:
        return replace(service, state=HoldState.WAITING)
    return replace(service, state=HoldState.SUSPENDED, since_s=at_s)


def _stopped(service: Service, at_s: float, books: Accounts) -> Service:
    """One run is over: what it has taken, how fast it was, and what its end cost where it went
    well."""
    cost_s = service.stop_cost_s
    if service.stop_began_s is not None:
        cost_s = max(0.0, at_s - service.stop_began_s)
    return replace(
        service,
        ran_s=service.ran_s + max(0.0, at_s - service.since_s),
        speeds=_with_speed(service.speeds, _speed(books)),
        stop_began_s=None,
        stop_cost_s=cost_s,
    )


def gpu_seconds(books: Accounts) -> float:
    """All that the job has held so far."""
    of_runs = sum(run.before_gpu_s + run.training_gpu_s for run in books.runs)
    return of_runs + sum(gpu_s for _, gpu_s in books.spent.values())


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Facts that do not follow from the journal."""

    application: str
    submitted_at_s: float
    settings_version: int
    steps_left: float | None = None
    """The remaining steps now, by the program's own report; ``None`` if it does not report their
    total."""


def policy_ticket(
    job: JobSpec, gang: Gang, size: SizePolicy | None, service: Service, books: Accounts,
    facts: JobFacts, now_s: float,
) -> PolicyTicket:  # fmt: skip
    """The job's current report. Its ticket overrides ``gpus``."""
    duration_s = job.duration_s
    least, most = _gpu_range(job, gang, size)
    steps_left = facts.steps_left if most else None
    rates = _rates(_with_speed(service.speeds, _speed(books))) if most else ()
    if steps_left is not None and service.state is HoldState.RUNNING and rates:
        # The steps left at the beginning of this run: the time gives what is left now.
        held = sum(m.target.resources.gpus for m in gang.members if m.is_holding)
        rate = dict(rates).get(held, 0.0)
        steps_left += rate * max(0.0, now_s - service.since_s)
    return PolicyTicket(
        job=facts.application,
        number=0,
        submitted_at_s=facts.submitted_at_s,
        gpus=least or sum(role.tasks * role.resources.gpus for role in job.roles),
        queue=job.queue,
        state=service.state,
        since_s=service.since_s or facts.submitted_at_s,
        service_gpu_s=round(service.gpu_s, 1),
        counted_gpu_s=round(max(0.0, service.gpu_s - service.promoted_gpu_s), 1),
        started_gpu_s=round(max(0.0, service.started_gpu_s - service.promoted_gpu_s), 1),
        remaining_s=None if duration_s is None else max(0.0, duration_s - service.ran_s),
        can_suspend=bool(job.checkpoint.directory) and service.has_checkpoint,
        pause_cost_s=round(service.stop_cost_s + service.start_cost_s, 1),
        least_gpus=least,
        most_gpus=most,
        rates=rates,
        remaining_steps=None if steps_left is None else float(f"{steps_left:.3g}"),
        settings_version=facts.settings_version,
        priority=job.gang.priority,
    )


def _gpu_range(job: JobSpec, gang: Gang, size: SizePolicy | None) -> tuple[int, int]:
    """The GPU range of an elastic gang, unless a user has set its size; else 0 and 0."""
    if size is None or (gang.size_request.tasks is not None and not gang.size_request.is_by_policy):
        return 0, 0
    each = gpus_per_task(job, gang, size)
    others = _gpus_of_others(job, size)
    return others + size.least * each, others + size.most * each


def gpus_per_task(job: JobSpec, gang: Gang, size: SizePolicy) -> int:
    """The GPUs of a task of the elastic role, in its present containers."""
    held = (m.target.resources.gpus for m in gang.members if m.target.role == size.role)
    declared = next(role.resources.gpus for role in job.roles if role.name == size.role)
    return next(held, declared)


def tasks_for(job: JobSpec, gang: Gang, size: SizePolicy, gpus: int) -> int:
    """Tasks of the elastic role with which the gang has no more than this many GPUs."""
    each = gpus_per_task(job, gang, size)
    return size.bounded((gpus - _gpus_of_others(job, size)) // each) if each else size.least


def _gpus_of_others(job: JobSpec, size: SizePolicy) -> int:
    """The GPUs of the roles that keep their size."""
    return sum(role.tasks * role.resources.gpus for role in job.roles if role.name != size.role)


# ---- speeds --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Speed:
    gpus: int
    steps_per_s: float


def _speed(books: Accounts) -> _Speed | None:
    """The speed of the newest run; ``None`` if it has not come far enough."""
    if not books.runs:
        return None
    run = books.runs[-1]
    gpus = sum(node.gpus for node in run.nodes)
    if run.step is None or run.first_step is None or run.training_s < 1.0 or not gpus:
        return None
    steps = run.step - run.first_step
    return _Speed(gpus, steps / run.training_s) if steps > 0 else None


def _with_speed(
    speeds: tuple[tuple[int, float], ...], new: _Speed | None
) -> tuple[tuple[int, float], ...]:
    if new is None:
        return speeds
    return tuple(sorted({**dict(speeds), new.gpus: new.steps_per_s}.items()))


def _rates(speeds: tuple[tuple[int, float], ...]) -> tuple[tuple[int, float], ...]:
    """Round to two digits, so that the ticket seldom changes."""
    return tuple((gpus, float(f"{rate:.2g}")) for gpus, rate in speeds)
