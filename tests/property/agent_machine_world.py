"""An agent among directives and answers that are late, doubled, lost or out of order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from yarnam.agent.machine import agent_actions as aa
from yarnam.agent.machine import agent_events as ae
from yarnam.agent.machine.agent_directives import (
    Check,
    Directive,
    Dump,
    Launch,
    Leave,
    Park,
    ProcessLaunch,
    Stage,
    Stop,
)
from yarnam.agent.machine.agent_machine import step
from yarnam.agent.machine.agent_state import (
    AgentPhase,
    AgentState,
    AgentTimer,
    Problem,
    TaskFacts,
)
from yarnam.core.model.ids import PRE_RUN_ROLE
from yarnam.core.model.outcomes import NodeMeasures

Step = Callable[
    [AgentState, ae.AgentEvent, ae.Moment], tuple[AgentState, tuple[aa.AgentAction, ...]]
]

TROUBLE = Problem("HDFS is away")
ONCE = (
    ae.DirectiveReceived, ae.Staged, ae.Checked, ae.SpoolsUploaded, ae.PortsRetaken, ae.PortsFreed,
    ae.ProcessesPlanned, ae.CheckpointTried, ae.MirrorRestored, ae.TimerFired, ae.RunStarted,
    ae.RunEnded,
)  # fmt: skip
"""Events that change nothing when they come again."""


SILENT = frozenset({AgentPhase.PREPARING, AgentPhase.LEAVING, AgentPhase.LEFT})


TOLD_AGAIN = {
    AgentPhase.PARKED: aa.TaskState.READY,
    AgentPhase.RUNNING: aa.TaskState.STARTED,
    AgentPhase.EXITED: aa.TaskState.EXITED,
}
"""What another AM has to know of an agent in these phases."""


class Violation(AssertionError):
    """A rule of the agent does not hold."""


class AgentWorld:
    """``play`` is the step, or a mutant of it."""

    def __init__(self, seed: int, play: Step = step) -> None:
        self.dice = random.Random(seed)
        self.play = play
        self.now_s = 100.0
        self.facts = TaskFacts(
            stop_grace_s=5.0,
            is_staged=self.dice.random() < 0.5,
            ready_port=self.dice.choice(("", "http")),
            bare_ports=self.dice.choice(((), ("a", "b"))),
        )
        self.agent = AgentState(self.facts)
        self.seen: list[tuple[ae.AgentEvent, ae.Moment]] = []
        self.did: list[tuple[aa.AgentAction, ...]] = []
        self.pending: list[Any] = []
        """Actions that are not answered yet."""
        self.answered: list[ae.AgentEvent] = []
        self.timers: dict[AgentTimer, int] = {}
        self.counts = Counter[str]()
        self.reports = Counter[tuple[aa.TaskState, int]]()
        # The ApplicationMaster.
        self.number = 0
        self.orders: list[tuple[int, Directive]] = []
        self.attempt = 0
        self.checks = 0
        # The node.
        self.begun: list[int] = []
        self.parts: list[str] = []
        """Of the newest launch, the actions that have been answered."""
        self.is_stuck = False
        """The inputs of the newest launch could not be staged."""
        self.is_mirrored = False
        self.is_starting = False
        self.lives = False
        """The newest launch has processes that may run."""
        self.has_run = False
        self.is_abandoned = False
        self.has_stopper = False
        self.held = frozenset({"coordinator", "http.0", "a.0", "b.0"})
        self.exit: aa.Exit | None = None

    # ---- the rules ---------------------------------------------------------------------------

    def send(self, event: ae.AgentEvent) -> None:
        moment = ae.Moment(self.now_s, self.dice.random() < 0.3)
        before = self.agent
        self.agent, actions = self.play(before, event, moment)
        if self.play(before, event, moment) != (self.agent, actions):
            raise Violation("two steps of one event differ")
        self.seen.append((event, moment))
        self.did.append(actions)
        for action in actions:
            self._take(action)
        self._check(before, event, actions)

    def _take(self, action: aa.AgentAction) -> None:  # noqa: C901 - one case for each action
        name = action.name if isinstance(action, aa.Command) else type(action).__name__
        self.counts[name] += 1
        if self.exit is not None:
            raise Violation(f"{name} after the end")
        match action:
            case aa.Report():
                self._take_report(action)
            case aa.StartTimer(timer=timer, serial=serial):
                self.timers[timer] = serial
            case aa.StopTimer(timer=timer):
                self.timers.pop(timer, None)
            case aa.Cancel(serial=serial):
                self.pending = [one for one in self.pending if getattr(one, "serial", 0) != serial]
            case aa.BeginRun(launch=launch):
                if self.lives or self.is_starting:
                    raise Violation("a launch before the processes of the last one have ended")
                if self.begun and launch.attempt <= self.begun[-1]:
                    raise Violation("an old launch is begun again")
                self.begun.append(launch.attempt)
                self.parts, self.has_run, self.is_abandoned = [], False, False
                self.is_stuck = False
                self.held = frozenset({"coordinator", "http.0", "a.0", "b.0"})
            case aa.StartProcesses():
                self._start(action)
            case aa.MeasureNode():
                if self.lives or self.agent.phase is AgentPhase.LAUNCHING:
                    raise Violation("a node is measured while its processes use it")
                self.pending.append(action)
            case aa.StopProcesses() | aa.AskForStep() | aa.StopAfter():
                self.has_stopper = True
            case aa.Command.ABANDON:
                self.is_abandoned = True
            case aa.Command.KILL_ALL:
                self.lives = self.is_starting = False
            case aa.Exit():
                if self.lives or self.is_starting:
                    raise Violation("processes are left behind")
                self.exit = action
            case aa.Poll():
                if any(isinstance(one, aa.Poll) for one in self.pending):
                    raise Violation("two polls at a time")
                self.pending.append(action)
            case aa.Command.TALK | aa.Prepare() | aa.WriteMembers() | aa.WriteTokens():
                self.pending.append(action)
            case aa.StageInputs():
                mine = self.agent.run.serial if self.agent.run is not None else 0
                staging = [one for one in self.pending if isinstance(one, aa.StageInputs)]
                if action.serial != mine and any(one.serial != mine for one in staging):
                    raise Violation("inputs are staged for an old order")
                self.pending.append(action)
            case aa.UploadSpools() | aa.RetakePorts() | aa.AwaitFreePorts():
                self.pending.append(action)
            case (
                aa.PlanProcesses()
                | aa.TryCheckpoint()
                | aa.RestoreMirror()
                | aa.StopAndWait()
                | aa.DumpStacks()
            ):
                self.pending.append(action)
            case aa.PollActivity() | aa.CheckPorts() | aa.FindStrangers():
                self.pending.append(action)
            case _:
                pass

    def _start(self, action: aa.StartProcesses) -> None:
        run = self.agent.run
        assert run is not None
        wanted = ["StageInputs"] * self.facts.is_staged + ["UploadSpools", "RetakePorts"]
        wanted += ["AwaitFreePorts"] * bool(self.facts.bare_ports) + ["PlanProcesses"]
        if self.parts[: len(wanted)] != wanted:
            raise Violation(f"processes start after {self.parts} alone")
        is_tried = run.launch.role == PRE_RUN_ROLE and not run.taken
        if not action.problem and is_tried and "TryCheckpoint" not in self.parts:
            raise Violation("a pre-run has not tried its checkpoints")
        if not action.problem and self.is_mirrored != (self.parts[-1] == "RestoreMirror"):
            raise Violation("processes start without the files of the last attempt")
        if run.taken and not action.problem:
            raise Violation("processes start whose ports others have")
        if self.lives or self.is_starting or self.has_run:
            raise Violation("processes start twice")
        self.is_starting = True

    def _take_report(self, report: aa.Report) -> None:
        state, attempt = report.state, report.attempt
        self.reports[state, attempt] += 1
        if state is aa.TaskState.UNABLE:
            if report.problem is None or attempt:
                raise Violation("UNABLE says why, and speaks of no process")
            return
        if state is aa.TaskState.STARTED and not self.has_run:
            raise Violation("STARTED before all processes run")
        if state is aa.TaskState.EXITED and (self.lives or not self.begun):
            raise Violation("EXITED while processes run")
        if state is aa.TaskState.READY and self.begun:
            raise Violation("READY after a launch")
        if state is aa.TaskState.CHECKED and report.check != self.checks:
            raise Violation("an old check is reported")

    def _check(
        self, before: AgentState, event: ae.AgentEvent, actions: tuple[aa.AgentAction, ...]
    ) -> None:
        self._check_waits(event)
        if isinstance(event, ae.DirectiveReceived):
            self._check_order(before, event, actions)
        elif isinstance(event, ae.PortsChecked):
            self._check_look(before, event, actions)
        else:
            self._check_told(before, event, _states(actions))

    def _check_waits(self, event: ae.AgentEvent) -> None:
        """The agent never stands still."""
        agent = self.agent
        waits = [one for one in self.pending if isinstance(one, aa.Poll | aa.Command)]
        if agent.phase not in SILENT and not waits:
            raise Violation(f"the agent asks for no directive after {type(event).__name__}")
        if agent.phase is AgentPhase.LEAVING and not self._awaits(aa.StopAndWait):
            raise Violation("nothing ends an agent that leaves")
        if agent.phase is AgentPhase.LAUNCHING and not (self.is_starting or self.is_stuck):
            assert agent.run is not None
            if agent.run.serial not in {getattr(one, "serial", -1) for one in self.pending}:
                raise Violation("the launch waits for nothing")
        if agent.phase is AgentPhase.RUNNING and AgentTimer.ACTIVITY not in self.timers:
            raise Violation("nothing looks at the processes")
        if agent.phase is AgentPhase.EXITED and self.timers.keys() - {AgentTimer.TOKENS}:
            raise Violation("what has ended is looked at")
        is_unwritten = event == ae.TokensWritten(False) and isinstance(event, ae.TokensWritten)
        if is_unwritten and agent.phase not in SILENT and AgentTimer.TOKENS not in self.timers:
            raise Violation("tokens that are not in the file are not written again")

    def _check_told(
        self, before: AgentState, event: ae.AgentEvent, states: set[aa.TaskState]
    ) -> None:
        """The AM learns each thing once."""
        is_current = self.begun and getattr(event, "attempt", 0) == self.begun[-1]
        talks = before.phase not in SILENT
        match event:
            case ae.RunEnded() if before.phase is AgentPhase.RUNNING and is_current:
                if (aa.TaskState.EXITED in states) == self.is_abandoned:
                    raise Violation("an end is told once, unless it is not the program's")
            case ae.ProcessFailed() if before.phase is AgentPhase.RUNNING:
                if (aa.TaskState.STARTED in states) == self.is_abandoned:
                    raise Violation("a failure is told early, unless it is not the program's")
            case ae.Signal.AM_FOUND if before.phase in TOLD_AGAIN:
                state = TOLD_AGAIN[before.phase]
                is_given_up = before.run is not None and before.run.is_abandoned
                if states != {aa.TaskState.UNABLE if is_given_up else state}:
                    raise Violation("another AM is not told how things stand")
            case ae.Staged(problem=None):
                is_awaited = talks and event.serial == before.staging.serial
                if is_awaited != (aa.TaskState.STAGED in states):
                    raise Violation("STAGED answers the newest order, once")
            case ae.Checked():
                is_awaited = talks and event.serial == before.checking.serial
                if is_awaited != (aa.TaskState.CHECKED in states):
                    raise Violation("CHECKED answers the newest order, once")
            case _:
                pass

    def _awaits(self, kind: type) -> bool:
        return any(isinstance(one, kind) for one in self.pending)

    def _check_order(
        self,
        before: AgentState,
        event: ae.DirectiveReceived,
        actions: tuple[aa.AgentAction, ...],
    ) -> None:
        order, run = event.order, before.run
        is_new = event.number != before.am.seen and event.serial == before.am.polling
        kinds = {type(action) for action in actions}
        stops = kinds & {aa.StopProcesses, aa.AskForStep, aa.StopAfter}
        if not is_new and kinds - {aa.Poll}:
            raise Violation("a doubled directive is followed")
        if isinstance(order, Stop) and is_new and run is not None:
            has_any = before.phase in {AgentPhase.LAUNCHING, AgentPhase.RUNNING}
            if bool(stops) != (has_any and order.attempt >= run.attempt):
                raise Violation("a stop is for the launch that it names, and those before")
        elif stops:
            raise Violation("a stop that nobody ordered")
        if isinstance(order, Launch) and is_new:
            may = before.phase in {AgentPhase.PARKED, AgentPhase.EXITED}
            is_newer = run is None or order.attempt > run.attempt
            begins = bool(kinds & {aa.BeginRun, aa.WriteMembers})
            if may and is_newer and not begins:
                raise Violation("a launch is not followed")
            if before.checking.serial and self.agent.checking.serial:
                raise Violation("a check disturbs the processes")
        if isinstance(order, Dump) and is_new:
            is_due = before.phase is AgentPhase.RUNNING and run is not None
            if (aa.DumpStacks in kinds) != (is_due and order.attempt == before.run.attempt):
                raise Violation("stacks of another launch")

    def _check_look(
        self, before: AgentState, event: ae.PortsChecked, actions: tuple[aa.AgentAction, ...]
    ) -> None:
        run = before.run
        if run is None or event.attempt != run.attempt or self.agent.run is None:
            return
        if self.agent.phase not in {AgentPhase.LAUNCHING, AgentPhase.RUNNING}:
            return
        if event.taken and not (self.is_abandoned and aa.TaskState.UNABLE in _states(actions)):
            raise Violation("a stranger on a port is not told")
        if event.held and not event.taken and AgentTimer.PORTS not in self.timers:
            raise Violation("a port that is held is not looked at again")
        is_served = bool(self.facts.ready_port) and "http.0" not in event.held
        if is_served and event.local_ranks and not self.agent.run.is_ready:
            raise Violation("a port is served and its task is not ready")
        if not is_served and self.agent.run.is_listening and not run.is_listening:
            raise Violation("a port is served that is held")

    # ---- what happens ------------------------------------------------------------------------

    def walk(self, steps: int) -> None:
        self.send(ae.Signal.OPENED)
        for _ in range(steps):
            self.now_s += self.dice.choice((0.0, 0.1, 1.0, 5.0))
            self.dice.choice(self._moves())()

    def _moves(self) -> list[Callable[[], None]]:
        moves: list[Callable[[], None]] = [self._double, self._small, self._order]
        moves += [self._order] * 2 + [self._answer] * (9 * bool(self.pending))
        if self.timers:
            moves.append(self._fire)
        if self.is_starting:
            moves += [self._started] * 3
        if self.lives:
            moves += [self._fail, self._end] + [self._end] * (4 * self.has_stopper)
        if self.dice.random() < 0.01:
            moves.append(self._lose)
        return moves

    def _order(self) -> None:
        """The AM wants something else; the agent learns the newest wish alone."""
        attempt = self.dice.choice((self.attempt, self.attempt, max(0, self.attempt - 1)))
        members = self.dice.choice(((), (), ("a1.worker.0:1",)))
        match self.dice.randrange(9):
            case 0 | 1:
                self.attempt += 1
                order: Directive = self._launch(self.attempt, members)
            case 2:
                order = self._launch(attempt, members)
            case 3 | 4:
                at_step = self.dice.choice((None, None, 7))
                order = Stop(attempt, 2.0, "", None, self.dice.random() < 0.3, at_step)
            case 5:
                order = Stage(self._launch(self.attempt + 1, ()))
            case 6:
                order = Check(attempt, self.checks + 1)
            case 7:
                order = Dump(attempt)
            case _:
                order = Leave() if self.dice.random() < 0.05 else Park()
        self.number += 1
        self.orders.append((self.number, order))

    def _launch(self, attempt: int, members: tuple[str, ...]) -> Launch:
        role = self.dice.choice(("worker", PRE_RUN_ROLE))
        ranks = self.dice.choice(((0,), (3,)))
        processes = tuple(ProcessLaunch(rank, local) for local, rank in enumerate(ranks))
        return Launch(attempt, role, 0, processes, 0.0, members)

    def _small(self) -> None:
        """Something that changes little."""
        if self.dice.random() < 0.05 and self.agent.phase is not AgentPhase.PREPARING:
            self.send(ae.Signal.AM_FOUND)
            return
        signals = (ae.Signal.POLL_BEGUN, ae.Signal.METRICS_DUE, ae.Signal.STAGING_MOVED)
        match self.dice.randrange(5):
            case 4:
                self.send(ae.MirrorMoved(self.begun[-1] if self.begun else 0))
            case 0:
                is_ready = self.lives and self.dice.random() < 0.3
                self.send(ae.SampleTaken(self.dice.random() < 0.5, is_ready))
            case 1:
                self.send(ae.TokensReceived(("t",)))
            case 2:
                if self.dice.random() < 0.1:
                    self.send(ae.TroubleFound(TROUBLE))
            case _:
                self.send(self.dice.choice(signals))

    def _lose(self) -> None:
        signals = (ae.Signal.KEEPER_LOST, ae.Signal.AM_LOST, ae.Signal.TERMINATED)
        signal = self.dice.choice((*signals, ae.Signal.FAULTED))
        if signal is ae.Signal.AM_LOST and self.agent.phase is AgentPhase.PREPARING:
            return
        self.send(signal)

    def _fire(self) -> None:
        timer = self.dice.choice(sorted(self.timers, key=lambda one: one.value))
        event = ae.TimerFired(timer, self.timers.pop(timer))
        self.answered.append(event)
        self.send(event)

    def _started(self) -> None:
        self.is_starting, self.has_run, self.lives = False, True, True
        self._told(ae.RunStarted(self.begun[-1]))

    def _fail(self) -> None:
        self.has_stopper = True
        self.send(ae.ProcessFailed(self.begun[-1]))

    def _end(self) -> None:
        self.send(ae.ProcessesEnded(self.begun[-1], self.has_stopper))
        self.lives = self.has_stopper = False
        self._told(ae.RunEnded(self.begun[-1]))

    def _told(self, event: ae.AgentEvent) -> None:
        self.answered.append(event)
        self.send(event)

    # ---- answers -----------------------------------------------------------------------------

    def _answer(self) -> None:
        one = self.pending.pop(self.dice.randrange(len(self.pending)))
        event = self._answer_to(one)
        if event is not None:
            self._told(event)

    def _double(self) -> None:
        """An answer comes once more, or much too late."""
        if self.answered:
            event = self.dice.choice(self.answered)
            before = self.agent
            if isinstance(event, ONCE):
                self.send(event)
                if self.agent != before or self.did[-1]:
                    raise Violation(f"a doubled {type(event).__name__} changes something")

    def _directive(self, poll: aa.Poll) -> ae.DirectiveReceived:
        number, order = self.orders[-1] if self.orders else (0, Park())
        if self.orders and self.dice.random() < 0.15:
            # The AM repeats itself, or another one knows less.
            self.number += 1
            number, order = self.number, self.dice.choice(self.orders)[1]
        if isinstance(order, Check) and number != poll.seen:
            self.checks += 1
            order = order._replace(check=self.checks)
        return ae.DirectiveReceived(poll.serial, number, order, self.dice.choice((0.0, 2.0)))

    def _answer_to(self, action: Any) -> ae.AgentEvent | None:  # noqa: C901 - one case for each
        run = self.agent.run
        if run is not None and getattr(action, "serial", -1) == run.serial:
            self.parts.append(type(action).__name__)
        is_bad = self.dice.random() < 0.1
        match action:
            case aa.Prepare():
                return ae.TroubleFound(TROUBLE) if is_bad else ae.Signal.PREPARED
            case aa.Command.TALK:
                return ae.Signal.INTRODUCED
            case aa.Poll():
                return self._directive(action)
            case aa.StageInputs(serial=serial):
                self.is_stuck |= is_bad and run is not None and serial == run.serial
                return ae.Staged(serial, TROUBLE if is_bad else None)
            case aa.MeasureNode(serial=serial, check=check):
                return ae.Checked(serial, check.check, NodeMeasures())
            case aa.WriteMembers(launch=launch):
                return ae.MembersWritten(launch, TROUBLE if is_bad else None)
            case aa.WriteTokens():
                return ae.TokensWritten(not is_bad)
            case aa.UploadSpools(serial=serial):
                return ae.SpoolsUploaded(serial)
            case aa.RetakePorts(serial=serial):
                return ae.PortsRetaken(serial, frozenset({"a.0"} if is_bad else ()))
            case aa.AwaitFreePorts(serial=serial, names=names):
                return ae.PortsFreed(serial, names if is_bad else frozenset())
            case aa.PlanProcesses(serial=serial):
                self.is_mirrored = self.dice.random() < 0.3
                return ae.ProcessesPlanned(serial, "hdfs:///checkpoints", self.is_mirrored)
            case aa.TryCheckpoint(serial=serial):
                return ae.CheckpointTried(serial, "no permission" if is_bad else "")
            case aa.RestoreMirror(serial=serial):
                return ae.MirrorRestored(serial, "HDFS is away" if is_bad else "")
            case aa.DumpStacks(attempt=attempt):
                return ae.StacksDumped(attempt)
            case aa.PollActivity(attempt=attempt, is_late=is_late):
                group = (self.dice.randrange(3), 2) if is_bad else None
                return ae.ActivityPolled(attempt, is_bad, is_late, group)
            case aa.CheckPorts(attempt=attempt):
                self.held -= {self.dice.choice(("http.0", "coordinator", "a.0"))}
                return ae.PortsChecked(attempt, self.held, self._strangers(is_bad), (0,))
            case aa.FindStrangers(attempt=attempt):
                return ae.StrangersFound(attempt, self._strangers(is_bad))
            case aa.StopAndWait():
                self.lives = self.is_starting = False
                return ae.Signal.STOPPED
            case _:
                return None

    def _strangers(self, is_bad: bool) -> tuple[tuple[str, int], ...]:
        return (("b.0", 1001),) if is_bad else ()


def _states(actions: tuple[aa.AgentAction, ...]) -> set[aa.TaskState]:
    return {action.state for action in actions if isinstance(action, aa.Report)}
