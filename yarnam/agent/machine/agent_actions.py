"""The actions of an agent. An action with a serial is answered by an event with it, unless
``Cancel`` comes first."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Union

from yarnam.agent.machine.agent_directives import Check, Launch
from yarnam.agent.machine.agent_state import AgentExit, AgentTimer, Preparation, Problem
from yarnam.core.model.outcomes import ExitKind, NodeMeasures


class TaskState(Enum):
    """The state that a report describes."""

    READY = "READY"
    STARTED = "STARTED"
    EXITED = "EXITED"
    UNABLE = "UNABLE"
    STAGED = "STAGED"
    CHECKED = "CHECKED"


class Command(Enum):
    """Actions that say all by their name."""

    TALK = "talk"
    """Send reports from now on; answered by INTRODUCED."""
    READ_STEPS = "read-steps"
    """Take the steps that processes have written into files."""
    ADD_PROGRESS = "add-progress"
    """The poll that begins takes along what the processes do."""
    SEND_METRICS_SOON = "send-metrics-soon"
    CLOSE_LOGS = "close-logs"
    """Nothing more is written to the processes' logs."""
    ABANDON = "abandon"
    """Give the processes up."""
    KILL_ALL = "kill-all"
    """End all processes without waiting."""


class Prepare(NamedTuple):
    """In this order. Answered by PREPARED or ``TroubleFound``."""

    parts: tuple[Preparation, ...]


class Poll(NamedTuple):
    """Ask the AM for a directive with another number, ``after_s`` from now. Answered by
    ``DirectiveReceived``; POLL_BEGUN comes before each call."""

    serial: int
    seen: int
    after_s: float = 0.0


class Report(NamedTuple):
    """Send the agent's whole state."""

    state: TaskState
    attempt: int = 0
    is_ready: bool = False
    problem: Problem | None = None
    """Of UNABLE; such a report does not speak of processes."""
    measures: NodeMeasures | None = None
    """Of CHECKED."""
    check: int = 0


class SendMetrics(NamedTuple):
    """The report for which the outbox has time."""

    report: Report


class StopTalking(NamedTuple):
    """Neither reports nor polls from now on: the AM does not wait for them."""

    reason: str


class StageInputs(NamedTuple):
    serial: int
    launch: Launch


class MeasureNode(NamedTuple):
    """Answered by ``Checked``."""

    serial: int
    check: Check


class Cancel(NamedTuple):
    """Drop the action with this serial."""

    serial: int


class WriteTokens(NamedTuple):
    """``tokens`` empty: those of the last time once more."""

    tokens: tuple[str, ...]


class StartTimer(NamedTuple):
    """A later one of the same kind replaces it."""

    timer: AgentTimer
    serial: int
    after_s: float


class StopTimer(NamedTuple):
    timer: AgentTimer


class Exit(NamedTuple):
    """End the agent. ``is_hurried``: nobody is waited for."""

    code: AgentExit
    is_hurried: bool = False


# ---- a launch ------------------------------------------------------------------------------------


class WriteMembers(NamedTuple):
    launch: Launch


class BeginRun(NamedTuple):
    """Take this launch for the current one. The actions below speak of it."""

    launch: Launch


class UploadSpools(NamedTuple):
    """Send the checkpoints that wait on this node's disk."""

    serial: int
    limit_s: float


class RetakePorts(NamedTuple):
    """Hold the task's ports again, with the same numbers."""

    serial: int


class ReleasePorts(NamedTuple):
    names: frozenset[str]


class AwaitFreePorts(NamedTuple):
    """Until a server that sets no flags could bind these ports. Answered by ``PortsFreed``."""

    serial: int
    names: frozenset[str]
    limit_s: float


class PlanProcesses(NamedTuple):
    serial: int
    launch: Launch


class TryCheckpoint(NamedTuple):
    serial: int
    directory: str


class RestoreMirror(NamedTuple):
    """Bring the files of ``checkpoint.mirror`` back. Answered by ``MirrorRestored``."""

    serial: int


class StartProcesses(NamedTuple):
    """As planned. With a problem none of them is started, and each has ended with this kind."""

    problem: str = ""
    kind: ExitKind = ExitKind.NOT_STARTED
    is_again: bool = False


# ---- processes -----------------------------------------------------------------------------------


class StopProcesses(NamedTuple):
    """``idle_grace_s`` as in ``Stop``."""

    grace_s: float
    reason: str
    idle_grace_s: float | None = None


class AskForStep(NamedTuple):
    """Ask the processes for the least step after which they can stop."""

    grace_s: float
    reason: str


class StopAfter(NamedTuple):
    step: int
    reason: str


class StopAndWait(NamedTuple):
    """Answered by STOPPED, when no process is left or ``limit_s`` is over."""

    grace_s: float
    reason: str
    limit_s: float


class DumpStacks(NamedTuple):
    attempt: int


class PollActivity(NamedTuple):
    """See what the processes do. Answered by ``ActivityPolled``. ``is_late``: no poll of the AM has
    come for it."""

    attempt: int
    is_late: bool = False


class CheckPorts(NamedTuple):
    """Release the ports on which the processes listen. Answered by ``PortsChecked``."""

    attempt: int


class FindStrangers(NamedTuple):
    """Answered by ``StrangersFound``."""

    attempt: int


Errand = Union[Prepare, StageInputs, MeasureNode, Cancel, WriteTokens]
LaunchPart = Union[
    WriteMembers, BeginRun, UploadSpools, RetakePorts, ReleasePorts, AwaitFreePorts, PlanProcesses,
    TryCheckpoint, RestoreMirror, StartProcesses,
]  # fmt: skip
RunAction = Union[
    StopProcesses, AskForStep, StopAfter, StopAndWait, DumpStacks, PollActivity, CheckPorts,
    FindStrangers,
]  # fmt: skip
AgentAction = Union[
    Command, Poll, Report, SendMetrics, StopTalking, StartTimer, StopTimer, Exit, Errand,
    LaunchPart, RunAction,
]  # fmt: skip
