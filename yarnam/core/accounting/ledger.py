"""The use of a job's time: a fold over its journal, and the resulting ledger.

The time from the submit to the verdict is cut at each event. A piece belongs to what the gang was
doing:

- **waiting**: no container is held. Queued, or backing off.
- **held incomplete**: some containers are held while others are still asked for.
- **localizing**: all containers are held, and YARN brings the job's files to their nodes.
- **pre-run**: the pre-run's container is held, before the gang is acquired.
- **staging**, **starting**: the whole gang is there, and has not trained yet. Its nodes are
  checked. Until the first
  report of a step, where the program reports steps at all.
- **training**: all processes run. *Checkpointing* is the part of it in which the SDK says that it
  stood still for a save.
- **recovering**: the gang is stopped for a failure, a preemption or a resize, or starts again after
  one, while it holds containers.
- **idle**: held to no use: the last tasks are stopped, outputs are stored.

Which part of the training was kept is known when the next attempt has restored a checkpoint, or the
job has ended. Steps are taken to be equally long within one attempt:

- an attempt keeps the steps up to the checkpoint that the next attempt has restored; when a later
  one goes further back, up to that;
- the last attempt of a job that succeeded, or that still trains, keeps everything;
- the last attempt of a job that failed or was cancelled keeps what it has saved.

Where a program does not report, an attempt that is followed by another counts as lost: the ledger
is then marked as an estimate.

Times of the journal may go back (a new ApplicationMaster on another node): a piece is never shorter
than nothing, and the sum is the time from the first to the last event.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from yarnam.core.gang import RECENT_EVENTS, Gang, MemberState, initial, policy_for, step
from yarnam.core.gang.phases.stopping import PASSING
from yarnam.core.gang.state import WELL_ENDED, StopKind
from yarnam.core.model.events import Event, TaskExited, TrainingReported
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.job_status import FINAL_PHASES, Holding, Ledger, LedgerEntry, Phase, Use
from yarnam.core.model.outcomes import Verdict, VerdictKind

RESOLUTION_S = 1.0
"""Events that come closer to each other count as simultaneous: a gang of a thousand tasks has a
thousand events together, and its holdings are recounted for each interval."""

MAX_HOLDINGS = 256
"""The most changes of the holdings that are remembered; beyond it, every other one is forgotten."""


@dataclass(frozen=True, slots=True)
class NodeShare:
    """The part of a gang that ran on one node."""

    node: str
    rack: str
    tasks: int
    gpus: int


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """The training of one attempt: wall and GPU seconds before and after its first report."""

    attempt: int
    began_at_s: float
    nodes: tuple[NodeShare, ...] = ()
    is_first: bool = True
    before_s: float = 0.0
    before_gpu_s: float = 0.0
    training_s: float = 0.0
    training_gpu_s: float = 0.0
    first_step: int | None = None
    step: int | None = None
    """``None`` if it reports no steps."""
    resumed_step: int | None = None
    saved_step: int | None = None
    saving_s: float = 0.0
    processes: tuple[tuple[str, int], ...] = ()
    """The processes of each role."""
    step_s: float | None = None
    """As in ``TrainingReported``."""
    compute_s: float | None = None
    total_steps: int | None = None


@dataclass(frozen=True, slots=True)
class Accounts:
    """The state of the fold. Times in seconds since the epoch."""

    since_s: float
    """When the job was submitted."""
    until_s: float
    """Up to here everything is in the books."""
    spent: Mapping[Use, tuple[float, float]] = field(default_factory=dict[Use, tuple[float, float]])
    """Wall and GPU seconds; of training, only what the runs do not say."""
    runs: tuple[TrainingRun, ...] = ()
    holdings: tuple[Holding, ...] = ()


def open_accounts(submitted_at_s: float) -> Accounts:
    """Open the accounts of a job without events."""
    return Accounts(submitted_at_s, submitted_at_s)


def account(accounts: Accounts, before: Gang, event: Event, after: Gang) -> Accounts:
    """After one step: ``before`` is the gang until the event, ``after`` from then on."""
    if before.verdict is not None:
        return accounts
    has_moved = after.phase is not before.phase or after.attempt != before.attempt
    is_reported = isinstance(event, TrainingReported | TaskExited)
    if not (has_moved or is_reported or event.at_s - accounts.until_s >= RESOLUTION_S):
        return accounts
    accounts = _advanced(accounts, before, event.at_s)
    if has_moved and after.phase is Phase.RUNNING and not after.is_pre_run:
        run = TrainingRun(
            after.attempt,
            accounts.until_s,
            _nodes(after),
            is_first=not accounts.runs,
            processes=_processes(after),
        )
        accounts = replace(accounts, runs=(*accounts.runs, run))
    if isinstance(event, TrainingReported):
        accounts = _with_report(accounts, event)
    elif isinstance(event, TaskExited):
        accounts = _with_last_step(accounts, event)
    return _with_holding(accounts, after)


Booked = Callable[[Gang, Event, Gang, Accounts], None]
"""One step, and the accounts after it."""


def account_all(
    job: JobSpec,
    submitted_at_s: float,
    events: Iterable[Event],
    booked: Booked = lambda before, event, after, accounts: None,
) -> tuple[Gang, Accounts]:
    """The gang and its accounts after these events. The actions were performed when the events were
    first stepped; what they built (containers, timers) went with the AM attempt that did it."""
    gang, policy, accounts = initial(job), policy_for(job), open_accounts(submitted_at_s)
    recent: deque[Event] = deque(maxlen=RECENT_EVENTS)
    for event in events:
        before = gang
        gang, _ = step(before, event, policy, recent)
        accounts = account(accounts, before, event, gang)
        booked(before, event, gang, accounts)
        recent.append(event)
    return gang, accounts


def ledger(accounts: Accounts, gang: Gang, now_s: float, verdict: Verdict | None = None) -> Ledger:
    """The ledger of a job in this state, up to its verdict or to now. ``verdict`` is for an ended
    job whose gang has none, because its ApplicationMaster was lost."""
    if gang.verdict is None:
        accounts = _advanced(accounts, gang, now_s)
        gang = replace(gang, verdict=verdict)
    spent = {use: accounts.spent.get(use, (0.0, 0.0)) for use in Use}
    kept, is_estimated = _kept_shares(accounts.runs, gang)
    for run, share in zip(accounts.runs, kept, strict=True):
        _divide(spent, run, share)
    entries = tuple(LedgerEntry(use, wall_s, gpu_s) for use, (wall_s, gpu_s) in spent.items())
    return Ledger(entries, is_estimated)


# ---- the fold ------------------------------------------------------------------------------


def _advanced(accounts: Accounts, gang: Gang, at_s: float) -> Accounts:
    """Add the time up to ``at_s``, in which the gang was in this state."""
    wall_s = at_s - accounts.until_s
    if wall_s <= 0:
        return accounts
    holding = _held(gang)
    gpu_s = wall_s * holding[1]
    accounts = replace(accounts, until_s=at_s)
    if gang.phase is Phase.RUNNING and accounts.runs and not gang.is_pre_run:
        return _with_training(accounts, wall_s, gpu_s)
    use = _use(gang, has_trained=bool(accounts.runs), is_holding=holding[0] > 0)
    was_s, was_gpu_s = accounts.spent.get(use, (0.0, 0.0))
    return replace(accounts, spent={**accounts.spent, use: (was_s + wall_s, was_gpu_s + gpu_s)})


def _use(gang: Gang, *, has_trained: bool, is_holding: bool) -> Use:
    if gang.is_pre_run and is_holding:
        return Use.PRE_RUN
    match gang.phase:
        case Phase.ACQUIRING if gang.is_localizing:
            return Use.LOCALIZING
        case Phase.ACQUIRING:
            return Use.HELD if is_holding else Use.WAITING
        case Phase.STAGING:
            return Use.RECOVERING if has_trained else Use.STAGING
        case Phase.CHECKING | Phase.LAUNCHING:
            return Use.RECOVERING if has_trained else Use.STARTING
        case Phase.REPLACING:
            return Use.RECOVERING
        case Phase.STOPPING:
            again = PASSING | {StopKind.FAILED, StopKind.SUSPENDED}
            is_again = gang.stopping is not None and gang.stopping.kind in again
            return Use.RECOVERING if is_again else Use.IDLE
        case Phase.PENDING | Phase.BACKING_OFF:
            return Use.WAITING
        case Phase.SUSPENDED:
            return Use.SUSPENDED
        case _:
            return Use.IDLE


def _held(gang: Gang) -> tuple[int, int]:
    """Containers and GPUs."""
    if gang.phase in FINAL_PHASES or gang.phase is Phase.STORING:
        return 0, 0  # They are being released.
    held = [member for member in gang.everyone if member.is_holding]
    return len(held), sum(member.target.resources.gpus for member in held)


def _nodes(gang: Gang) -> tuple[NodeShare, ...]:
    nodes: dict[tuple[str, str], tuple[int, int]] = {}
    for member in gang.members:
        if member.grant is not None and member.state is not MemberState.ASKED:
            key = (str(member.grant.node), str(member.grant.rack))
            tasks, gpus = nodes.get(key, (0, 0))
            nodes[key] = (tasks + 1, gpus + member.target.resources.gpus)
    return tuple(NodeShare(*key, *counts) for key, counts in nodes.items())


def _processes(gang: Gang) -> tuple[tuple[str, int], ...]:
    counts = Counter[str]()
    for member in gang.members:
        if member.is_holding:
            counts[member.target.role] += member.target.processes_per_task
    return tuple(sorted(counts.items()))


def _with_training(accounts: Accounts, wall_s: float, gpu_s: float) -> Accounts:
    *earlier, run = accounts.runs
    if run.first_step is None:
        run = replace(run, before_s=run.before_s + wall_s, before_gpu_s=run.before_gpu_s + gpu_s)
    else:
        run = replace(
            run,
            training_s=run.training_s + wall_s,
            training_gpu_s=run.training_gpu_s + gpu_s,
        )
    return replace(accounts, runs=(*earlier, run))


def _with_report(accounts: Accounts, event: TrainingReported) -> Accounts:
    """A report of another attempt is late: it changes nothing."""
    if not accounts.runs or accounts.runs[-1].attempt != event.attempt:
        return accounts
    *earlier, run = accounts.runs
    run = replace(
        run,
        first_step=event.step if run.first_step is None else run.first_step,
        step=event.step if run.step is None else max(run.step, event.step),
        resumed_step=_newer(event.resumed_step, run.resumed_step),
        saved_step=_newer(event.saved_step, run.saved_step),
        saving_s=max(run.saving_s, event.saving_s),
        step_s=run.step_s if event.step_s is None else event.step_s,
        compute_s=run.compute_s if event.compute_s is None else event.compute_s,
        total_steps=_newer(event.total_steps, run.total_steps),
    )
    return replace(accounts, runs=(*earlier, run))


def _with_last_step(accounts: Accounts, event: TaskExited) -> Accounts:
    steps = [one.step for one in event.exits if one.step is not None]
    if not steps or not accounts.runs or accounts.runs[-1].attempt != event.attempt:
        return accounts
    *earlier, run = accounts.runs
    run = replace(run, step=max(steps) if run.step is None else max(run.step, *steps))
    return replace(accounts, runs=(*earlier, run))


def _newer(new: int | None, old: int | None) -> int | None:
    return old if new is None else new


def _with_holding(accounts: Accounts, gang: Gang) -> Accounts:
    containers, gpus = _held(gang)
    last = accounts.holdings[-1] if accounts.holdings else Holding(accounts.since_s, 0, 0)
    if (last.containers, last.gpus) == (containers, gpus):
        return accounts
    holdings = accounts.holdings
    if len(holdings) >= MAX_HOLDINGS:
        holdings = holdings[::2]
    now = Holding(accounts.until_s, containers, gpus)
    return replace(accounts, holdings=(*holdings, now))


# ---- what was kept -------------------------------------------------------------------------


def _kept_shares(runs: tuple[TrainingRun, ...], gang: Gang) -> tuple[list[float], bool]:
    """The share of each run's training that was kept, and whether that is an estimate."""
    uses_sdk = any(run.resumed_step is not None or run.saved_step is not None for run in runs)
    is_estimated = False
    shares: list[float] = []
    limit: float | None = None
    """The step up to which the training is kept; ``None`` if unknown, or if nothing is."""
    for run in reversed(runs):
        resumed = _start(run, uses_sdk=uses_sdk)
        if not shares:
            limit = float("inf") if _is_kept_whole(gang) else run.saved_step
        if limit == float("inf"):
            shares.append(1.0)
        else:
            is_estimated = is_estimated or run.step is None or not uses_sdk
            shares.append(_share(run, resumed, limit))
        known = [at for at in (limit, resumed) if at is not None]
        limit = min(known) if resumed is not None else None
    return shares[::-1], is_estimated


