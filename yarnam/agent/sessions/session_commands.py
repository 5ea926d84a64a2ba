"""The commands of sessions: what is executed, with which environment, over which descriptors."""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import signal
import struct
import sys
import termios
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from yarnam.agent import programs
from yarnam.agent.keeper.keeper import LOG_MODE, SESSION_MARK
from yarnam.agent.keeper.keeper_client import KeeperClient, OpenedSession, SessionOrder
from yarnam.agent.sessions.descriptors import Descriptor
from yarnam.core.model.session_parts import SessionKind, SessionRequest, WindowSize

NOT_FOUND_CODE, NOT_EXECUTABLE_CODE = 127, 126
"""As POSIX shells have them."""

SHELLS = ("bash", "sh")
"""The first one on the task's PATH is the shell of ``yarnam shell``."""

DEFAULT_TERMINAL = "xterm-256color"

PIPE_BYTES = 256 * 1024
"""The size of a command's pipes: with the kernel's own the processes switch more often."""
_F_SETPIPE_SZ = 1031

COPY_PROGRAM = "file_copy.py"


class TaskEnvironment(NamedTuple):
    """The environment of one of the task's processes, as text, and their directories."""

    env: Mapping[str, str]
    directory: Path
    log_directory: Path


class CannotStart(Exception):
    """The command cannot be started: ``code`` is a shell's exit code for that."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def order_of(request: SessionRequest, session: str, task: TaskEnvironment) -> SessionOrder:
    """Raises CannotStart: there is no such program."""
    env = {**task.env, SESSION_MARK: session}
    if request.window is not None:
        env["TERM"] = request.terminal_type or DEFAULT_TERMINAL
    if request.kind is SessionKind.EXEC:
        argv = [as_text(one) for one in request.command]
        path, argv = _program(argv, env, task.directory)
    else:
        program = Path(programs.__file__).with_name(COPY_PROGRAM)
        direction = "read" if request.kind is SessionKind.READ else "write"
        more = ["--overwrite"] if request.overwrites else []
        path = sys.executable
        argv = [path, "-I", "-S", str(program), direction, as_text(request.path), *more]
    return SessionOrder(session, path, argv, env, str(task.directory))


def as_text(name: bytes) -> str:
    """As the keeper takes text: it gives the same bytes back."""
    return name.decode("utf-8", "surrogateescape")


def _program(argv: list[str], env: Mapping[str, str], directory: Path) -> tuple[str, list[str]]:
    search = env.get("PATH", os.defpath)
    if not argv:
        found = next(filter(None, (shutil.which(name, path=search) for name in SHELLS)), None)
        if found is None:
            raise CannotStart(NOT_FOUND_CODE, f"the task has no shell on its PATH ({search})")
        return found, [Path(found).name]
    name = argv[0]
    if "/" in name:
        path = directory / name
        if not path.exists():
            raise CannotStart(NOT_FOUND_CODE, f"command not found: {path} does not exist")
        if path.is_dir() or not os.access(path, os.X_OK):
            raise CannotStart(NOT_EXECUTABLE_CODE, f"command not executable: {path}")
        return str(path), argv
    found = shutil.which(name, path=search)
    if found is None:
        raise CannotStart(NOT_FOUND_CODE, f"command not found: {name} is not on PATH ({search})")
    return found, argv


class SessionCommand:
    """A command that runs, and the agent's ends of its stdin, stdout and stderr. With a terminal
    ``stdin`` and ``stdout`` are that, without ``stderr``; detached it has none of them."""

    def __init__(self, keeper: KeeperClient, session: str) -> None:
        self._keeper = keeper
        self._session = session
        self.stdin: Descriptor | None = None
        self.stdout: Descriptor | None = None
        self.stderr: Descriptor | None = None
        self.log = ""
        self.opened: OpenedSession | None = None

    @property
    def pid(self) -> int:
        return self.opened.started.pid if self.opened is not None else 0

    async def start(self, request: SessionRequest, task: TaskEnvironment) -> None:
        """Raises CannotStart, InternalError (the keeper does not answer) and OSError."""
        order = order_of(request, self._session, task)
        theirs = self._descriptors(request, task)
        try:
            self.opened = await self._keeper.open_session(order, theirs)
        finally:
            for fd in theirs:
                os.close(fd)
        started = self.opened.started
        if not started.pid:
            why = os.strerror(started.errno)
            code = NOT_EXECUTABLE_CODE if started.stage == "exec" else NOT_FOUND_CODE
            raise CannotStart(code, f"cannot start {order.argv[0]}: {why}")

    def _descriptors(self, request: SessionRequest, task: TaskEnvironment) -> list[int]:
        """The command's own ends."""
        if request.is_detached:
            log = task.log_directory / f"session-{self._session}.log"
            self.log = log.name
            null = os.open(os.devnull, os.O_RDONLY)
            out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, LOG_MODE)
            return [null, out, os.dup(out)]
        if request.window is not None:
            ours, theirs = pty.openpty()
            self.stdin = self.stdout = Descriptor(ours)
            self.resize(request.window)
            return [theirs]
        in_read, in_write = os.pipe()
        self.stdin = Descriptor(in_write)
        out_read, out_write = os.pipe()
        self.stdout = Descriptor(out_read)
        error_read, error_write = os.pipe()
        self.stderr = Descriptor(error_read)
        for fd in (in_write, out_read):
            with suppress(OSError):  # the user's limit of such memory is used up
                fcntl.fcntl(fd, _F_SETPIPE_SZ, PIPE_BYTES)
        return [in_read, out_write, error_write]

    def resize(self, window: WindowSize) -> None:
        """The kernel sends SIGWINCH to the terminal's foreground."""
        if self.stdin is not None and self.stdin is self.stdout and self.stdin.fd >= 0:
            size = struct.pack("HHHH", window.rows & 0xFFFF, window.columns & 0xFFFF, 0, 0)
            with suppress(OSError):
                fcntl.ioctl(self.stdin.fd, termios.TIOCSWINSZ, size)

    def end_input(self) -> None:
        """A pipe is closed; a terminal stays open for the output."""
        if self.stdin is not None and self.stdin is not self.stdout:
            self.stdin.close()

    async def send_signal(self, number: int) -> None:
        if self.pid and 0 < number < signal.NSIG:
            await self._keeper.signal_session(self._session, self.pid, number)

    async def end_all(self, number: int = signal.SIGKILL) -> None:
        """Signal every process of the session; with SIGKILL none is left."""
        if self.pid:
            await self._keeper.signal_session(self._session, self.pid, number, to_all=True)

    def close(self) -> None:
        for one in (self.stdin, self.stdout, self.stderr):
            if one is not None:
                one.close()
