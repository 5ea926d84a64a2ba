"""The agent's machine, stepped with values: each event and what the agent does then."""

from __future__ import annotations

import pytest

from yarnam.agent.machine import agent_actions as aa
from yarnam.agent.machine import agent_events as ae
from yarnam.agent.machine.agent_actions import Command, TaskState
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
    AgentExit,
    AgentPhase,
    AgentState,
    AgentTimer,
    Preparation,
    Problem,
    TaskFacts,
)
from yarnam.agent.machine.agent_transitions import TABLE
from yarnam.core.model.ids import PRE_RUN_ROLE
from yarnam.core.model.outcomes import ExitKind, NodeMeasures

TROUBLE = Problem("HDFS is away")
CHAIN = (aa.UploadSpools, aa.RetakePorts, aa.PlanProcesses)


def launch(attempt: int = 1, role: str = "worker", *ranks: int) -> Launch:
    processes = tuple(ProcessLaunch(rank, local) for local, rank in enumerate(ranks or (0,)))
    return Launch(attempt, role, 0, processes)


class Play:
    """One agent; ``did`` are the actions of the last event."""

    def __init__(self, **facts: object) -> None:
        self.agent = AgentState(TaskFacts(stop_grace_s=5.0)._replace(**facts))  # type: ignore[arg-type]
        self.did: tuple[aa.AgentAction, ...] = ()
        self.number = 0
        self.now_s = 0.0
        self.has_unsent = False

    def send(self, event: ae.AgentEvent) -> Play:
        moment = ae.Moment(self.now_s, self.has_unsent)
        self.agent, self.did = step(self.agent, event, moment)
        return self

    def order(self, order: Directive) -> Play:
        self.number += 1
        polling = self.agent.am.polling
        return self.send(ae.DirectiveReceived(polling, self.number, order, 2.0))

    @property
    def serial(self) -> int:
        """Of what the launch waits for."""
        assert self.agent.run is not None
        return self.agent.run.serial

    @property
    def kinds(self) -> list[object]:
        """Of the last actions, without the poll that follows each directive."""
        kinds = [one if isinstance(one, Command) else type(one) for one in self.did]
        return [kind for kind in kinds if kind is not aa.Poll]

    @property
    def told(self) -> list[TaskState]:
        return [one.state for one in self.did if isinstance(one, aa.Report)]

    def parked(self) -> Play:
        self.send(ae.Signal.OPENED).send(ae.Signal.PREPARED)
        return self.send(ae.Signal.INTRODUCED)

    def starting(self, order: Launch | None = None) -> Play:
        self.parked().order(order or launch())
        self.send(ae.SpoolsUploaded(self.serial)).send(ae.PortsRetaken(self.serial))
        return self.send(ae.ProcessesPlanned(self.serial))

    def running(self) -> Play:
        return self.starting().send(ae.RunStarted(1))

    def exited(self) -> Play:
        return self.running().send(ae.RunEnded(1))

    def action(self, kind: type[aa.AgentAction]) -> aa.AgentAction:
        (found,) = [one for one in self.did if type(one) is kind]
        return found


# ---- getting ready -----------------------------------------------------------------------------


def test_what_a_task_does_not_need_is_not_prepared() -> None:
    least = Play().send(ae.Signal.OPENED).did
    assert least == (aa.Prepare((Preparation.ADDRESS, Preparation.LOGS, Preparation.PORTS)),)
    most = Play(is_large=True, has_inputs=True, has_gpus=True, is_staged=True)
    (prepare,) = most.send(ae.Signal.OPENED).did
    assert prepare == aa.Prepare(tuple(Preparation)), "in the order of their names"


def test_it_reports_before_it_polls() -> None:
    play = Play().send(ae.Signal.OPENED).send(ae.Signal.PREPARED)
    assert (play.told, play.kinds[-1]) == ([TaskState.READY], Command.TALK)
    play.send(ae.Signal.INTRODUCED)
    assert play.did == (aa.Poll(1, 0),)


def test_who_cannot_prepare_says_why_and_starts_nothing() -> None:
    play = Play().send(ae.Signal.OPENED).send(ae.TroubleFound(TROUBLE))
    assert play.did == (aa.Report(TaskState.UNABLE, problem=TROUBLE), Command.TALK)
    play.send(ae.Signal.INTRODUCED).order(launch())
    assert play.kinds == []
    assert play.order(Leave()).kinds == [aa.StopTalking, aa.Exit]


# ---- directives --------------------------------------------------------------------------------


