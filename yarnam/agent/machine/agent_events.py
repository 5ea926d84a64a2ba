"""What happens to an agent. An answer carries the serial of its action, an event of processes the
attempt of their launch: one that is late, doubled or stale changes nothing."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Union

from yarnam.agent.machine.agent_directives import Directive, Launch
from yarnam.agent.machine.agent_state import AgentTimer, Problem
from yarnam.core.model.outcomes import NodeMeasures


class Moment(NamedTuple):
    """When an event happens, and what the shell knows then."""

    now_s: float = 0.0
    """By a clock that only grows."""
    has_unsent: bool = False
    """The AM has not acknowledged all reports."""


class Signal(Enum):
    """Events that say all by their name."""

    OPENED = "opened"
    PREPARED = "prepared"
    INTRODUCED = "introduced"
    """The AM has acknowledged the first report."""
    POLL_BEGUN = "poll-begun"
    """A poll is about to be sent, and may take along what the processes do."""
    METRICS_DUE = "metrics-due"
    """The outbox has time for a report that brings only metrics."""
    STAGING_MOVED = "staging-moved"
    KEEPER_LOST = "keeper-lost"
    AM_FOUND = "am-found"
    """Another attempt of the AM has taken over: it knows only what the journal holds."""
    AM_LOST = "am-lost"
    """No AM has answered for as long as the agent may wait."""
    STOPPED = "stopped"
    """The answer to ``StopAndWait``."""
    TERMINATED = "terminated"
    """YARN kills the container in 250 ms."""
    FAULTED = "faulted"
    """The agent itself has failed."""


class TroubleFound(NamedTuple):
    """The agent could not prepare, or early staging has failed."""

    problem: Problem


class DirectiveReceived(NamedTuple):
    """The answer to a poll. ``took_s``: since its call."""

    serial: int
    number: int
    order: Directive
    took_s: float = 1.0


class Staged(NamedTuple):
    serial: int
    problem: Problem | None = None


class Checked(NamedTuple):
    serial: int
    check: int
    measures: NodeMeasures


class TokensReceived(NamedTuple):
    """Delegation tokens that replace the container's."""

    tokens: tuple[str, ...]


class TokensWritten(NamedTuple):
    is_written: bool


class TimerFired(NamedTuple):
    timer: AgentTimer
    serial: int


# ---- a launch ------------------------------------------------------------------------------------


class MembersWritten(NamedTuple):
    launch: Launch
    problem: Problem | None = None


class SpoolsUploaded(NamedTuple):
    serial: int


class PortsRetaken(NamedTuple):
    """``taken``: those that somebody else has by now."""

    serial: int
    taken: frozenset[str] = frozenset()


class PortsFreed(NamedTuple):
    """``used``: those that are not free after all this time."""

    serial: int
    used: frozenset[str] = frozenset()


class ProcessesPlanned(NamedTuple):
    serial: int
    checkpoint_dir: str = ""
    """Where the processes keep their checkpoints; empty if they keep none."""
    is_mirrored: bool = False
    """The agent keeps the files of one of their directories there."""


class CheckpointTried(NamedTuple):
    """``problem``: why no checkpoint can be written; empty if one can."""

    serial: int
    problem: str = ""


class MirrorRestored(NamedTuple):
    """``problem``: why the processes cannot start from what was kept; empty if they can."""

    serial: int
    problem: str = ""


# ---- processes -----------------------------------------------------------------------------------


class RunStarted(NamedTuple):
    attempt: int


class ProcessFailed(NamedTuple):
    """The first one: the others are being ended."""

    attempt: int


class ProcessesEnded(NamedTuple):
    """None is left, and their end has not been reported yet."""

    attempt: int
    has_failed: bool = False


class RunEnded(NamedTuple):
    attempt: int


class MirrorMoved(NamedTuple):
    """Another set is kept, or why none is has changed."""

    attempt: int


class StacksDumped(NamedTuple):
    attempt: int


class SampleTaken(NamedTuple):
    """A process has reported metrics."""

    is_news: bool = False
    """It says more than newer numbers."""
    all_ready: bool = False
    """All processes have said by now that they are ready."""


class ActivityPolled(NamedTuple):
    attempt: int
    has_changed: bool = False
    is_late: bool = False
    group: tuple[int, int] | None = None
    """The number of the newest group that the framework has formed, and of how many tasks."""


class PortsChecked(NamedTuple):
    """``held``: the agent holds them still. ``taken``: another user's server listens there, with
    the number of that user. ``local_ranks``: of the processes."""

    attempt: int
    held: frozenset[str] = frozenset()
    taken: tuple[tuple[str, int], ...] = ()
    local_ranks: tuple[int, ...] = ()


class StrangersFound(NamedTuple):
    """``taken`` as in ``PortsChecked``."""

    attempt: int
    taken: tuple[tuple[str, int], ...] = ()


AgentEvent = Union[
    Signal, TroubleFound, DirectiveReceived, Staged, Checked, TokensReceived, TokensWritten,
    TimerFired, MembersWritten, SpoolsUploaded, PortsRetaken, PortsFreed, ProcessesPlanned,
    CheckpointTried, MirrorRestored, RunStarted, ProcessFailed, ProcessesEnded, RunEnded,
    MirrorMoved, StacksDumped, SampleTaken, ActivityPolled, PortsChecked, StrangersFound,
]  # fmt: skip