def _is_kept_whole(gang: Gang) -> bool:
    """Whether nothing of the last attempt's training is lost, as far as known now."""
    if gang.verdict is not None:
        return gang.verdict.kind is VerdictKind.SUCCEEDED
    has_succeeded = gang.stopping is not None and gang.stopping.kind in WELL_ENDED
    return gang.phase in {Phase.RUNNING, Phase.STORING} or has_succeeded


def _start(run: TrainingRun, *, uses_sdk: bool) -> float | None:
    """The step that a run continued from; ``None`` if unknown."""
    if run.resumed_step is not None:
        return run.resumed_step
    if run.is_first or uses_sdk:
        return 0
    return run.first_step


def _share(run: TrainingRun, resumed: float | None, limit: float | None) -> float:
    """The share of a run's steps, from the one that it resumed from, that lie up to ``limit``."""
    if run.step is None or limit is None:
        return 0.0
    start = resumed or 0.0
    if run.step <= start:
        return 1.0 if limit >= start else 0.0
    return min(1.0, max(0.0, (limit - start) / (run.step - start)))


def _divide(spent: dict[Use, tuple[float, float]], run: TrainingRun, kept: float) -> None:
    """Books one run: before its first report, saving, kept and lost."""
    wall_s, gpu_s = run.training_s, run.training_gpu_s
    if wall_s <= 0:  # It reports nothing, or was over with its first report.
        wall_s, gpu_s = run.before_s, run.before_gpu_s
    else:
        use = Use.STARTING if run.is_first else Use.RECOVERING
        _add(spent, use, run.before_s, run.before_gpu_s)
    saving = min(1.0, run.saving_s / wall_s) if wall_s > 0 else 0.0
    _add(spent, Use.CHECKPOINTING, wall_s * saving, gpu_s * saving)
    training_s, training_gpu_s = wall_s * (1 - saving), gpu_s * (1 - saving)
    _add(spent, Use.KEPT, training_s * kept, training_gpu_s * kept)
    _add(spent, Use.LOST, training_s * (1 - kept), training_gpu_s * (1 - kept))


def _add(spent: dict[Use, tuple[float, float]], use: Use, wall_s: float, gpu_s: float) -> None:
    was_s, was_gpu_s = spent[use]
    spent[use] = (was_s + wall_s, was_gpu_s + gpu_s)