def test_a_directive_with_the_same_number_brings_nothing() -> None:
    play = Play().parked().order(launch())
    polling = play.agent.am.polling
    play.send(ae.DirectiveReceived(polling, 1, launch(2), 2.0))
    assert play.did == (aa.Poll(polling + 1, 1),)


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.0, 0.05), (0.049, 0.05), (0.05, 0.0)])
def test_an_am_that_does_not_hold_polls_makes_no_agent_spin(took_s: float, pause_s: float) -> None:
    play = Play().parked()
    play.send(ae.DirectiveReceived(play.agent.am.polling, 0, Park(), took_s))
    assert [one.after_s for one in play.did if isinstance(one, aa.Poll)] == [pause_s]


def test_an_answer_to_an_old_poll_is_dropped() -> None:
    play = Play().parked()
    old = ae.DirectiveReceived(play.agent.am.polling, 1, launch(), 2.0)
    play.order(Park())
    assert play.send(old).did == ()


# ---- a launch ----------------------------------------------------------------------------------


def test_each_part_of_a_launch_waits_for_the_one_before() -> None:
    play = Play().parked().order(launch())
    assert play.kinds == [aa.BeginRun, aa.UploadSpools]
    assert play.send(ae.ProcessesPlanned(play.serial + 1)).did == ()
    assert play.send(ae.SpoolsUploaded(play.serial)).kinds == [aa.RetakePorts]
    assert play.send(ae.PortsRetaken(play.serial)).kinds == [aa.PlanProcesses]
    play.send(ae.ProcessesPlanned(play.serial))
    assert play.kinds == [aa.StartProcesses, aa.StartTimer, aa.StartTimer]
    assert play.send(ae.RunStarted(1)).told == [TaskState.STARTED]
    assert play.agent.phase is AgentPhase.RUNNING


def test_staged_inputs_come_first_and_failed_ones_are_told() -> None:
    play = Play(is_staged=True).parked().order(launch())
    assert play.kinds == [aa.BeginRun, aa.StageInputs]
    play.send(ae.Staged(play.serial, TROUBLE))
    assert play.did == (aa.Report(TaskState.UNABLE, problem=TROUBLE),)
    # No processes: nothing to wait for.
    assert play.order(Leave()).kinds == [aa.StopTalking, aa.Exit]


def test_the_coordinator_port_stays_with_rank_zero() -> None:
    of_zero = Play().parked().order(launch(1, "worker", 0, 1))
    of_zero.send(ae.SpoolsUploaded(of_zero.serial)).send(ae.PortsRetaken(of_zero.serial))
    assert of_zero.kinds == [aa.PlanProcesses]
    other = Play().parked().order(launch(1, "worker", 2, 3))
    other.send(ae.SpoolsUploaded(other.serial))
    other.send(ae.PortsRetaken(other.serial, frozenset({"coordinator"})))
    assert other.did[0] == aa.ReleasePorts(frozenset({"coordinator"}))
    # Another process has taken the port since, which is not this task's fault.
    assert other.send(ae.ProcessesPlanned(other.serial)).did[0] == aa.StartProcesses()


def test_bare_ports_take_turns_and_have_to_be_free() -> None:
    play = Play(bare_ports=("a", "b")).parked().order(launch(2))
    play.send(ae.SpoolsUploaded(play.serial))
    play.send(ae.PortsRetaken(play.serial, frozenset({"a.0", "http.0"})))
    mine = frozenset({"b.0"})
    assert play.did == (aa.ReleasePorts(mine), aa.AwaitFreePorts(play.serial, mine, 50.0))
    play.send(ae.PortsFreed(play.serial, mine)).send(ae.ProcessesPlanned(play.serial))
    text = "ports taken by others since the last launch: b.0, http.0"
    assert play.did[0] == aa.StartProcesses(text, ExitKind.NOT_STARTED)


@pytest.mark.parametrize("problem", ["", "no permission"])
def test_a_pre_run_tries_its_checkpoints(problem: str) -> None:
    play = Play().parked().order(launch(1, PRE_RUN_ROLE))
    play.send(ae.SpoolsUploaded(play.serial)).send(ae.PortsRetaken(play.serial))
    play.send(ae.ProcessesPlanned(play.serial, "hdfs:///c"))
    assert play.did == (aa.TryCheckpoint(play.serial, "hdfs:///c"),)
    play.send(ae.CheckpointTried(play.serial, problem))
    kind = ExitKind.NON_ZERO if problem else ExitKind.NOT_STARTED
    assert play.did[0] == aa.StartProcesses(problem, kind)


