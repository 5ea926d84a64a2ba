"""One step of an agent: its state while that changes, and the actions so far."""

from __future__ import annotations

from yarnam.agent.machine.agent_actions import (
    AgentAction,
    Cancel,
    Poll,
    Report,
    StartTimer,
    StopTimer,
    TaskState,
)
from yarnam.agent.machine.agent_events import Moment
from yarnam.agent.machine.agent_state import (
    AgentPhase,
    AgentState,
    AgentTimer,
    Errand,
    Problem,
    Run,
    TaskFacts,
)


class AgentStep:
    __slots__ = ("actions", "agent", "moment")

    def __init__(self, agent: AgentState, moment: Moment) -> None:
        self.agent = agent
        self.moment = moment
        self.actions: list[AgentAction] = []

    @property
    def facts(self) -> TaskFacts:
        return self.agent.facts

    @property
    def run(self) -> Run:
        """The current one, where the phase says that there is one."""
        assert self.agent.run is not None
        return self.agent.run

    def do(self, *actions: AgentAction) -> None:
        self.actions += actions

    def enter(self, phase: AgentPhase) -> None:
        self.agent = self.agent._replace(phase=phase)

    def set_run(self, run: Run) -> None:
        self.agent = self.agent._replace(run=run)

    def next_serial(self) -> int:
        serial = self.agent.serial + 1
        self.agent = self.agent._replace(serial=serial)
        return serial

    def await_next(self) -> int:
        """The serial of the action that the launch waits for now."""
        serial = self.next_serial()
        self.set_run(self.run._replace(serial=serial))
        return serial

    def poll(self, after_s: float = 0.0) -> None:
        """Ask for the directive that follows the newest one."""
        serial, am = self.next_serial(), self.agent.am
        self.agent = self.agent._replace(am=am._replace(polling=serial))
        self.do(Poll(serial, am.seen, after_s))

    # ---- timers ----------------------------------------------------------------------------------

    def start_timer(self, timer: AgentTimer, after_s: float) -> None:
        serial = self.next_serial()
        self._forget(timer)
        self.agent = self.agent._replace(timers=self.agent.timers | {(timer, serial)})
        self.do(StartTimer(timer, serial, after_s))

    def stop_timer(self, timer: AgentTimer) -> None:
        self._forget(timer)
        self.do(StopTimer(timer))

    def has_fired(self, timer: AgentTimer, serial: int) -> bool:
        """Whether it is the one that runs; it does no more then."""
        is_current = (timer, serial) in self.agent.timers
        if is_current:
            self._forget(timer)
        return is_current

    def _forget(self, timer: AgentTimer) -> None:
        timers = frozenset(timed for timed in self.agent.timers if timed[0] is not timer)
        self.agent = self.agent._replace(timers=timers)

    # ---- reports ---------------------------------------------------------------------------------

    def report_of(self, state: TaskState) -> Report:
        run = self.agent.run
        return Report(state, run.attempt, run.is_ready) if run is not None else Report(state)

    def report(self, state: TaskState) -> None:
        self.do(self.report_of(state))

    def report_unable(self, problem: Problem) -> None:
        self.do(Report(TaskState.UNABLE, problem=problem))

    # ---- errands ---------------------------------------------------------------------------------

    def end_check(self) -> None:
        """A late check must not disturb the next one, nor the processes."""
        if self.agent.checking.serial:
            self.do(Cancel(self.agent.checking.serial))
            self.agent = self.agent._replace(checking=Errand())
