"""The JobControl service: what clients see of a job, and how they cancel or resize it."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import tempfile
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
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

log = logging.getLogger("yarnam.am")

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
        """Uses other delegation tokens from now on; ``None`` means the job has none. Raises
        YarnamError."""

    def open(self, inbox: Inbox) -> None:
        """To be called on the event loop that serves."""
        self._inbox = inbox
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def publish(self, status_json: bytes) -> None:
        """Show this status from now on. Thread-safe; returns immediately."""
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

    def events_json(self, first: int, count: int) -> tuple[int, list[bytes]]:
        """The number of the first event returned, and at most ``count`` events from ``first`` or
        the oldest kept one on. Thread-safe."""
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
        wanted = getattr(request, "from")
        first, lines = self._events.read(wanted)
        if first > wanted and wanted < len(self._events):
            # The client reads them there.
            say = f"events before number {first} are in the journal alone"
            await context.abort(grpc.StatusCode.UNAVAILABLE, say)
        return pb.EventsReply(events_json=lines)


MAX_REPLY_BYTES = 4 * 1024 * 1024
"""Bytes of one read; far below ``yarnam.wire.tls.MAX_MESSAGE_BYTES``."""


MAX_BYTES = 64 << 20
"""Bytes of the newest events, which are kept for readers. A job may poll a full cluster for
days."""
MAX_BYTES_IN_MEMORY = 2 << 20
"""The same where the node's disk takes no more."""
_SEGMENTS = 4


class EventLog:
    """The newest of the job's events, for readers: byte strings in local files, which go with the
    container. All events are in the journal on HDFS. Thread-safe, and no call raises: the job does
    not depend on its readers, so where the disk is full fewer events are kept, in memory."""

    def __init__(
        self,
        max_reply_bytes: int = MAX_REPLY_BYTES,
        max_bytes: int = MAX_BYTES,
        directory: str | None = None,
    ) -> None:
        self._max_reply_bytes = max_reply_bytes
        self._max_bytes = max_bytes
        self._directory = directory
        self._segments: deque[_Segment] = deque()
        self._count = 0
        self._has_disk = True
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """All that were ever added."""
        with self._lock:
            return self._count

    def append(self, lines: Sequence[bytes]) -> None:
        with self._lock:
            for line in lines:
                try:
                    self._segment_for(line).append(line)
                except OSError as error:
                    log.warning("few events are kept for readers from now on: %s", error)
                    self._has_disk = False
                    self._segment_for(line).append(line)
                self._count += 1

    def read(self, first: int, count: int | None = None) -> tuple[int, list[bytes]]:
        """The number of the first event returned and the events: from number ``first`` (from 0) on,
        or from the oldest kept one; at most ``count``, and as many as fit into one reply."""
        with self._lock:
            oldest = self._segments[0].first if self._segments else self._count
            first = max(first, oldest)
            end = self._count if count is None else min(self._count, first + count)
            found: list[bytes] = []
            size = 0
            try:
                for line in self._lines(first, end):
                    size += len(line)
                    if found and size > self._max_reply_bytes:
                        break
                    found.append(line)
            except OSError as error:
                log.warning("events cannot be read: %s", error)
            return first, found

    def close(self) -> None:
        with self._lock:
            for segment in self._segments:
                segment.close()
            self._segments.clear()
            # What is added afterwards has no readers.
            self._has_disk = False

    def _segment_for(self, line: bytes) -> _Segment:
        """The newest segment, or a new one where that is full. Raises OSError."""
        max_bytes = self._max_bytes if self._has_disk else MAX_BYTES_IN_MEMORY
        newest = self._segments[-1] if self._segments else None
        if (
            newest is None
            or newest.is_on_disk != self._has_disk
            or newest.size + len(line) > max_bytes // _SEGMENTS
        ):
            newest = _Segment(self._count, self._directory, is_on_disk=self._has_disk)
            self._segments.append(newest)
            while len(self._segments) > _SEGMENTS:
                self._segments.popleft().close()
        return newest

    def _lines(self, first: int, end: int) -> Iterator[bytes]:
        for segment in self._segments:
            for number in range(max(first, segment.first), min(end, segment.end)):
                yield segment.read(number)


class _Segment:
    """Events in a row, in a file without a name or in memory."""

    def __init__(self, first: int, directory: str | None, *, is_on_disk: bool) -> None:
        self.first = first
        self._ends = array("Q")
        self._memory = bytearray()
        self._file = (
            tempfile.TemporaryFile(buffering=0, dir=directory)  # noqa: SIM115 - closed by close()
            if is_on_disk
            else None
        )

    @property
    def is_on_disk(self) -> bool:
        return self._file is not None

    @property
    def size(self) -> int:
        return self._ends[-1] if self._ends else 0

    @property
    def end(self) -> int:
        """The number of the next event."""
        return self.first + len(self._ends)

    def append(self, line: bytes) -> None:
        """All of it or nothing. Raises OSError."""
        if self._file is None:
            self._memory += line
        elif os.pwrite(self._file.fileno(), line, self.size) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._ends.append(self.size + len(line))

    def read(self, number: int) -> bytes:
        """Raises OSError."""
        index = number - self.first
        start, end = self._ends[index - 1] if index else 0, self._ends[index]
        if self._file is None:
            return bytes(self._memory[start:end])
        line = os.pread(self._file.fileno(), end - start, start)
        if len(line) != end - start:
            raise OSError(errno.EIO, f"event {number} is cut")
        return line

    def close(self) -> None:
        self._ends = array("Q")
        self._memory.clear()
        if self._file is not None:
            self._file.close()