@pytest.mark.parametrize("problem", ["", "HDFS is away"])
@pytest.mark.parametrize("role", ["worker", PRE_RUN_ROLE])
def test_processes_start_after_the_mirrored_files_are_back(role: str, problem: str) -> None:
    play = Play().parked().order(launch(1, role))
    play.send(ae.SpoolsUploaded(play.serial)).send(ae.PortsRetaken(play.serial))
    play.send(ae.ProcessesPlanned(play.serial, "hdfs:///c", is_mirrored=True))
    if role == PRE_RUN_ROLE:
        play.send(ae.CheckpointTried(play.serial))
    assert play.did == (aa.RestoreMirror(play.serial),)
    play.send(ae.MirrorRestored(play.serial, problem))
    assert play.did[0] == aa.StartProcesses(problem, ExitKind.NON_ZERO)


def test_an_old_or_repeated_launch_starts_nothing() -> None:
    play = Play().running()
    for order in (launch(1), launch(2), launch(0)):
        assert play.order(order).kinds == []
    play.send(ae.RunEnded(1))
    assert play.order(launch(1)).kinds == []
    assert play.order(launch(2)).kinds == [aa.BeginRun, aa.UploadSpools]


def test_members_are_written_before_processes_start_and_again_when_they_change() -> None:
    order = launch()._replace(members=("a1.worker.0:1",))
    play = Play().parked().order(order)
    assert play.kinds == [aa.WriteMembers]
    assert play.send(ae.MembersWritten(order)).kinds == [aa.BeginRun, aa.UploadSpools]
    assert play.order(order).kinds == [aa.WriteMembers]
    assert play.send(ae.MembersWritten(order)).did == ()
    assert play.send(ae.MembersWritten(order, TROUBLE)).told == [TaskState.UNABLE]


# ---- stops -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "action"),
    [
        (Stop(1, 2.0), aa.StopProcesses(2.0, "stop directive")),
        (Stop(2, 2.0, "why", 0.5), aa.StopProcesses(2.0, "why", 0.5)),
        (Stop(1, 2.0, "why", at_step=7), aa.StopAfter(7, "why")),
        (Stop(1, 2.0, "why", at_step=0), aa.StopAfter(0, "why")),
        (Stop(1, 2.0, "why", agree=True), aa.AskForStep(2.0, "why")),
    ],
)
def test_a_stop(order: Stop, action: aa.AgentAction) -> None:
    play = Play().running().order(order)
    assert play.did[0] == action
    assert type(play.did[0]) is type(action)
    assert play.told == ([TaskState.STARTED] if order.agree else [])


def test_a_stop_of_an_older_launch_or_without_processes_changes_nothing() -> None:
    assert Play().parked().order(Stop(1, 2.0)).kinds == []
    assert Play().exited().order(Stop(1, 2.0)).kinds == []
    assert Play().running().order(Stop(0, 2.0)).kinds == []


def test_a_stop_before_the_processes_run_asks_for_no_report() -> None:
    play = Play().starting().order(Stop(1, 2.0, agree=True))
    assert play.kinds == [aa.AskForStep]


# ---- processes ---------------------------------------------------------------------------------


def test_the_first_failure_is_told_early_and_the_end_once() -> None:
    play = Play().running()
    assert play.send(ae.ProcessFailed(1)).told == [TaskState.STARTED]
    play.send(ae.ProcessesEnded(1, True))
    assert play.did == (aa.FindStrangers(1),)
    play.send(ae.RunEnded(1))
    assert play.told == [TaskState.EXITED]
    assert Command.CLOSE_LOGS in play.did
    assert play.send(ae.RunEnded(1)).did == ()


def test_nothing_is_told_of_processes_that_died_with_the_keeper() -> None:
    play = Play().running().send(ae.Signal.KEEPER_LOST)
    assert play.did[0] is Command.ABANDON
    assert play.told == [TaskState.UNABLE]
    assert play.send(ae.ProcessFailed(1)).told == []
    assert play.send(ae.RunEnded(1)).told == []
    assert play.agent.phase is AgentPhase.EXITED


def test_a_stranger_on_a_port_is_the_nodes_fault() -> None:
    play = Play().running()
    held = frozenset({"http.0"})
    play.send(ae.PortsChecked(1, held, (("http.0", 1001), ("a.0", 1002)), (0,)))
    assert play.did[0] is Command.ABANDON
    (report,) = [one for one in play.did if isinstance(one, aa.Report)]
    assert report.problem is not None
    assert report.problem.message.endswith("a.0 (user 1002), http.0 (user 1001)")
    assert not report.problem.is_user_fault


