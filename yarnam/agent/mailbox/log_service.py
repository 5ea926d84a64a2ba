"""Serves the logs of the task while the agent lives: read from the files, never from memory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc

from yarnam.agent.launch.log_files import start_of_last_lines
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc

CHUNK_BYTES = 256 * 1024
"""At most this much is in memory per reader; gRPC's flow control does the rest."""

POLL_S = 0.2
"""How late a follower sees a new line."""


@dataclass
class LogFile:
    """One log that can be read. ``ended``: nothing more will be written."""

    path: Path
    ended: bool = False


class LogService(yarnam_pb2_grpc.AgentLogsServicer):
    """``files``: processes' logs by local rank; the task fills it in at launch."""

    def __init__(self, agent_log: Path, processes: int) -> None:
        self.files: dict[int, LogFile] = {}
        self._agent_log = LogFile(agent_log)
        self._processes = processes
        self._readers = 0
        self._is_closing = False

    async def Tail(  # noqa: N802 - gRPC's name
        self, request: pb.TailRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.LogChunk]:
        if not request.agent_log and request.local_rank >= self._processes:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"this task has {self._processes} processes, there is no {request.local_rank}",
            )
        # The reader knows that it has been heard, also where there is nothing to read for long.
        await context.send_initial_metadata(())
        self._readers += 1
        try:
            async for chunk in self._tail(request):
                yield chunk
        finally:
            self._readers -= 1

    async def close(self, limit_s: float) -> None:
        """Let readers get the rest, for at most ``limit_s`` seconds."""
        self._is_closing = True
        loop = asyncio.get_running_loop()
        end = loop.time() + limit_s
        while self._readers and loop.time() < end:
            await asyncio.sleep(0.02)

    def _is_ended(self, log: LogFile) -> bool:
        return log.ended or self._is_closing

    async def _tail(self, request: pb.TailRequest) -> AsyncIterator[pb.LogChunk]:
        log = await self._wait_for(request)
        if log is None:
            return
        offset = _first_offset(log.path, request)
        while True:
            # Asked before reading: what was written before the end is then still read.
            ended = self._is_ended(log)
            data = _read(log.path, offset)
            if data:
                yield pb.LogChunk(data=data, offset=offset)
                offset += len(data)
            elif ended or not request.follow:
                return
            else:
                await asyncio.sleep(POLL_S)

    async def _wait_for(self, request: pb.TailRequest) -> LogFile | None:
        """The log; a follower waits for its process to start."""
        while True:
            log = self._agent_log if request.agent_log else self.files.get(request.local_rank)
            if log is not None and log.path.exists():
                return log
            if not request.follow or self._is_closing or (log is not None and log.ended):
                return None
            await asyncio.sleep(POLL_S)


def _first_offset(path: Path, request: pb.TailRequest) -> int:
    try:
        if request.last_lines > 0:
            return start_of_last_lines(path, int(request.last_lines))
        if request.offset < 0:
            return max(0, path.stat().st_size + int(request.offset))
    except OSError:
        return 0
    return int(request.offset)


def _read(path: Path, offset: int) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(fd, CHUNK_BYTES, offset)
    except OSError:
        return b""
    finally:
        os.close(fd)
