"""The world of an in-place elastic gang: tasks leave it and join it while the others go on.

On top of what holds for every elastic gang: while it RUNs nobody is stopped but those that leave;
who belongs to it is told to the first task before that; a task that joins starts once, with a
number of its own; the first task stays for as long as the attempt lasts. Where tasks leave on their
own nobody gets a signal before the notice is over, and a change that no group of all members has
followed is limited.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.property.elastic_world import LEAST, MOST, ElasticWorld, elastic_job
from tests.property.gang_world import excluded, require
from yarnam.core.gang import Gang, Member, MemberState
from yarnam.core.model.actions import Action, Finish, LaunchGang, StopTask
from yarnam.core.model.events import (
    ContainerEnded,
    Event,
    GroupFormed,
    TaskStarted,
    TimerFired,
    TimerKind,
)
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ExitKind, VerdictKind


def in_place_job(*, recovery_timeout_s: float = 60.0, on_notice: bool = False) -> JobSpec:
    """Two to five workers of two processes, which go on when others come and go. ``on_notice``: of
    a framework whose processes leave on their own."""
    job = elastic_job(recovery_timeout_s=recovery_timeout_s)
    elastic = replace(job.elastic, restart=False, reform_timeout_s=40.0)
    return replace(job, elastic=elastic, framework="horovod" if on_notice else "torchrun")


def coming(gang: Gang) -> tuple[Member, ...]:
    """Those that have been launched, and are no members yet."""
    growth = gang.resizing.growth.members if gang.resizing.growth is not None else ()
    return tuple(member for member in growth if member.task is not None)


@dataclass
class InPlaceWorld(ElasticWorld):
    joined: int = 0
    absorbed: int = 0
    """Losses that the gang went on from."""
    left: int = 0
    formed: int = 0
    """The framework's groups of this attempt."""
    unformed: int = 0
    """Gangs that were stopped because no group followed a change."""
    heard: tuple[int, int] = (0, 0)
    """The newest group that the gang has heard of: its number, and of how many tasks."""
    heard_before: int = 0
    """The number of that one when the members changed."""
    is_awaited: bool = False
    """A group of all members is to follow."""
    hangs: bool = False
    """After its first group the framework forms no other one."""
    grouped: set[AskId] = field(default_factory=set)
    """Who is in that one, if all are."""
    is_notice_over: bool = False
    """NOTICE fires in this step."""

    # ---- moves -------------------------------------------------------------------------------

    def _fair_yarn(self, *, exits: bool = True) -> bool:
        for member in (*coming(self.gang), *self.gang.resizing.leaving):
            truth = self.truths[member.ask]
            if truth.is_ended or truth.is_released or truth.is_exited:
                continue
            self.now_s += 0.1
            if member in self.gang.resizing.leaving:
                self._task_ends(member.ask, ExitKind.STOPPED)
            else:
                self.inflight.append(TaskStarted(self.now_s, member.ask, truth.launched))
            return True
        is_due = self.formed == 0 or (self.is_awaited and not self.hangs)
        if self.gang.phase is Phase.RUNNING and is_due:
            self.group_forms()
            return True
        return super()._fair_yarn(exits=exits)

    def group_forms(self, lost: int = 0) -> None:
        """The framework lets the members work together, or only some of them."""
        if self.gang.phase in {Phase.LAUNCHING, Phase.RUNNING}:
            self.formed += 1
            tasks = max(1, len(self.launches[-1].members) - lost)
            event = GroupFormed(self.now_s, self.gang.attempt, self.formed, tasks)
            self.inflight.append(event)

    def deliver(self, event: Event) -> None:
        if isinstance(event, GroupFormed) and event.attempt == self.gang.attempt:
            self._hear(event)
        is_timer = isinstance(event, TimerFired) and event.timer.kind is TimerKind.NOTICE
        self.is_notice_over = is_timer
        super().deliver(event)

    def _hear(self, event: GroupFormed) -> None:
        is_launched = self.gang.phase in {Phase.LAUNCHING, Phase.RUNNING}
        if event.number <= self.heard[0] or not is_launched:
            return
        self.heard = event.number, event.tasks
        crew = {member.ask for member in self.launches[-1].members}
        is_whole = event.number > self.heard_before and event.tasks == len(crew)
        self.grouped = crew if is_whole else set()
        self.is_awaited = not is_whole and self.gang.phase is Phase.RUNNING

    # ---- what must hold -----------------------------------------------------------------------

    def _note_preemption(self, event: Event, before: Gang) -> None:
        if self._is_absorbed(event, before):
            self.absorbed += 1
        else:
            super()._note_preemption(event, before)

    def _is_absorbed(self, event: Event, before: Gang) -> bool:
        ask = getattr(event, "ask", None)
        goes_on = self.gang.phase is before.phase is Phase.RUNNING
        was = [member.ask for member in before.members]
        return goes_on and ask in was and ask not in [m.ask for m in self.gang.members]

    def _perform(self, action: Action, before: Gang) -> None:
        runs_on = self.gang.phase is before.phase is Phase.RUNNING
        if isinstance(action, StopTask) and runs_on:
            leaving = [member.ask for member in self.gang.resizing.leaving]
            require(action.ask in leaving, f"{action.ask} is stopped, and does not leave")
            told = [member.ask for member in self.launches[-1].members]
            require(action.ask not in told, f"{action.ask} is stopped before the others know it")
            if self.policy.size is not None and self.policy.size.leaves_on_notice:
                was_signalled = before.resizing.leaving and not before.timer(TimerKind.NOTICE)
                is_over = self.is_notice_over or was_signalled
                require(is_over, f"{action.ask} gets a signal before its notice is over")
        if isinstance(action, Finish) and action.verdict.kind is VerdictKind.SUCCEEDED:
            left = self.gang.members or before.members
            require(all(self.truths[m.ask].is_told_ok for m in left), "success without all of them")
        super()._perform(action, before)

    def _launch(self, action: LaunchGang) -> None:
        earlier = [old for old in self.launches if old.attempt == action.attempt]
        if not earlier:
            self.formed, self.heard, self.heard_before = 0, (0, 0), 0
            self.grouped, self.is_awaited = set(), False
            super()._launch(action)
            return
        crew = {member.ask for member in action.members}
        self.is_awaited = crew != self.grouped
        if self.is_awaited:
            self.heard_before = self.heard[0]
        require(self.gang.phase is Phase.RUNNING, f"members change in {self.gang.phase}")
        require(action.members[0] == earlier[-1].members[0], "the first task is another one")
        require(action.members[0].ask not in action.waiting, "the first task is not told")
        require(len({m.task for m in action.members}) == len(action.members), "one name, two tasks")
        require(LEAST <= len(action.members) <= MOST, f"{len(action.members)} tasks run")
        known = {member.ask for member in earlier[-1].members}
        for place, member in enumerate(action.members):
            truth = self.truths[member.ask]
            require(not truth.is_released, f"{member.ask} belongs to it after its release")
            require(not truth.is_told_ended, f"{member.ask} belongs to it after its end")
            if member.ask in known:
                require(place == 0 or member.ask in action.waiting, f"{member.ask} starts again")
                continue
            require(member.ask not in action.waiting, f"{member.ask} is not started")
            require(truth.is_told_granted and truth.told_agent is not None, "starts without agent")
            require(not truth.is_launched, f"{member.ask} starts twice")
            require(member.task.index == place, f"{member.task} has rank {place}")
            out = excluded(self.gang, self.policy, self.now_s)
            require(member.placed.node not in out, "joins on an excluded node")
            truth.launched = action.attempt
            self.joined += 1
        self.launches.append(action)

    def _check(self, event: Event, before: Gang, actions: tuple[Action, ...]) -> None:
        gang = self.gang
        stopping = gang.stopping
        if before.stopping is None and stopping is not None and stopping.hang is not None:
            self.unformed += stopping.hang.finding.rule == "reform"
            require(self.is_awaited, "stopped although it has formed its group")
        self.left += len(gang.resizing.leaving) > len(before.resizing.leaving)
        kinds = {timer.timer.kind for timer in gang.timers}
        require(
            not gang.resizing.leaving or gang.phase is Phase.RUNNING, f"leaving in {gang.phase}"
        )
        if gang.phase is Phase.RUNNING:
            has_limit = bool({TimerKind.STOP, TimerKind.NOTICE} & kinds)
            require(has_limit == bool(gang.resizing.leaving), "leaving without a limit")
            if isinstance(event, TimerFired) and event.timer.kind is TimerKind.REFORM:
                # No group was ever reported, or some have ended.
                self.is_awaited = self.is_awaited and TimerKind.REFORM in kinds
            require(
                (TimerKind.REFORM in kinds) == self.is_awaited, "a change, and no group awaited"
            )
            crew = {member.ask for member in (*gang.members, *coming(gang))}
            told = {member.ask for member in self.launches[-1].members}
            require(crew == told, "the first task knows of others")
            for ask in crew:
                require(self.truths[ask].launched == gang.attempt, f"{ask} was not launched")
            self._check_goes_on(before, event)
        super()._check(event, before, actions)

    def _check_goes_on(self, before: Gang, event: Event) -> None:
        """The first of this attempt is the first for ever; a member that is gone is lost or was
        stopped; and its number is its own while it is there."""
        gang = self.gang
        first = next(one for one in self.launches if one.attempt == gang.attempt).members[0]
        require(gang.members[0].ask == first.ask, "the first task is another one")
        tasks = [m.task for m in (*gang.members, *coming(gang), *gang.resizing.leaving)]
        require(len(set(tasks)) == len(tasks), f"one name, two tasks: {tasks}")
        if before.phase is not Phase.RUNNING:
            return
        for member in before.members:
            if gang.find(member.ask) is None:
                is_about_it = getattr(event, "ask", None) == member.ask
                require(is_about_it, f"{member.ask} is gone, and nothing has happened to it")

    def _check_recovery(self, before: Gang) -> None:
        gang = self.gang
        if gang.phase is before.phase is Phase.RUNNING:
            self._check_growth(before)
            paid = (
                gang.retries.restarts,
                gang.acquisition.failures,
                gang.retries.user_retries,
                len(gang.history),
            )
            was = (
                before.retries.restarts,
                before.acquisition.failures,
                before.retries.user_retries,
                len(before.history),
            )
            require(paid == was, "a change of size was not free")
            require(LEAST <= len(gang.members) <= MOST, f"{len(gang.members)} tasks run")
            require(gang.size == len(gang.members), "another size than it says")
            kinds = {timer.timer.kind for timer in gang.timers}
            require(TimerKind.RESIZE in kinds, "nobody will look at the size again")
            return
        super()._check_recovery(before)


def loses(world: InPlaceWorld, place: int, end: ContainerEnded | None = None) -> AskId:
    """The task at this place of the gang is lost."""
    ask = world.gang.members[place].ask
    world.truths[ask].is_ended = True
    assert end is not None
    world.deliver(replace(end, ask=ask))
    return ask


def is_running(world: InPlaceWorld) -> bool:
    return world.gang.phase is Phase.RUNNING and all(
        member.state is MemberState.STARTED for member in world.gang.members
    )