def test_ports_are_looked_at_less_and_less_until_none_is_held() -> None:
    play, pauses = Play().running(), []
    for _ in range(20):
        play.send(ae.PortsChecked(1, frozenset({"a.0"}), (), (0,)))
        (timer,) = play.did
        assert isinstance(timer, aa.StartTimer)
        pauses.append(timer.after_s)
        play.send(ae.TimerFired(AgentTimer.PORTS, timer.serial))
        assert play.did == (aa.CheckPorts(1),)
        assert play.send(ae.TimerFired(AgentTimer.PORTS, timer.serial)).did == ()
    assert (pauses[0], pauses[-1]) == (0.375, 30.0)
    assert play.send(ae.PortsChecked(1, frozenset(), (), (0,))).did == ()


def test_ready_by_its_port_or_by_its_word() -> None:
    by_port = Play(ready_port="http").running()
    by_port.send(ae.PortsChecked(1, frozenset({"http.0"}), (), (0,)))
    assert by_port.told == []
    by_port.send(ae.PortsChecked(1, frozenset(), (), (0,)))
    assert by_port.did == (aa.Report(TaskState.STARTED, 1, is_ready=True),)
    by_word = Play().running().send(ae.SampleTaken(True, True))
    assert by_word.told == [TaskState.STARTED]
    assert by_word.send(ae.SampleTaken(False, True)).did == ()


def test_a_group_of_processes_is_reported_once() -> None:
    play = Play().running()
    assert play.send(ae.ActivityPolled(1, group=(1, 4))).told == [TaskState.STARTED]
    assert play.send(ae.ActivityPolled(1, group=(1, 4))).did == ()
    assert play.send(ae.ActivityPolled(1, group=None)).did == ()
    assert play.send(ae.ActivityPolled(1, group=(2, 3))).told == [TaskState.STARTED]


def test_polls_take_along_what_processes_do_and_look_only_so_often() -> None:
    play = Play().running()
    play.now_s = 10.0
    assert play.send(ae.Signal.POLL_BEGUN).kinds == [
        aa.StartTimer, aa.PollActivity, Command.ADD_PROGRESS,
    ]  # fmt: skip
    play.now_s = 10.9
    assert play.send(ae.Signal.POLL_BEGUN).did == (Command.READ_STEPS, Command.ADD_PROGRESS)
    play.has_unsent = True
    assert play.send(ae.Signal.POLL_BEGUN).did == (), "the reports come first"


def test_without_polls_the_am_learns_of_news_and_now_and_then_of_nothing() -> None:
    play = Play().running()
    told = []
    for _ in range(10):
        ((_, serial),) = [one for one in play.agent.timers if one[0] is AgentTimer.ACTIVITY]
        play.send(ae.TimerFired(AgentTimer.ACTIVITY, serial))
        assert play.kinds == [aa.StartTimer, aa.PollActivity]
        told.append(Command.SEND_METRICS_SOON in play.send(ae.ActivityPolled(1, False, True)).did)
    assert told == ([False] * 4 + [True]) * 2
    assert play.send(ae.ActivityPolled(1, True, True)).did == (Command.SEND_METRICS_SOON,)
    assert play.send(ae.ActivityPolled(1, True, False)).did == (), "the poll takes it along"


def test_stacks_of_this_launch_alone() -> None:
    play = Play().running()
    assert play.order(Dump(2)).kinds == []
    assert play.order(Dump(1)).kinds == [aa.DumpStacks]
    assert play.send(ae.StacksDumped(1)).told == [TaskState.STARTED]
    play.send(ae.RunEnded(1))
    assert play.send(ae.StacksDumped(1)).told == []


# ---- errands -----------------------------------------------------------------------------------


def test_a_newer_check_or_a_launch_ends_a_check() -> None:
    play = Play().parked().order(Check(1, 7))
    first = play.agent.checking.serial
    play.order(Check(1, 8))
    second = play.agent.checking.serial
    assert play.did[:2] == (aa.Cancel(first), aa.MeasureNode(second, Check(1, 8)))
    assert play.send(ae.Checked(first, 7, NodeMeasures())).did == ()
    assert play.order(launch()).did[0] == aa.Cancel(second)
    assert play.send(ae.Checked(second, 8, NodeMeasures())).did == ()
    assert Play().running().order(Check(1, 9)).kinds == []


