"""The world of an in-place elastic gang: tasks leave it and join it while the others go on.

On top of what holds for every elastic gang: while it RUNs nobody is stopped but those that leave;
who belongs to it is told to the first task before that; a task that joins starts once, with a
number of its own; the first task stays for as long as the attempt lasts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.property.elastic_world import LEAST, MOST, ElasticWorld, elastic_job
from tests.property.gang_world import excluded, require
from yarnam.core.gang import Gang, Member, MemberState
from yarnam.core.model.actions import Action, Finish, LaunchGang, StopTask
from yarnam.core.model.events import (
    ContainerEnded,
    Event,
    TaskStarted,
    TimerKind,
)
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ExitKind, VerdictKind


def in_place_job(*, recovery_timeout_s: float = 60.0) -> JobSpec:
    """Two to five workers of two processes, which go on when others come and go."""
    job = elastic_job(recovery_timeout_s=recovery_timeout_s)
    return replace(job, elastic=replace(job.elastic, restart=False))


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
        return super()._fair_yarn(exits=exits)

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
        if isinstance(action, Finish) and action.verdict.kind is VerdictKind.SUCCEEDED:
            left = self.gang.members or before.members
            require(all(self.truths[m.ask].is_told_ok for m in left), "success without all of them")
        super()._perform(action, before)

    def _launch(self, action: LaunchGang) -> None:
        earlier = [old for old in self.launches if old.attempt == action.attempt]
        if not earlier:
            super()._launch(action)
            return
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
        self.left += len(gang.resizing.leaving) > len(before.resizing.leaving)
        kinds = {timer.timer.kind for timer in gang.timers}
        require(
            not gang.resizing.leaving or gang.phase is Phase.RUNNING, f"leaving in {gang.phase}"
        )
        if gang.phase is Phase.RUNNING:
            require(
                (TimerKind.STOP in kinds) == bool(gang.resizing.leaving), "leaving without a limit"
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
