"""The agent's end of the socket to its keeper, as coroutines."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from yarnam.agent.keeper.keeper import KILL_LIMIT_S, MARK, Message, kill_all, pack, to_bytes, unpack
from yarnam.errors import InternalError

T = TypeVar("T")

SWEEP_LIMIT_S = KILL_LIMIT_S + 5.0
"""The keeper answers a sweep within its own limit; longer means that it is stuck."""

CLOSE_LIMIT_S = KILL_LIMIT_S + 1.0
"""After the socket closes the keeper kills what is left and ends."""

START_LIMIT_S = 30.0
"""From the order until the program is executed; a hung file system takes longer."""


class StartOrder(NamedTuple):
    """One process to start. ``path`` is what is executed, ``argv`` its arguments."""

    rank: int
    path: str
    argv: Sequence[str]
    env: dict[str, str]
    cwd: str
    log: str


class Started(NamedTuple):
    """``pid``, or 0 and the stage (log, chdir, exec, fork) at which ``errno`` came up."""

    pid: int
    stage: str = ""
    errno: int = 0
    logs: tuple[int, int] | None = None
    """The keeper's descriptors of its stdout and its stderr."""


class SessionOrder(NamedTuple):
    """The process of one session, as ``StartOrder``."""

    session: str
    path: str
    argv: Sequence[str]
    env: dict[str, str]
    cwd: str


class OpenedSession(NamedTuple):
    """``ended`` becomes the wait status of its process."""

    started: Started
    ended: asyncio.Future[int]


class Exited(NamedTuple):
    """One that has ended: its wait status, the most memory it used, and where in its log the last
    writes to stdout and to stderr ended."""

    rank: int
    status: int
    peak_kib: int
    ends: tuple[int, int] = (0, 0)


