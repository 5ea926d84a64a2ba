"""An agent as a value: what it knows of its job, of the ApplicationMaster and of its processes."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import NamedTuple

from yarnam.agent.machine.agent_directives import Launch


class AgentExit(IntEnum):
    """Exit codes of the agent's process; seen in YARN's logs only."""

    DONE = 0
    FAULT = 70
    REFUSED = 76
    ORPHANED = 80
    TERMINATED = 81


class AgentPhase(Enum):
    PREPARING = "preparing"
    """It gets what the task needs on its node."""
    UNABLE = "unable"
    """That failed: nothing can be started here."""
    PARKED = "parked"
    """It waits at the barrier."""
    LAUNCHING = "launching"
    """From a launch directive until all processes run."""
    RUNNING = "running"
    """All processes have been started, and one may have ended."""
    EXITED = "exited"
    """All processes have ended. Another launch may follow."""
    LEAVING = "leaving"
    """The processes are being ended, then the agent ends."""
    LEFT = "left"


class Preparation(Enum):
    """One part of getting ready."""

    ADDRESS = "address"
    WAKING = "waking"
    """In a large gang the AM wakes the agent by datagrams."""
    LOGS = "logs"
    INPUTS = "inputs"
    PORTS = "ports"
    GPUS = "gpus"
    STAGING = "staging"


class AgentTimer(Enum):
    ACTIVITY = "activity"
    PORTS = "ports"
    TOKENS = "tokens"


class Problem(NamedTuple):
    """Why the task cannot be made ready."""

    message: str
    is_user_fault: bool = False
    is_node_busy: bool = False
    """Others on the node hold what the task needs."""


class TaskFacts(NamedTuple):
    """The part of the job that the machine depends on."""

    stop_grace_s: float = 0.0
    is_large: bool = False
    """The gang has more tasks than the AM holds calls."""
    has_inputs: bool = False
    has_gpus: bool = False
    is_staged: bool = False
    """Some of its inputs are brought to the node."""
    ready_port: str = ""
    """Name of the port by which its processes are ready; empty if they report it themselves."""
    bare_ports: tuple[str, ...] = ()
    """Ports that their servers cannot bind while the agent holds them."""


class AmLink(NamedTuple):
    """What counts between the agent and one ApplicationMaster, and for no other one."""

    seen: int = 0
    """The newest directive that the agent has followed."""
    polling: int = 0
    """The serial of the poll whose answer is awaited, or 0."""


class Run(NamedTuple):
    """One launch. Nothing in it belongs to an ApplicationMaster."""

    launch: Launch
    is_again: bool = False
    """Processes have run in this container before."""
    serial: int = 0
    """The action that the launch waits for, or 0."""
    has_processes: bool = False
    """They are being started, or run, or have run."""
    is_mirrored: bool = False
    """The agent keeps the files of ``checkpoint.mirror``."""
    taken: frozenset[str] = frozenset()
    """Ports that somebody else has taken since the last launch."""
    is_listening: bool = False
    """All of them serve the port by which they are ready, where they have one."""
    has_said_ready: bool = False
    """All processes have said so."""
    is_abandoned: bool = False
    """How its processes ended is not known, or not their fault: no report speaks of it."""
    port_check_after_s: float = 0.0
    """Between the last two looks at the ports."""
    polled_at_s: float = 0.0
    late_polls: int = 0
    has_newer: bool = False
    """The AM does not have the newest metrics."""
    group: tuple[int, int] | None = None
    """As in ``ActivityPolled``: the one that was reported."""

    @property
    def attempt(self) -> int:
        return self.launch.attempt

    @property
    def is_ready(self) -> bool:
        """Ready for those that start after them: by their port, or because all have said so."""
        return self.is_listening or self.has_said_ready


class Errand(NamedTuple):
    """Work for a directive that is not about processes. ``serial`` is 0 if there is none."""

    serial: int = 0
    attempt: int = 0


class AgentState(NamedTuple):
    facts: TaskFacts = TaskFacts()
    phase: AgentPhase = AgentPhase.PREPARING
    am: AmLink = AmLink()
    run: Run | None = None
    staging: Errand = Errand()
    checking: Errand = Errand()
    timers: frozenset[tuple[AgentTimer, int]] = frozenset()
    """Those that run, with the serial of their start."""
    serial: int = 0
    """The newest one that an action got."""
    code: AgentExit = AgentExit.DONE
    """With which it ends, once it leaves."""
