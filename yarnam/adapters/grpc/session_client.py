"""The client's end of a session in a task, over gRPC."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import grpc

from yarnam.core.model.session_parts import (
    ALIVE_S,
    IN_FLIGHT_BYTES,
    MAX_PIECE_BYTES,
    SILENCE_S,
    EndKind,
    EndOfData,
    SessionData,
    SessionEnd,
    SessionOpened,
    SessionPart,
    SessionRequest,
    WindowSize,
)
from yarnam.errors import NoPermission, WireMismatch
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.protocol import PROTOCOL
from yarnam.wire.tls import rpc_failure

_REFUSALS = {
    grpc.StatusCode.UNIMPLEMENTED: "the job runs a version of yarnam without sessions",
    grpc.StatusCode.INVALID_ARGUMENT: "",
    grpc.StatusCode.NOT_FOUND: "",
}


def request_message(request: SessionRequest) -> pb.SessionInput:
    message = pb.SessionRequest(
        protocol=PROTOCOL,
        kind=request.kind.value,
        by=request.by,
        ask=request.ask,
        local_rank=request.local_rank,
        command=request.command,
        terminal_type=request.terminal_type,
        detached=request.is_detached,
        port=request.port,
        forward=request.forward,
        ports=request.ports,
        path=request.path,
        overwrite=request.overwrites,
    )
    if request.window is not None:
        message.window.CopyFrom(_window(request.window))
    return pb.SessionInput(request=message)


def _window(window: WindowSize) -> pb.WindowSize:
    return pb.WindowSize(rows=window.rows, columns=window.columns)


class _Outbox:
    """What waits to be sent. Signs of life, signals and window sizes overtake data."""

    def __init__(self) -> None:
        self._urgent: deque[pb.SessionInput] = deque()
        self._data: deque[pb.SessionInput] = deque()
        self._bytes = 0
        self._is_closed = False
        self._changed = threading.Condition()

    def put(self, message: pb.SessionInput) -> None:
        with self._changed:
            self._urgent.append(message)
            self._changed.notify_all()

    def put_data(self, message: pb.SessionInput, size: int) -> bool:
        with self._changed:
            while self._bytes and self._bytes + size > IN_FLIGHT_BYTES and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return False
            self._data.append(message)
            self._bytes += size
            self._changed.notify_all()
            return True

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def __iter__(self) -> Iterator[pb.SessionInput]:
        while True:
            with self._changed:
                while not (self._urgent or self._data or self._is_closed):
                    self._changed.wait()
                if self._is_closed:
                    return
                if self._urgent:
                    message = self._urgent.popleft()
                else:
                    message = self._data.popleft()
                    self._bytes -= len(message.data)
                    self._changed.notify_all()
            yield message


class GrpcTaskSession:
    """A ``ports.TaskSession``. ``open_call``: the method of the stub."""

    def __init__(self, open_call: Any, request: SessionRequest, address: str) -> None:
        self._address = address
        self._outbox = _Outbox()
        self._outbox.put(request_message(request))
        self._call = open_call(iter(self._outbox))
        self._over = threading.Event()
        self._heard_s = time.monotonic()
        self._is_reading = False
        self._silent_s = 0.0
        threading.Thread(target=self._keep_alive, name="session-alive", daemon=True).start()

    def __iter__(self) -> Iterator[SessionPart]:
        part: SessionPart | None = None
        while not isinstance(part, SessionEnd):
            part = self._next()
            if part is not None:
                yield part

    def _next(self) -> SessionPart | None:
        self._heard_s, self._is_reading = time.monotonic(), True
        try:
            message = next(self._call, None)
        except grpc.RpcError as error:
            self.close()
            return self._lost(error)
        finally:
            self._is_reading = False
        part = _part(message) if message is not None else SessionEnd(EndKind.CUT)
        if isinstance(part, SessionEnd):
            self.close()
        return part

    def _lost(self, error: Any) -> SessionEnd:
        code = error.code()
        if self._silent_s:
            why = f"no sign of life of the task's agent for {self._silent_s:.0f} s"
            return SessionEnd(EndKind.CUT, reason=why)
        failure = rpc_failure(error)
        if code is grpc.StatusCode.FAILED_PRECONDITION:
            raise WireMismatch(f"{self._address}: {failure}") from error
        if code in {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}:
            raise NoPermission(f"{self._address} refused the session") from error
        if code in _REFUSALS:
            return SessionEnd(EndKind.REFUSED, reason=_REFUSALS[code] or failure)
        where = f"the job's ApplicationMaster at {self._address}"
        return SessionEnd(EndKind.CUT, reason=f"the connection to {where} was lost: {failure}")

    def _keep_alive(self) -> None:
        while not self._over.wait(ALIVE_S):
            self._outbox.put(pb.SessionInput(alive=True))
            silent_s = time.monotonic() - self._heard_s
            if self._is_reading and silent_s >= SILENCE_S:
                self._silent_s = silent_s
                self._call.cancel()
                return

    def send(self, data: bytes) -> bool:
        for start in range(0, len(data), MAX_PIECE_BYTES):
            piece = data[start : start + MAX_PIECE_BYTES]
            if not self._outbox.put_data(pb.SessionInput(data=piece), len(piece)):
                return False
        return True

    def end_data(self) -> None:
        self._outbox.put_data(pb.SessionInput(end_of_data=True), 0)

    def resize(self, window: WindowSize) -> None:
        self._outbox.put(pb.SessionInput(window=_window(window)))

    def send_signal(self, number: int) -> None:
        self._outbox.put(pb.SessionInput(signal=number))

    def close(self) -> None:
        self._over.set()
        self._outbox.close()
        self._call.cancel()


def _part(message: pb.SessionOutput) -> SessionPart | None:
    """``None`` for a sign of life, and for what a later version may add."""
    kind = message.WhichOneof("part")
    if kind == "opened":
        opened = message.opened
        return SessionOpened(opened.session, opened.pid, opened.log)
    if kind == "data":
        return SessionData(message.data)
    if kind == "error_data":
        return SessionData(message.error_data, is_error=True)
    if kind == "end_of_data":
        return EndOfData()
    if kind == "end":
        return _end(message.end)
    return None


def _end(end: pb.SessionEnd) -> SessionEnd:
    try:
        kind = EndKind(end.kind)
    except ValueError:
        kind = EndKind.CUT
    return SessionEnd(kind, end.code, end.signal, end.reason)
