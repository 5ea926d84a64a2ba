"""The keeper: parent of the user's processes, and their end if need be.

It is forked before the agent loads anything heavy, has one thread and imports the standard library
only, so that it can fork safely and stays small. It leads a session of its own: YARN's kill of the
container's process group does not reach it, so it outlives the agent by the moment that it takes
to clear up. Guarantees:

- The agent ends in whatever way (its end of the socket closes): every process is killed then.
- A process that leaves its group, its session or its parent is still found: the keeper is the
  *subreaper* of all its descendants, and a mark in the environment finds the rest.
- The keeper itself is killed: the kernel kills its direct children (PDEATHSIG).
- The interpreter may be gone: it may lie in the container's directory, which YARN removes when the
  agent has ended. So everything is imported at the start.
- GPU leases are file locks whose descriptors the keeper holds too: a device is free again only
  after the processes on it are gone.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource  # noqa: F401 - os.wait4 imports it, when YARN may have removed the interpreter
import select
import shutil
import signal
import socket
import struct
import sys
import termios
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from yarnam.agent.keeper import procfs

MARK = "YARNAM_CONTAINER"
"""Environment variable that marks every process of a container."""

SCRATCH = "YARNAM_SCRATCH"
"""Environment variable with a directory of the processes' own outside of the container's: it goes
with the last of them, in whatever way they end."""

SESSION_MARK = "YARNAM_SESSION"
"""Environment variable that marks every process of a session (``yarnam exec``)."""

SESSION_KILL_LIMIT_S = 1.0
"""The keeper kills the processes of a session for at most this long: others wait for it."""

KILL_LIMIT_S = 5.0
"""A killed process that still exists then is stuck in the kernel: reported and left."""

LOG_MODE = 0o640
"""YARN's own mode for container logs."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_HEADER = struct.Struct(">I")
_libc = ctypes.CDLL(None, use_errno=True)

# What Python or we ignore must not be ignored in the user's process.
_TO_RESET = tuple(
    number
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGPIPE", "SIGXFSZ", "SIGUSR1")
    if (number := getattr(signal, name, None)) is not None
)


Message = dict[str, Any]
"""As decoded from JSON."""


def pack(message: Message) -> bytes:
    """A message on the socket between agent and keeper; text may carry surrogates."""
    body = json.dumps(message).encode("ascii")
    return _HEADER.pack(len(body)) + body


def unpack(buffer: bytearray) -> list[Message]:
    """Take all complete messages out of ``buffer``."""
    messages = []
    while len(buffer) >= _HEADER.size:
        (length,) = _HEADER.unpack_from(buffer)
        if len(buffer) < _HEADER.size + length:
            break
        messages.append(json.loads(bytes(buffer[_HEADER.size : _HEADER.size + length])))
        del buffer[: _HEADER.size + length]
    return messages


def to_bytes(text: str) -> bytes:
    """Exactly the bytes that the spec held, whatever the locale of this container is."""
    return text.encode("utf-8", "surrogateescape")


def become_subreaper() -> None:
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def fork_keeper(mark: str) -> tuple[int, socket.socket]:
    """Fork the keeper; returns its pid and the agent's end of the socket. Call it first thing:
    this process must still have a single thread."""
    ours, theirs = socket.socketpair()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # the disk of the container's logs may be full
            stream.flush()
    pid = os.fork()
    if pid:
        theirs.close()
        return pid, ours
    code = 1
    try:
        ours.close()
        code = Keeper(theirs, mark).run()
    except BaseException:  # noqa: BLE001 - nothing else reports it before _exit
        traceback.print_exc()
    finally:
        os._exit(code)