class KeeperClient:
    """``on_exit`` is called for each that ended; ``on_lost()`` when the keeper is gone and nobody
    closed the connection."""

    def __init__(self, pid: int, connection: socket.socket, mark: str = "") -> None:
        self.on_exit: Callable[[Exited], None] = lambda _: None
        self.on_lost: Callable[[], None] = lambda: None
        self.pid = pid
        self._mark = mark
        self._socket = connection
        self._socket.setblocking(False)
        self._starting: dict[int, asyncio.Future[Started]] = {}
        self._sweeps: list[asyncio.Future[int]] = []
        self._opening: dict[str, asyncio.Future[Started]] = {}
        self._sessions: dict[str, asyncio.Future[int]] = {}
        self._reader: asyncio.Task[None] | None = None
        self._is_closed = False
        self._sending = asyncio.Lock()

    def open(self) -> None:
        self._reader = asyncio.create_task(self._read(), name="keeper")

    async def hold(self, fds: Sequence[int]) -> None:
        """Let the keeper hold these descriptors too, until it ends."""
        if fds:
            await self._send({"do": "hold", "fds": len(fds)}, fds)

    async def start(self, order: StartOrder) -> Started:
        """Raises InternalError when the keeper does not answer."""
        answer: asyncio.Future[Started] = asyncio.get_running_loop().create_future()
        self._starting[order.rank] = answer
        await self._send({"do": "start", **order._asdict()})
        return await self._await_reply(answer, START_LIMIT_S, "start a process")

    async def open_session(self, order: SessionOrder, fds: Sequence[int]) -> OpenedSession:
        """Start the process of a session. ``fds``: its stdin, stdout and stderr; or one, a
        terminal. They stay the caller's to close. Raises InternalError when the keeper does not
        answer."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Started] = loop.create_future()
        ended: asyncio.Future[int] = loop.create_future()
        self._opening[order.session], self._sessions[order.session] = answer, ended
        try:
            await self._send({"do": "open", "fds": len(fds), **order._asdict()}, fds)
            started = await self._await_reply(answer, START_LIMIT_S, "start a process")
        except InternalError:
            ended.cancel()
            raise
        finally:
            self._opening.pop(order.session, None)
            if ended.cancelled():
                self._sessions.pop(order.session, None)
        if not started.pid:
            self._sessions.pop(order.session, None)
        return OpenedSession(started, ended)

    async def signal_session(
        self, session: str, pid: int, number: int, *, to_all: bool = False
    ) -> None:
        """Signal the process group of its leader; or all processes of the session, which SIGKILL
        ends for certain."""
        await self._send({
            "do": "signal", "session": session, "pid": pid, "signal": number, "all": to_all,
        })  # fmt: skip

    async def stop(self, grace_s: float) -> None:
        """SIGTERM to every process group; SIGKILL to all that is left after ``grace_s``."""
        await self._send({"do": "stop", "grace_s": grace_s})

    async def sweep(self) -> int:
        """Kill whatever still runs in this container; returns how many could not be killed."""
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._sweeps.append(answer)
        await self._send({"do": "sweep"})
        return await self._await_reply(answer, SWEEP_LIMIT_S, "clean up")

    def kill_now(self) -> None:
        """Without waiting: the keeper sees the socket close and kills everything."""
        self._is_closed = True
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    async def close(self) -> bool:
        """Everything is killed and the keeper gone; False when it did not end in time."""
        self.kill_now()
        if self._reader is not None:
            self._reader.cancel()
        loop = asyncio.get_running_loop()
        limit = loop.time() + CLOSE_LIMIT_S
        while loop.time() < limit:
            try:
                pid, _ = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid:
                return True
            await asyncio.sleep(0.005)
        return False

    async def _await_reply(self, answer: asyncio.Future[T], limit_s: float, what: str) -> T:
        try:
            return await asyncio.wait_for(answer, limit_s)
        except asyncio.TimeoutError as error:
            raise InternalError(f"the keeper did not {what} within {limit_s:.0f} s") from error

    async def _send(self, message: Message, fds: Sequence[int] = ()) -> None:
        data = pack(message)
        try:
            async with self._sending:
                if fds:
                    # With its first byte; the rest may have to wait for the keeper.
                    self._socket.setblocking(True)
                    try:
                        socket.send_fds(self._socket, [data[:1]], list(fds))
                    finally:
                        self._socket.setblocking(False)
                    data = data[1:]
                await asyncio.get_running_loop().sock_sendall(self._socket, data)
        except OSError as error:
            raise InternalError(f"the keeper is gone: {error}") from error

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        buffer = bytearray()
        while True:
            try:
                data = await loop.sock_recv(self._socket, 1 << 16)
            except OSError:
                data = b""
            if not data:
                break
            buffer += data
            for message in unpack(buffer):
                self._take(message)
        gone = InternalError("the keeper is gone")
        waiting: list[asyncio.Future[Started] | asyncio.Future[int]] = [*self._starting.values()]
        waiting += (*self._opening.values(), *self._sessions.values())
        for answer in (*waiting, *self._sweeps):
            if not answer.done():
                answer.set_exception(gone)
        if not self._is_closed:
            # Its children are dead by PDEATHSIG; what they left has come to this process.
            await asyncio.to_thread(kill_all, to_bytes(f"{MARK}={self._mark}"), self._reap)
            self.on_lost()

    def _reap(self) -> None:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass

    def _take(self, message: Message) -> None:
        kind = message["is"]
        if kind == "exited":
            rank, status, peak_kib = (int(message[key]) for key in ("rank", "status", "peak_kib"))
            out, err = message["ends"]
            self.on_exit(Exited(rank, status, peak_kib, (int(out), int(err))))
        elif kind == "swept":
            _resolve(self._sweeps.pop(0), int(message["left"]))
        elif kind == "started":
            out, err = message["logs"]
            started = Started(int(message["pid"]), logs=(int(out), int(err)))
            _resolve(self._starting.pop(int(message["rank"])), started)
        elif kind == "opened":
            pid, code = int(message["pid"]), int(message["errno"])
            opening = self._opening.get(str(message["session"]))
            if opening is not None:
                _resolve(opening, Started(pid, str(message["stage"]), code))
        elif kind == "closed":
            ended = self._sessions.pop(str(message["session"]), None)
            if ended is not None:
                _resolve(ended, int(message["status"]))
        elif kind == "not-started":
            failed = Started(0, str(message["stage"]), int(message["errno"]))
            _resolve(self._starting.pop(int(message["rank"])), failed)


def _resolve(answer: asyncio.Future[T], value: T) -> None:
    if not answer.done():
        answer.set_result(value)
