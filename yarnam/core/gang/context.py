"""The context of one step: the gang so far, and the actions it has led to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from yarnam.core.gang.policy import GangPolicy
from yarnam.core.gang.state import (
    Acquisition,
    Gang,
    Member,
    NodeRecords,
    Resizing,
    Retries,
    SizeRequest,
    Timer,
)
from yarnam.core.model.actions import Action, CancelTimer, ReleaseContainer, StartTimer
from yarnam.core.model.events import TimerFired, TimerId, TimerKind
from yarnam.core.model.job_status import Phase

EARLY_S = 0.05
"""A timer this much before its deadline counts as on time: clocks and timers round."""


@dataclass(frozen=True, slots=True)
class AllEnded:
    """Inside of a step: of a gang that is being stopped, every end is known and explained."""


T = TypeVar("T")


class _Part(Generic[T]):
    """One group of the gang's fields: assigning it replaces it in the gang."""

    __slots__ = ("_name",)

    def __set_name__(self, owner: object, name: str) -> None:
        self._name = name

    def __get__(self, ctx: StepContext, owner: object) -> T:
        part: T = getattr(ctx.gang, self._name)
        return part

    def __set__(self, ctx: StepContext, value: T) -> None:
        changes: dict[str, Any] = {self._name: value}
        ctx.gang = replace(ctx.gang, **changes)


class StepContext:
    """The gang as it is by now, the actions so far, and the time of the event."""

    __slots__ = ("actions", "at_s", "found", "gang", "is_concluded", "job_policy")

    acquisition = _Part[Acquisition]()
    retries = _Part[Retries]()
    nodes = _Part[NodeRecords]()
    size_request = _Part[SizeRequest]()
    resizing = _Part[Resizing]()

    def __init__(self, gang: Gang, policy: GangPolicy, at_s: float) -> None:
        self.gang = gang
        self.job_policy = policy
        self.at_s = at_s
        self.actions: list[Action] = []
        self.found: Member | None = None
        """The member that the event is about, as it was before."""
        self.is_concluded = False
        """Whether ``AllEnded`` follows in this step."""

    @property
    def policy(self) -> GangPolicy:
        """The limits of what is under way: the gang, or its pre-run."""
        pre_run = self.job_policy.pre_run
        return pre_run if pre_run is not None and self.gang.is_pre_run else self.job_policy

    @property
    def member(self) -> Member:
        """The member that the event is about: only for events that name an ask."""
        assert self.found is not None
        return self.found

    def do(self, action: Action) -> None:
        self.actions.append(action)

    def enter(self, phase: Phase, reason: str = "") -> None:
        if self.gang.phase is Phase.RUNNING and not self.gang.is_pre_run:
            # The clock of the next ApplicationMaster's node may be behind.
            stretch_s = max(0.0, self.at_s - self.gang.since_s)
            self.gang = replace(self.gang, ran_s=self.gang.ran_s + stretch_s)
        self.gang = replace(self.gang, phase=phase, since_s=self.at_s, reason=reason)

    # ---- timers ------------------------------------------------------------------------------

    def arm(self, kind: TimerKind, delay_s: float) -> None:
        """Start the timer of this kind, or move it; it is bound to the current attempt."""
        others = tuple(t for t in self.gang.timers if t.timer.kind is not kind)
        timer = Timer(TimerId(kind, self.gang.attempt), self.at_s + delay_s)
        self.gang = replace(self.gang, timers=(*others, timer))
        self.do(StartTimer(timer.timer, delay_s))

    def disarm(self, *kinds: TimerKind) -> None:
        """Cancel the timers of these kinds that run."""
        for timer in self.gang.timers:
            if timer.timer.kind in kinds:
                self.do(CancelTimer(timer.timer))
        self.forget(*kinds)

    def forget(self, *kinds: TimerKind) -> None:
        """Drop timers that have fired or died with the last AM."""
        left = tuple(t for t in self.gang.timers if t.timer.kind not in kinds)
        if len(left) < len(self.gang.timers):
            self.gang = replace(self.gang, timers=left)

    def fired(self, event: TimerFired) -> TimerKind | None:
        """The limit that is over; ``None`` for a stale timer, or one that came before its time,
        which is started again with the time left."""
        timer = self.gang.timer(event.timer.kind)
        if timer is None or timer.timer != event.timer:
            return None
        if self.at_s < timer.deadline_s - EARLY_S:
            self.do(StartTimer(timer.timer, timer.deadline_s - self.at_s))
            return None
        return event.timer.kind

    def rearm(self) -> None:
        """Start all timers again with the time they have left: the last AM's died with it."""
        for timer in self.gang.timers:
            self.do(StartTimer(timer.timer, max(0.0, timer.deadline_s - self.at_s)))

    # ---- members -----------------------------------------------------------------------------

    def put(self, old: Member, new: Member) -> None:
        """Replace one member, in place."""
        self.gang = replace(
            self.gang, members=tuple(new if m is old else m for m in self.gang.members)
        )

    def drop(self, member: Member) -> None:
        """The gang continues without this member."""
        self.gang = replace(
            self.gang, members=tuple(m for m in self.gang.members if m is not member)
        )

    def release(self, member: Member, reason: str) -> None:
        self.do(ReleaseContainer(member.ask, reason))

    def release_all(self, reason: str) -> None:
        """Give back everything granted and withdraw everything asked for."""
        self.drop_growth(reason)
        self.drop_leaving(reason)
        for member in self.gang.members:
            if member.loss is None or member.is_holding:
                self.release(member, reason)

    def drop_growth(self, reason: str) -> None:
        """Give back the containers by which a gang was about to grow, if it was."""
        growth = self.resizing.growth
        if growth is None:
            return
        for member in growth.members:
            self.release(member, reason)
        self.disarm(TimerKind.GROWTH)
        self.resizing = replace(self.resizing, growth=None)
        if self.gang.phase is Phase.RUNNING:
            self.gang = replace(self.gang, reason=f"did not grow: {reason}")

    def drop_leaving(self, reason: str) -> None:
        """Wait no longer for the tasks that leave an in-place elastic gang."""
        if self.resizing.leaving:
            for member in self.resizing.leaving:
                self.release(member, reason)
            self.disarm(TimerKind.STOP, TimerKind.NOTICE)
            self.resizing = replace(self.resizing, leaving=())