class Keeper:
    """Its loop. ``mark`` is the container's id, ``MARK`` in each process's environment."""

    def __init__(self, connection: socket.socket, mark: str) -> None:
        self._connection = connection
        self._mark = to_bytes(f"{MARK}={mark}")
        self._ranks: dict[int, int] = {}
        self._logs: dict[int, tuple[int, int]] = {}
        """By process: its log, opened for stdout and again for stderr, see ``_open_log``."""
        self._deadline: float | None = None
        self._scratch: set[str] = set()
        self._fds: list[int] = []
        """Held until the end."""
        self._arrived: list[int] = []
        """Descriptors whose message has not been read yet."""
        self._sessions: dict[int, str] = {}
        """By the process that leads it."""
        self._is_open = True

    def run(self) -> int:
        os.setsid()
        become_subreaper()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        os.set_blocking(wake_read, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        connection = self._connection.fileno()
        buffer = bytearray()
        while self._is_open:
            wait = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
            ready, _, _ = select.select([connection, wake_read], [], [], wait)
            if wake_read in ready:
                _drain(wake_read)
            self._reap()
            if self._deadline is not None and time.monotonic() >= self._deadline:
                self._deadline = None
                self._kill_all()
            if connection in ready:
                self._receive(buffer)
        self._kill_all()
        return 0

    def _receive(self, buffer: bytearray) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._connection, 1 << 16, 64)
        except ConnectionError:
            data, fds = b"", []
        self._arrived.extend(fds)
        if not data:
            self._is_open = False
            return
        buffer += data
        for message in unpack(buffer):
            self._obey(message)

    def _obey(self, message: Message) -> None:
        order = message["do"]
        if order == "start":
            self._start(message)
        elif order == "hold":
            self._fds += self._take_fds(message)
        elif order == "open":
            self._open_session(message, self._take_fds(message))
        elif order == "signal":
            self._signal_session(message)
        elif order == "stop":
            for pid in self._ranks:
                _signal_group(pid, signal.SIGTERM)
            self._deadline = time.monotonic() + float(message["grace_s"])
        elif order == "sweep":
            left = self._kill_all()
            self._deadline = None
            self._send({"is": "swept", "left": left})

    def _take_fds(self, message: Message) -> list[int]:
        """Those that came with it: descriptors arrive in the order of their messages."""
        count = int(message["fds"])
        taken, self._arrived = self._arrived[:count], self._arrived[count:]
        return taken

    def _send(self, message: Message) -> None:
        try:
            self._connection.sendall(pack(message))
        except OSError:
            self._is_open = False

    # ---- starting ------------------------------------------------------------------------

    def _start(self, order: Message) -> None:
        rank = int(order["rank"])
        try:
            logs = _open_log(order["log"])
        except OSError as error:
            self._not_started(rank, "log", error.errno or 0)
            return
        pid, stage, code = _fork(order, (-1, *logs))
        if not pid:
            for fd in logs:
                os.close(fd)
            self._not_started(rank, stage, code)
            return
        self._ranks[pid], self._logs[pid] = rank, logs
        if scratch := order["env"].get(SCRATCH):
            self._scratch.add(scratch)
        self._send({"is": "started", "rank": rank, "pid": pid, "logs": logs})

    def _not_started(self, rank: int, stage: str, code: int) -> None:
        self._send({"is": "not-started", "rank": rank, "stage": stage, "errno": code})

    # ---- sessions ------------------------------------------------------------------------

    def _open_session(self, order: Message, fds: list[int]) -> None:
        """``fds`` become the stdin, stdout and stderr of its process; one alone is a terminal, and
        becomes all three."""
        stdio = (fds[0],) * 3 if len(fds) == 1 else (fds[0], fds[1], fds[2])
        pid, stage, code = _fork(order, stdio, has_terminal=len(fds) == 1)
        for fd in fds:
            os.close(fd)
        session = order["session"]
        if pid:
            self._sessions[pid] = session
        self._send({
            "is": "opened", "session": session, "pid": pid, "stage": stage, "errno": code,
        })  # fmt: skip

    def _signal_session(self, order: Message) -> None:
        """To the process group of its leader; or to all of its processes, until none is left."""
        pid, number = int(order["pid"]), int(order["signal"])
        if not order["all"]:
            if pid in self._sessions:
                _signal_group(pid, number)
            return
        mark = to_bytes(f"{SESSION_MARK}={order['session']}")
        limit = time.monotonic() + SESSION_KILL_LIMIT_S
        while True:
            members = procfs.of_session(pid, os.getpid()) | procfs.marked(mark)
            for member in members:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(member, number)
            self._reap()
            if number != signal.SIGKILL or not members or time.monotonic() > limit:
                return
            time.sleep(0.005)

    # ---- ending --------------------------------------------------------------------------

    def _reap(self) -> None:
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            session = self._sessions.pop(pid, None)
            if session is not None and self._is_open:
                self._send({"is": "closed", "session": session, "status": status})
            rank = self._ranks.pop(pid, None)
            if rank is None:
                continue
            ends = [_end_of(fd) for fd in self._logs.pop(pid)]
            if self._is_open:
                self._send({
                    "is": "exited", "rank": rank, "status": status, "peak_kib": used.ru_maxrss,
                    "ends": ends,
                })  # fmt: skip

    def _kill_all(self) -> int:
        left = kill_all(self._mark, self._reap)
        while self._scratch:
            # Another user's files there stay: nobody else may remove them.
            shutil.rmtree(self._scratch.pop(), ignore_errors=True)
        return left


