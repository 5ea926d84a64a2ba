"""The shape that all observers of a running gang share.

The ApplicationMaster looks at its gang every second or two. At each look every observer folds the
same ``View`` into its own state and returns what follows. Pure: an observer sends nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from yarnam.core.failures.rank_activity import RankActivity
from yarnam.core.model.events import ConditionChanged, Event
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.job_status import AttemptRecord, JobStatus, Phase
from yarnam.core.model.metrics import AgentMetrics

if TYPE_CHECKING:
    # ``status`` and ``explain`` load the observers for their texts, and need no gang machine.
    from yarnam.core.gang import Gang
    from yarnam.core.gang.state import Member

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class View:
    """The gang at one look, with the newest reports of its agents."""

    gang: Gang
    job: JobSpec
    now_s: float
    metrics: Sequence[AgentMetrics] = ()
    """The reports of the present attempt, in the order of the ranks."""
    activity: Sequence[RankActivity] = ()
    started: tuple[Member, ...] = ()
    """The members whose processes run."""
    tasks_for: Callable[[int], int] | None = None
    """The size of an elastic gang with at most this many GPUs. ``None`` if the job has one
    size."""

    @property
    def is_training(self) -> bool:
        """Whether the gang itself runs, not its pre-run."""
        return self.gang.phase is Phase.RUNNING and not self.gang.is_pre_run

    @property
    def is_whole(self) -> bool:
        """Whether the processes of all tasks run. While some start or have ended, the others wait
        for something else."""
        done = self.job.preparing_roles
        members = self.gang.members
        return len(self.started) == sum(not (m.target.role in done and m.is_ok) for m in members)


@dataclass(frozen=True, slots=True)
class Observation:
    """What follows from one look."""

    events: tuple[Event, ...] = ()
    warnings: tuple[str, ...] = ()
    """Lines for the log."""
    dump: tuple[AskId, ...] = ()
    """The tasks whose processes are to dump their stacks."""


NOTHING = Observation()


@dataclass(frozen=True, slots=True)
class StatusLine:
    text: str
    is_warning: bool = True
    """Whether somebody should look at it."""


def _no_lines(status: JobStatus, now_s: float) -> Iterable[StatusLine]:
    return ()


def _nothing_past(record: AttemptRecord) -> Iterable[str]:
    return ()


def _no_text(event: Any) -> str:
    return ""


def _no_part(state: Any, status: JobStatus) -> JobStatus:
    return status


@dataclass(frozen=True, slots=True)
class Observer(Generic[S]):
    """One row of the table. ``section`` is the section of the spec that configures it; empty if
    none does."""

    name: str
    section: str
    initial: S
    observe: Callable[[S, View], tuple[S, Observation]]
    event: type[Event]
    """The event by which the gang machine learns of a finding."""
    event_text: Callable[[Any], str] = _no_text
    """That event in one line. Empty where the event has a text of its own."""
    lines: Callable[[JobStatus, float], Iterable[StatusLine]] = _no_lines
    """The present finding, for ``status``, ``watch`` and the job's page."""
    past: Callable[[AttemptRecord], Iterable[str]] = _nothing_past
    """The findings of an attempt, for ``explain``."""
    status: Callable[[S, JobStatus], JobStatus] = _no_part
    """Adds to the status what the gang machine does not know."""


# ---- observers whose findings change nothing but what is shown -----------------------------------


def condition(name: str, view: View, message: str) -> Observation:
    """The condition of this name has begun or changed; with an empty message it has ended."""
    event = ConditionChanged(view.now_s, view.gang.attempt, name, message)
    return Observation((event,), (f"{name}: {message}",) if message else ())


def condition_observer(
    name: str, section: str, initial: S, observe: Callable[[S, View], tuple[S, Observation]]
) -> Observer[S]:
    """An observer that reports a condition. Its module and its row in the table are all it
    takes."""

    def lines(status: JobStatus, now_s: float) -> Iterable[StatusLine]:
        present = (condition for condition in status.conditions if condition.type == name)
        return [StatusLine(f"{name}: {condition.message}") for condition in present]

    def past(record: AttemptRecord) -> Iterable[str]:
        return [
            f"{name}: {condition.message}"
            for condition in record.conditions
            if condition.type == name
        ]

    return Observer(name, section, initial, observe, ConditionChanged, condition_text, lines, past)


def condition_text(event: ConditionChanged) -> str:
    return f"{event.type}: {event.message or 'no longer'}"
