"""Sessions in a running task: a command, a forwarded connection, a copy of files.

A client opens one through the job's AM, which relays it to the task's agent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Union

MAX_PIECE_BYTES = 256 * 1024
"""Bytes of one message of a session."""

IN_FLIGHT_BYTES = 1024 * 1024
"""Bytes of one session that wait in one process for a slow reader, in each direction."""

ALIVE_S = 5.0
"""The time between two signs of life while a session is open."""

SILENCE_S = 20.0
"""A peer without a sign of life for this long is gone: four of them were lost."""

MAX_COMMAND_BYTES = 128 * 1024
"""As the kernel limits one argument (MAX_ARG_STRLEN)."""

MAX_PORTS = 64
"""Ports of one port-forward."""


class SessionKind(Enum):
    """The use of a session."""

    EXEC = "exec"
    FORWARD = "port-forward"
    """It lasts as long as a client forwards ports; its connections are sessions of their own."""
    CONNECT = "connect"
    READ = "copy-from"
    WRITE = "copy-to"
    STACKS = "stacks"
    """The agent reads the stacks of a process once, and sends a ``RankStacks``."""


class EndKind(Enum):
    """How a session ended."""

    EXITED = "exited"
    """Its command did, with a code or by a signal; or the connection was closed by both ends."""
    DETACHED = "detached"
    """The command stays."""
    REFUSED = "refused"
    """Nothing was started."""
    CUT = "cut"
    """It was ended before its command: see the reason."""


@dataclass(frozen=True, slots=True)
class WindowSize:
    """The size of a terminal, in characters."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """One session to open. ``ask`` names the task."""

    kind: SessionKind
    by: str
    ask: str
    local_rank: int = 0
    command: tuple[bytes, ...] = ()
    """Empty for a shell."""
    window: WindowSize | None = None
    """``None`` if the command gets no terminal."""
    terminal_type: str = ""
    is_detached: bool = False
    port: int = 0
    forward: str = ""
    """The session that a connection belongs to."""
    ports: tuple[int, ...] = ()
    path: bytes = b""
    overwrites: bool = False


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """The agent has begun it."""

    session: str
    pid: int = 0
    log: str = ""
    """The file with the output of a detached command."""


@dataclass(frozen=True, slots=True)
class SessionData:
    """Output of the command, or bytes from the connection."""

    data: bytes
    is_error: bool = False
    """Written to stderr."""


@dataclass(frozen=True, slots=True)
class EndOfData:
    """Nothing more comes from the command or the connection; it may still read."""


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """The last part of every session."""

    kind: EndKind
    code: int = 0
    signal: int = 0
    reason: str = ""


SessionPart = Union[SessionOpened, SessionData, EndOfData, SessionEnd]


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One call in a stack."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """The stack of one thread, the innermost call first."""

    name: str
    frames: tuple[StackFrame, ...]


@dataclass(frozen=True, slots=True)
class RankStacks:
    """The Python stacks of a rank's process."""

    pid: int
    """The process within the rank that has them."""
    tool: str
    """It has read them."""
    threads: tuple[ThreadStack, ...]