def kill_all(mark: bytes, reap: Callable[[], None]) -> int:
    """Kill everything that descends from this process or carries the mark (NAME=value), but itself;
    returns how many are left after ``KILL_LIMIT_S``."""
    limit = time.monotonic() + KILL_LIMIT_S
    spared = {os.getpid()}
    while True:
        reap()
        # A process may fork meanwhile: only a scan that finds none ends this.
        victims = procfs.descendants(os.getpid()) - spared or procfs.marked(mark) - spared
        if not victims:
            reap()
            return 0
        if time.monotonic() > limit:
            with suppress(OSError):
                print(f"yarnam: cannot kill {sorted(victims)}", file=sys.stderr, flush=True)  # noqa: T201
            return len(victims)
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        time.sleep(0.005)


def _open_log(path: str) -> tuple[int, int]:
    """Twice: two open file descriptions, each with the position of its own last write, by which
    stdout and stderr are distinguished in the one file."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    out = os.open(path, flags, LOG_MODE)
    try:
        return out, os.open(path, flags, LOG_MODE)
    except OSError:
        os.close(out)
        raise


def _end_of(log: int) -> int:
    """Where the last write by this description ended; closes it."""
    try:
        return os.lseek(log, 0, os.SEEK_CUR)
    except OSError:
        return 0
    finally:
        os.close(log)


Stdio = tuple[int, int, int]
"""Descriptors that become a process's stdin, stdout and stderr; -1 for the null device."""


def _fork(order: Message, stdio: Stdio, *, has_terminal: bool = False) -> tuple[int, str, int]:
    """Start the process. Returns its pid; or 0, the stage at which that failed, and the error's
    number."""
    keeper = os.getpid()
    try:
        failure_read, failure_write = os.pipe()
    except OSError as error:
        return 0, "fork", error.errno or 0
    try:
        pid = os.fork()
    except OSError as error:
        os.close(failure_read)
        os.close(failure_write)
        return 0, "fork", error.errno or 0
    if pid == 0:
        _become(order, keeper, failure_write, stdio, has_terminal)
    os.close(failure_write)
    failure = _read_all(failure_read)
    if not failure:
        return pid, "", 0
    os.waitpid(pid, 0)
    stage, _, code_text = failure.decode().partition(" ")
    return 0, stage, int(code_text)


def _become(order: Message, keeper: int, failure: int, stdio: Stdio, has_terminal: bool) -> None:
    """In the forked child: become the user's process. Never returns."""
    stage = "fork"
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != keeper:
            os._exit(1)
        null = os.open(os.devnull, os.O_RDONLY)
        if has_terminal:
            fcntl.ioctl(stdio[0], termios.TIOCSCTTY, 0)
        stage = "chdir"
        os.chdir(order["cwd"])
        stage = "exec"
        for number, fd in enumerate(stdio):
            os.dup2(null if fd < 0 else fd, number)
        os.set_inheritable(failure, False)
        for number in _TO_RESET:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        environment = {to_bytes(name): to_bytes(text) for name, text in order["env"].items()}
        arguments = [to_bytes(text) for text in order["argv"]]
        # Python opens everything close-on-exec; what came in from outside is not ours to pass on.
        for fd in _open_fds():
            if fd > 2 and fd != failure:
                os.closerange(fd, fd + 1)  # ignores one that is closed by now
        os.execve(to_bytes(order["path"]), arguments, environment)  # noqa: S606 - that is the point
    except OSError as error:
        os.write(failure, f"{stage} {error.errno or errno.EIO}".encode())
    except BaseException:  # noqa: BLE001 - anything else here is a fault of ours
        os.write(failure, f"{stage} {errno.EINVAL}".encode())
        traceback.print_exc()
    finally:
        os._exit(127)


def _open_fds() -> list[int]:
    listing = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY)
    try:
        return [int(name) for name in os.listdir(listing) if int(name) != listing]  # noqa: PTH208
    finally:
        os.close(listing)


def _signal_group(pid: int, number: int) -> None:
    # Each process leads a session, so its pid names its group for as long as it is not reaped.
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        pass


def _read_all(fd: int) -> bytes:
    with os.fdopen(fd, "rb") as stream:
        return stream.read()
