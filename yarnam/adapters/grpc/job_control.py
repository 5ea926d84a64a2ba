"""The JobControl service: what clients see of a job, and how they cancel or resize it."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import grpc

from yarnam.core.model.events import (
    MAX_SUSPENSION_S,
    CancelRequested,
    ContainersMarked,
    ResumeRequested,
    ScaleRequested,
    SuspendRequested,
)
from yarnam.errors import YarnamError
from yarnam.ports import Inbox
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc as pb_grpc

MAX_HOLD_MS = 60_000
"""Longest long poll granted; a client asks again."""


class JobControlService(pb_grpc.JobControlServicer):
    """Keeps the newest status and the events; a ``ports.StatusPublisher``. The AM publishes from
    its thread; calls are served on the server's event loop."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._events = EventLog()
        self._status = b"{}"
        self._version = 0
        self._inbox: Inbox | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed: asyncio.Event | None = None
        self.take_tokens: Callable[[Sequence[str]], None] | None = None
        """Uses other delegation tokens from now on; None: the job has none. Raises YarnamError."""

    def open(self, inbox: Inbox) -> None:
        """To be called on the event loop that serves."""
        self._inbox = inbox
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def publish(self, status_json: bytes) -> None:
        """Show this status from now on. Thread-safe; returns at once."""
        self._status = status_json
        self._version += 1
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def record(self, events_json: Sequence[bytes]) -> None:
        """Add to the events that clients can read. Thread-safe."""
        self._events.append(events_json)

    def status_json(self) -> bytes:
        """The newest status. Thread-safe."""
        return self._status

    def events_json(self, first: int, count: int) -> list[bytes]:
        """At most ``count`` events from number ``first`` on. Thread-safe."""
        return self._events.read(first, count)

    def event_count(self) -> int:
        return len(self._events)

    def close(self) -> None:
        self._events.close()

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = asyncio.Event()

    def _reply(self) -> pb.StatusReply:
        # The version first: a status published in between then comes again, which is harmless.
        version = self._version
        return pb.StatusReply(version=version, status_json=self._status)

    async def GetStatus(self, request: pb.StatusRequest, context: Any) -> pb.StatusReply:  # noqa: N802
        return self._reply()

    async def AwaitStatus(self, request: pb.StatusRequest, context: Any) -> pb.StatusReply:  # noqa: N802
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(request.hold_ms, MAX_HOLD_MS) / 1000.0
        while self._version == request.seen and self._changed is not None:
            left_s = deadline - loop.time()
            if left_s <= 0:
                break
            try:
                await asyncio.wait_for(self._changed.wait(), left_s)
            except asyncio.TimeoutError:
                break
        return self._reply()

    async def Cancel(self, request: pb.CancelRequest, context: Any) -> pb.CancelReply:  # noqa: N802
        if self._inbox is not None:
            self._inbox(CancelRequested(self._now_s(), request.by or "a client", request.reason))
        return pb.CancelReply()

    async def Scale(self, request: pb.ScaleRequest, context: Any) -> pb.ScaleReply:  # noqa: N802
        if self._inbox is not None:
            by = request.by or "a client"
            self._inbox(ScaleRequested(self._now_s(), by, request.tasks or None))
        return pb.ScaleReply()

    async def Suspend(self, request: pb.SuspendRequest, context: Any) -> pb.SuspendReply:  # noqa: N802
        limit_s = request.limit_s
        if not 0 < limit_s <= MAX_SUSPENSION_S:
            say = f"a suspension lasts up to {MAX_SUSPENSION_S:.0f} s, not {limit_s}"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, say)
        if self._inbox is not None:
            by = request.by or "a client"
            self._inbox(SuspendRequested(self._now_s(), by, limit_s, request.reason))
        return pb.SuspendReply()

    async def Resume(self, request: pb.ResumeRequest, context: Any) -> pb.ResumeReply:  # noqa: N802
        if self._inbox is not None:
            self._inbox(ResumeRequested(self._now_s(), request.by or "a client"))
        return pb.ResumeReply()

    async def Interrupt(  # noqa: N802
        self, request: pb.InterruptRequest, context: Any
    ) -> pb.InterruptReply:
        if self._inbox is not None:
            self._inbox(ContainersMarked(self._now_s(), (), request.by or "a client"))
        return pb.InterruptReply()

    async def ReplaceTokens(self, request: pb.Tokens, context: Any) -> pb.TokensReply:  # noqa: N802
        if self.take_tokens is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "the job has no delegation tokens")
        else:
            try:
                # Beside the loop: it writes a file.
                await asyncio.to_thread(self.take_tokens, tuple(request.tokens))
            except YarnamError as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.message)
        return pb.TokensReply()

    async def GetEvents(self, request: pb.EventsRequest, context: Any) -> pb.EventsReply:  # noqa: N802
        return pb.EventsReply(events_json=self._events.read(getattr(request, "from")))


MAX_REPLY_BYTES = 4 * 1024 * 1024
"""Of one read; far below ``yarnam.wire.tls.MAX_MESSAGE_BYTES``."""


class EventLog:
    """The job's events so far: an append-only list of byte strings in a local file, not in memory.
    A job may poll a full cluster for days; its events are small, but many. Thread-safe."""

    def __init__(self, max_reply_bytes: int = MAX_REPLY_BYTES) -> None:
        self._max_reply_bytes = max_reply_bytes
        self._file = tempfile.TemporaryFile(prefix="yarnam-events-")  # noqa: SIM115
        self._ends = array("Q")
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            return len(self._ends)

    def append(self, lines: Sequence[bytes]) -> None:
        with self._lock:
            end = self._ends[-1] if self._ends else 0
            self._file.seek(end)
            for line in lines:
                self._file.write(line)
                end += len(line)
                self._ends.append(end)

    def read(self, first: int, count: int | None = None) -> list[bytes]:
        """The lines from number ``first`` (from 0) on, at most ``count``, as many as fit into one
        reply; empty: there is none yet."""
        with self._lock:
            found: list[bytes] = []
            size = 0
            first = max(0, first)
            end = len(self._ends) if count is None else min(len(self._ends), first + count)
            for number in range(first, end):
                start = self._ends[number - 1] if number else 0
                size += self._ends[number] - start
                if found and size > self._max_reply_bytes:
                    break
                self._file.seek(start)
                found.append(self._file.read(self._ends[number] - start))
            return found

    def close(self) -> None:
        with self._lock:
            self._file.close()
