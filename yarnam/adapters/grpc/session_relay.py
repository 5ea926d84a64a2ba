"""The AM passes on sessions between a client and the agent of a task, and records them.

What is typed and printed goes through, and is kept nowhere.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from yarnam.core.model.events import MAX_SESSION_TEXT, SessionBegun, SessionClosed
from yarnam.core.model.ids import AskId, parse_ask_id
from yarnam.core.model.printable import printable
from yarnam.core.model.session_parts import EndKind, SessionKind
from yarnam.ports import Inbox
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc as pb_grpc
from yarnam.wire.tls import CHANNEL_OPTIONS, channel_credentials, first_of_session, rpc_failure

log = logging.getLogger("yarnam.am")

MAX_RELAYED = 512
"""Sessions and connections of all tasks at a time: each has four tasks on the loop, and at most a
message in each direction."""

MAX_USER_TEXT = 256
"""The client's name as recorded."""

_ON_RECORD = {kind.value for kind in SessionKind} - {SessionKind.CONNECT.value}
"""A connection belongs to a port-forward, which is."""


class SessionRelay(pb_grpc.TaskSessionsServicer):
    """``address_of``: where the agent of an ask listens, empty if there is none."""

    def __init__(
        self, address_of: Callable[[str], str], credentials_pem: bytes, now_s: Callable[[], float]
    ) -> None:
        self._address_of = address_of
        self._pem = credentials_pem
        self._credentials: grpc.ChannelCredentials | None = None
        self._now_s = now_s
        self._inbox: Inbox = lambda event: None
        self._count = 0

    def open(self, inbox: Inbox) -> None:
        self._inbox = inbox

    async def Open(self, requests: Any, context: Any) -> None:  # noqa: N802 - gRPC's name
        first = await first_of_session(context, "the job")
        request = first.request
        try:
            ask = parse_ask_id(request.ask)
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise
        address = self._address_of(request.ask)
        if not address:
            await context.write(_refused("the task has no agent now: it waits, or has ended"))
            return
        if self._count >= MAX_RELAYED:
            await context.write(_refused(f"the job has {MAX_RELAYED} sessions already"))
            return
        self._count += 1
        record = _Record(request, ask, self._now_s, self._inbox)
        try:
            await self._pass_on(address, first, context, record)
        finally:
            self._count -= 1
            record.close()

    async def _pass_on(self, address: str, first: Any, context: Any, record: _Record) -> None:
        if self._credentials is None:
            self._credentials = channel_credentials(self._pem)
        channel = grpc.aio.secure_channel(address, self._credentials, options=CHANNEL_OPTIONS)
        upward: asyncio.Task[None] | None = None
        try:
            call = pb_grpc.TaskSessionsStub(channel).Open()  # type: ignore[no-untyped-call]
            await call.write(first)
            upward = asyncio.create_task(_send_on(context, call))
            while (message := await call.read()) is not grpc.aio.EOF:
                record.see(message)
                await context.write(message)
                if message.HasField("end"):
                    return
            code, details = await call.code(), await call.details()
            if code is not grpc.StatusCode.OK:
                await context.abort(code, details)
        except grpc.aio.AioRpcError as error:
            if error.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN}:
                why = f"the connection to the task's agent was lost: {rpc_failure(error)}"
                message = _ended(EndKind.CUT, why)
                record.see(message)
                await context.write(message)
            else:
                await context.abort(error.code(), error.details() or "")
        finally:
            if upward is not None:
                upward.cancel()
            # A call that is under way ends with it: the agent then ends the session.
            await channel.close(grace=None)


async def _send_on(context: Any, call: Any) -> None:
    """From the client to the agent, until the client ends its side or the call is over."""
    try:
        while (message := await context.read()) is not grpc.aio.EOF:
            await call.write(message)
        await call.done_writing()
    except (grpc.aio.BaseError, grpc.RpcError, asyncio.InvalidStateError) as error:
        log.debug("a session's input ends: %r", error)


class _Record:
    """One session in the job's events, from the moment at which the agent has begun it."""

    def __init__(self, request: Any, ask: AskId, now_s: Callable[[], float], inbox: Inbox) -> None:
        self._request = request
        self._ask = ask
        self._now_s = now_s
        self._inbox = inbox
        self._session = ""
        self._opened_s = 0.0
        self._outcome = "the client has gone"

    def see(self, message: Any) -> None:
        if message.HasField("opened") and not self._session:
            self._session = printable(message.opened.session, max_length=MAX_USER_TEXT)
            self._opened_s = self._now_s()
            if self._request.kind in _ON_RECORD:
                by = printable(self._request.by, max_length=MAX_USER_TEXT) or "a client"
                what = printable(what_of(self._request), max_length=MAX_SESSION_TEXT)
                kind = self._request.kind
                self._inbox(SessionBegun(self._opened_s, self._session, by, self._ask, kind, what))
        elif message.HasField("end"):
            self._outcome = outcome_of(message.end)

    def close(self) -> None:
        if self._session and self._request.kind in _ON_RECORD:
            now_s = self._now_s()
            lasted_s = max(0.0, now_s - self._opened_s)
            self._inbox(SessionClosed(now_s, self._session, self._ask, lasted_s, self._outcome))


def what_of(request: pb.SessionRequest) -> str:
    """The command, the path or the ports, for the record."""
    if request.kind == SessionKind.FORWARD.value:
        return " ".join(map(str, request.ports))
    if request.kind in {SessionKind.READ.value, SessionKind.WRITE.value}:
        return _text(request.path)
    if request.kind == SessionKind.STACKS.value:
        return f"local rank {request.local_rank}"
    return shlex.join(map(_text, request.command)) or "a shell"


def _text(data: bytes) -> str:
    return data[:MAX_SESSION_TEXT].decode("utf-8", "replace")


def outcome_of(end: pb.SessionEnd) -> str:
    if end.kind == EndKind.EXITED.value:
        return f"signal {end.signal}" if end.signal else f"exit code {end.code}"
    if end.kind == EndKind.DETACHED.value:
        return "detached"
    return printable(end.reason or end.kind, max_length=MAX_SESSION_TEXT)


def _ended(kind: EndKind, why: str) -> pb.SessionOutput:
    return pb.SessionOutput(end=pb.SessionEnd(kind=kind.value, reason=why))


def _refused(why: str) -> pb.SessionOutput:
    return _ended(EndKind.REFUSED, why)
