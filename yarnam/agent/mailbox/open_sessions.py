"""Serves sessions in the task: each is one stream, as long as both sides are there."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import signal
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import grpc

from yarnam.agent.keeper.keeper_client import KeeperClient
from yarnam.agent.machine.session_rules import (
    SessionClock,
    SessionCounts,
    TaskFacts,
    over_because,
    refusal,
)
from yarnam.agent.mailbox.session_messages import (
    decode_request,
    decode_window,
    end_message,
    opened_message,
    refused,
)
from yarnam.agent.sessions.connections import Connection
from yarnam.agent.sessions.descriptors import Descriptor
from yarnam.agent.sessions.session_commands import CannotStart, SessionCommand, TaskEnvironment
from yarnam.agent.sessions.session_task import SessionTask
from yarnam.agent.sessions.stack_reading import read_stacks
from yarnam.core.model.session_parts import (
    ALIVE_S,
    IN_FLIGHT_BYTES,
    MAX_PIECE_BYTES,
    EndKind,
    SessionEnd,
    SessionKind,
    SessionOpened,
    SessionRequest,
)
from yarnam.errors import YarnamError
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.tls import first_of_session

LEFTOVER_S = 2.0
"""After its command has ended, a session reads the output to its end, or until nothing has come for
this long: a process that has left the session may keep the pipe open."""

HANGUP_S = 1.0
"""Between SIGHUP and SIGKILL for a session that is cut."""

LINGER_S = 2.0
"""After it has sent the end, the agent reads until the client has it. A call that ends while its
other side still writes breaks there (grpcio 1.85: INTERNAL), and the end would be lost."""

CLOSE_LIMIT_S = 2.0
"""For the clients to get the reason when the agent leaves."""

NO_STACKS = (
    "no Python stack can be read: the job's PATH has no py-spy that may read the process, and the "
    "program does not import yarnam.train"
)

_LOG = logging.getLogger("yarnam.agent")


class OpenSessions:
    """All sessions in the task. ``task``: as it is now."""

    def __init__(self, keeper: KeeperClient, task: Callable[[], SessionTask]) -> None:
        self._keeper = keeper
        self._task = task
        self._open: dict[str, _Session] = {}
        self._endings: set[asyncio.Task[None]] = set()

    async def serve(self, context: Any) -> None:
        """One session, to its end."""
        request = await _request(context)
        task = self._task()
        facts = TaskFacts(task.is_interactive, len(task.environments))
        why = refusal(request, facts, self._counts()) or self._no_forward(request)
        if why:
            await context.write(refused(why))
            await _discard(context)
            return
        session = _Session(secrets.token_hex(4), request, task, self._keeper, context)
        session.forward = self._open.get(request.forward)
        self._open[session.name] = session
        try:
            end = await session.run(self._is_running)
            await session.write(end_message(end))
            await session.linger()
        finally:
            del self._open[session.name]
            self._end(session.end())
            for one in tuple(self._open.values()):
                if one.request.forward == session.name:
                    one.cut("the port-forward has ended")

    def _counts(self) -> SessionCounts:
        kinds = [one.request.kind for one in self._open.values()]
        connections = kinds.count(SessionKind.CONNECT)
        return SessionCounts(len(kinds) - connections, connections)

    def _no_forward(self, request: SessionRequest) -> str:
        """A connection belongs to a port-forward, which is on record."""
        if request.kind is not SessionKind.CONNECT:
            return ""
        forward = self._open.get(request.forward)
        if forward is None or request.port not in forward.request.ports:
            return f"no port-forward to port {request.port} is open"
        return ""

    def _is_running(self) -> bool:
        return bool(self._task().environments)

    def _end(self, work: Coroutine[object, object, None]) -> None:
        """Not within the call, which may have been cancelled."""
        task = asyncio.create_task(work)
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    async def close(self, reason: str) -> None:
        """End all sessions with this reason."""
        for session in tuple(self._open.values()):
            session.cut(reason)
        loop = asyncio.get_running_loop()
        limit_s = loop.time() + CLOSE_LIMIT_S
        while (self._open or self._endings) and loop.time() < limit_s:
            await asyncio.sleep(0.02)


async def _request(context: Any) -> SessionRequest:
    first = await first_of_session(context, "this agent")
    try:
        return decode_request(first.request)
    except ValueError:
        say = "this agent does not know such sessions"
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, say)
        raise


async def _discard(context: Any) -> None:
    async def read() -> None:
        while isinstance(await context.read(), pb.SessionInput):
            continue

    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(read(), LINGER_S)


class _Session:
    """One session. ``run`` returns how it ended; ``end`` clears up, also after a cancelled run."""

    def __init__(
        self,
        name: str,
        request: SessionRequest,
        task: SessionTask,
        keeper: KeeperClient,
        context: Any,
    ) -> None:
        self.name = name
        self.request = request
        self.forward: _Session | None = None
        """The port-forward that a connection belongs to."""
        self._task = task
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._command = SessionCommand(keeper, name)
        self._connection = Connection()
        self._sending = asyncio.Lock()
        self._heard_s = self._moved_s = self._loop.time()
        self._is_listening = True
        self._cut: asyncio.Future[str] = self._loop.create_future()
        self._client_gone: asyncio.Future[None] = self._loop.create_future()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_left = False
        """Its command stays."""
        # Bytes for the command, which may be slow to read.
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._is_input_over = False
        self._changed = asyncio.Event()

    def cut(self, reason: str) -> None:
        """End it soon."""
        if not self._cut.done():
            self._cut.set_result(reason)

    def moved(self, at_s: float) -> None:
        """A byte of it has moved, in one of its connections."""
        self._moved_s = max(self._moved_s, at_s)

    async def write(self, message: pb.SessionOutput) -> None:
        async with self._sending:
            await self._context.write(message)

    # ---- the course ----------------------------------------------------------------------

    async def run(self, is_running: Callable[[], bool]) -> SessionEnd:
        if self.request.kind is SessionKind.STACKS:
            return await self._send_stacks()
        try:
            await self._start()
        except CannotStart as error:
            return SessionEnd(EndKind.EXITED, code=error.code, reason=str(error))
        except OSError as error:
            is_connection = self.request.kind is SessionKind.CONNECT
            what = "connect to" if is_connection else "start the command:"
            why = error.strerror or error
            return SessionEnd(EndKind.REFUSED, reason=f"cannot {what} {why}")
        except YarnamError as error:
            return SessionEnd(EndKind.REFUSED, reason=error.message)
        command = self._command
        await self.write(opened_message(SessionOpened(self.name, command.pid, command.log)))
        if self.request.is_detached:
            self._is_left = True
            return SessionEnd(EndKind.DETACHED)
        pumps, over = self._begin()
        await asyncio.wait([over, self._cut], return_when=asyncio.FIRST_COMPLETED)
        if not over.done():
            return SessionEnd(EndKind.CUT, reason=self._cut.result())
        with suppress(YarnamError, asyncio.CancelledError):
            over.result()
        if command.opened is None:
            return SessionEnd(EndKind.EXITED)
        with suppress(YarnamError):
            await command.end_all()
        await self._drain(pumps)
        return self._exit(is_running)

    async def _send_stacks(self) -> SessionEnd:
        """It takes seconds at most: shorter than a client waits for a sign of life."""
        rank, task = self.request.local_rank, self._task
        pid, log = task.processes[rank] if rank < len(task.processes) else (0, task.log_directory)
        if not pid:
            return SessionEnd(EndKind.REFUSED, reason="the process of this rank has ended")
        await self.write(opened_message(SessionOpened(self.name, pid)))
        found = await read_stacks(pid, log, task.environments[rank])
        if found is None:
            return SessionEnd(EndKind.REFUSED, reason=NO_STACKS)
        content = json.dumps(asdict(found)).encode()
        for start in range(0, len(content), MAX_PIECE_BYTES):
            await self.write(pb.SessionOutput(data=content[start : start + MAX_PIECE_BYTES]))
        return SessionEnd(EndKind.EXITED)

    def _exit(self, is_running: Callable[[], bool]) -> SessionEnd:
        opened = self._command.opened
        assert opened is not None
        ended = opened.ended
        gone = ended.cancelled() or ended.exception() is not None
        status = signal.SIGKILL if gone else ended.result()
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGKILL and (gone or not is_running()):
            why = "the processes of the task have ended, and its sessions with them"
            return SessionEnd(EndKind.CUT, reason=why)
        if code < 0:
            return SessionEnd(EndKind.EXITED, signal=-code)
        return SessionEnd(EndKind.EXITED, code=code)

    async def _start(self) -> None:
        request, task = self.request, self._task
        if request.kind is SessionKind.CONNECT:
            await self._connection.connect(request.port)
        elif request.kind is not SessionKind.FORWARD:
            env = task.environments[request.local_rank]
            where = TaskEnvironment(env, task.directory, task.log_directory)
            await self._command.start(request, where)

    def _begin(self) -> tuple[list[asyncio.Task[None]], asyncio.Future[Any]]:
        """Starts what runs beside ``run``: the tasks that pass on output, and what is done when
        the session is over."""
        stream, command = self._connection.stream, self._command
        sources = [(stream or command.stdout, False), (command.stderr, True)]
        pumps = [
            self._spawn(self._pass_on(source, is_error=is_error))
            for source, is_error in sources
            if source is not None
        ]
        sink = stream or command.stdin
        feeder = self._spawn(self._feed(sink))
        self._spawn(self._listen())
        self._spawn(self._keep_alive())
        if command.opened is not None:
            return pumps, command.opened.ended
        if stream is not None:
            return pumps, asyncio.gather(*pumps, feeder)
        return pumps, self._loop.create_future()

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._guard(work))
        self._tasks.append(task)
        return task

    async def _guard(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except (OSError, grpc.aio.BaseError, asyncio.InvalidStateError) as error:
            self.cut(f"the connection to the client was lost ({type(error).__name__})")
        except Exception:  # noqa: BLE001 - a session never ends the agent
            _LOG.exception("a fault of the agent in session %s", self.name)
            self.cut("a fault of the agent; its log has the reason")

    async def _drain(self, pumps: Sequence[asyncio.Task[None]]) -> None:
        """Passes on the rest of the output, however slow the client is."""
        left = set(pumps)
        while left:
            moved_s = self._moved_s
            _, left = await asyncio.wait(left, timeout=LEFTOVER_S)
            if self._cut.done() or (self._moved_s == moved_s and not self._sending.locked()):
                return

    async def linger(self) -> None:
        if self._tasks:
            await asyncio.wait([self._client_gone], timeout=LINGER_S)
        else:
            await _discard(self._context)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_LIMIT_S)
        command = self._command
        command.close()
        self._connection.close()
        opened = command.opened
        if opened is None or not opened.started.pid or self._is_left:
            return
        with suppress(YarnamError):
            if not opened.ended.done():
                await command.end_all(signal.SIGHUP)
                await asyncio.wait([opened.ended], timeout=HANGUP_S)
            await command.end_all()

    # ---- from the client -----------------------------------------------------------------

    async def _listen(self) -> None:
        while True:
            message = await self._context.read()
            self._heard_s = self._loop.time()
            if not isinstance(message, pb.SessionInput):
                self._client_gone.set_result(None)
                self.cut("the client has ended it")
                return
            await self._take(message)

    async def _take(self, message: pb.SessionInput) -> None:
        part = message.WhichOneof("part")
        if part == "data":
            await self._put(message.data)
        elif part == "end_of_data":
            self._is_input_over = True
            self._changed.set()
        elif part == "window":
            self._command.resize(decode_window(message.window))
        elif part == "signal":
            with suppress(YarnamError):
                await self._command.send_signal(message.signal)

    async def _put(self, data: bytes) -> None:
        """Waits while the command has too much to read: gRPC then holds up the client."""
        self._moved_s = self._loop.time()
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        self._changed.set()
        self._is_listening = False
        while self._waiting_bytes > IN_FLIGHT_BYTES:
            self._changed.clear()
            await self._changed.wait()
        self._is_listening = True
        self._heard_s = self._loop.time()

    async def _feed(self, sink: Descriptor | None) -> None:
        is_open = sink is not None
        while True:
            while not self._waiting:
                if self._is_input_over:
                    self._end_input()
                    return
                self._changed.clear()
                await self._changed.wait()
            data = b"".join(self._waiting)
            self._waiting.clear()
            if sink is not None and is_open:
                is_open = await sink.write(data)
                self._moved_s = self._loop.time()
            self._waiting_bytes -= len(data)
            self._changed.set()

    def _end_input(self) -> None:
        if self._connection.stream is not None:
            self._connection.end_input()
        else:
            self._command.end_input()

    # ---- to the client -------------------------------------------------------------------

    async def _pass_on(self, source: Descriptor, *, is_error: bool) -> None:
        while data := await source.read():
            self._moved_s = self._loop.time()
            await self.write(
                pb.SessionOutput(error_data=data) if is_error else pb.SessionOutput(data=data)
            )
        if self._connection.stream is not None:
            await self.write(pb.SessionOutput(end_of_data=True))

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(ALIVE_S)
            if self.forward is not None:
                self.forward.moved(self._moved_s)
            clock = SessionClock(self._heard_s, self._moved_s, self._is_listening)
            why = over_because(clock, self._loop.time())
            if why:
                self.cut(why)
                return
            if not self._sending.locked():
                await self.write(pb.SessionOutput(alive=True))
