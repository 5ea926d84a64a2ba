"""The link between two nodes, as their agents measure it: each fetches random bytes from the other.

All of it runs over the agents' own server and the job's certificate: a caller without that is
refused by TLS.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable

import grpc

from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc
from yarnam.wire.tls import CHANNEL_OPTIONS, channel_credentials

CHUNK_BYTES = 256 * 1024
MAX_FETCH_BYTES = 1 << 30
"""Served to one call."""

POLL_S = 0.01


class LinkService(yarnam_pb2_grpc.NodeCheckServicer):
    """Serves the links of the others, in checks in which this agent has measured its own node."""

    def __init__(self) -> None:
        self._open = 0
        """The newest one."""

    def open(self, check: int) -> None:
        self._open = max(self._open, check)

    async def Fetch(  # noqa: N802 - gRPC's name
        self, request: pb.FetchRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.FetchChunk]:
        while self._open < request.check:
            await asyncio.sleep(POLL_S)  # until the caller's deadline
        data = os.urandom(CHUNK_BYTES)
        left = min(request.size, MAX_FETCH_BYTES)
        while left > 0:
            yield pb.FetchChunk(data=data[:left])
            left -= CHUNK_BYTES


class LinkClient:
    """Fetches from the agent at this address (host:port)."""

    def __init__(self, address: str, pem: bytes) -> None:
        self._channel = grpc.aio.secure_channel(
            address, channel_credentials(pem), options=CHANNEL_OPTIONS
        )
        self._stub = yarnam_pb2_grpc.NodeCheckStub(self._channel)  # type: ignore[no-untyped-call]

    async def fetch(self, check: int, size: int, take: Callable[[int], bool]) -> None:
        """``take`` gets the bytes of each piece, and says whether it wants more."""
        call = self._stub.Fetch(pb.FetchRequest(check=check, size=size))
        async for chunk in call:
            if not take(len(chunk.data)):
                call.cancel()
                return

    async def close(self) -> None:
        await self._channel.close(grace=None)