def test_a_check_is_reported_with_its_numbers() -> None:
    play = Play().parked().order(Check(3, 7))
    play.send(ae.Checked(play.agent.checking.serial, 7, NodeMeasures(cpu_mib_s=5.0)))
    (report,) = play.did
    assert isinstance(report, aa.Report)
    assert (report.state, report.attempt, report.check) == (TaskState.CHECKED, 3, 7)


def test_staging_answers_the_newest_order() -> None:
    play = Play(is_staged=True).parked().order(Stage(launch(1)))
    first = play.agent.staging.serial
    play.order(Stage(launch(2)))
    assert play.did[0] == aa.Cancel(first)
    assert play.send(ae.Staged(first)).did == ()
    play.send(ae.Staged(play.agent.staging.serial))
    assert play.did == (aa.Report(TaskState.STAGED, 2),)
    # A job that stages nothing has staged it all.
    assert Play().parked().order(Stage(launch(4))).did[0] == aa.Report(TaskState.STAGED, 4)


def test_progress_of_staging_does_not_overtake_reports() -> None:
    play = Play(is_staged=True).parked()
    assert play.send(ae.Signal.STAGING_MOVED).told == [TaskState.READY]
    play.has_unsent = True
    assert play.send(ae.Signal.STAGING_MOVED).told == []
    assert Play().running().send(ae.Signal.STAGING_MOVED).told == []
    assert Play().exited().send(ae.Signal.STAGING_MOVED).told == [TaskState.EXITED]


def test_tokens_are_written_until_they_are_in_the_file() -> None:
    play = Play().running().send(ae.TokensReceived(("t",)))
    assert play.did == (aa.WriteTokens(("t",)),)
    play.send(ae.TokensWritten(False))
    (timer,) = play.did
    assert isinstance(timer, aa.StartTimer)
    assert play.send(ae.TimerFired(AgentTimer.TOKENS, timer.serial)).did == (aa.WriteTokens(()),)
    assert play.send(ae.TokensWritten(True)).did == ()


# ---- the end -----------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["parked", "exited"])
def test_without_processes_it_leaves_when_it_may(phase: str) -> None:
    play: Play = getattr(Play(), phase)()
    play.order(Leave("done"))
    assert play.did == (aa.StopTalking("done"), aa.Exit(AgentExit.DONE))
    play = getattr(Play(), phase)()
    assert play.send(ae.Signal.AM_LOST).did == (aa.Exit(AgentExit.ORPHANED),)


@pytest.mark.parametrize(
    ("code", "reason"),
    [(AgentExit.DONE, "leave directive"), (AgentExit.ORPHANED, "the ApplicationMaster is gone")],
)
def test_processes_end_before_the_agent(code: AgentExit, reason: str) -> None:
    play = Play().running()
    if code is AgentExit.DONE:
        play.order(Leave())
    else:
        play.send(ae.Signal.AM_LOST)
    assert play.action(aa.StopAndWait) == aa.StopAndWait(5.0, reason, 8.0)
    assert play.send(ae.RunEnded(1)).did == (Command.CLOSE_LOGS,)
    assert play.send(ae.Signal.STOPPED).did == (aa.Exit(code),)
    assert play.send(ae.Signal.STOPPED).did == ()


@pytest.mark.parametrize("phase", ["parked", "starting", "running", "exited"])
def test_yarns_kill_and_a_fault_wait_for_nobody(phase: str) -> None:
    for signal, code in (
        (ae.Signal.TERMINATED, AgentExit.TERMINATED),
        (ae.Signal.FAULTED, AgentExit.FAULT),
    ):
        play: Play = getattr(Play(), phase)()
        play.send(signal)
        assert play.did == (Command.KILL_ALL, aa.Exit(code, is_hurried=True))
        assert play.send(ae.Signal.TERMINATED).did == (), "the first reason counts"


def test_every_directive_and_event_has_a_row() -> None:
    keys = {row.key for rows in TABLE.values() for row in rows}
    assert keys >= {Park, Stage, Check, Launch, Stop, Dump, Leave, *ae.Signal, *AgentTimer}
    events = {one for one in vars(ae).values() if getattr(one, "__module__", "") == ae.__name__}
    by_type = events - {ae.Signal, ae.Moment, ae.DirectiveReceived, ae.TimerFired}
    assert keys >= by_type


def test_a_row_leads_only_where_it_says() -> None:
    for phase, rows in TABLE.items():
        for row in rows:
            assert phase not in row.to, "a row that stays names no phase"
