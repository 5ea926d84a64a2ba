"""Runs the check of a node before the barrier, and serves the links of the others.

All of it runs over the agents' own server and the job's certificate: a caller without that is
refused by TLS. First each agent measures its own node; only then does it serve, so a link is
measured between two nodes that have nothing else to do.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc

from yarnam.agent.checks.gpu_measures import measure_gpus
from yarnam.agent.checks.node_measures import MIB, cpu_mib_s, disk_mib_s, memory_mib_s
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc
from yarnam.wire.tls import CHANNEL_OPTIONS, channel_credentials

_LOG = logging.getLogger("yarnam.agent")

CHUNK_BYTES = 256 * 1024
MAX_FETCH_BYTES = 1 << 30
"""Served to one call."""

PINGS = 4
"""Round trips; the first one connects."""

QUICK_S, FULL_S = 0.6, 3.0
"""For each of CPU, memory and disk; a link gets as long."""

QUICK_LINK_MIB, FULL_LINK_MIB = 64, 1024
"""At most."""

OWN_SHARE = 0.35
"""Of the limit, after which links are measured whatever else is still being measured; each round
has a fifth of it then, and a tenth is left for the answer."""
ROUND_SHARE = 0.25

POLL_S = 0.01


class NodeChecks(yarnam_pb2_grpc.NodeCheckServicer):
    """The checks of one agent; ``pem``: the job's credentials."""

    def __init__(self, pem: bytes) -> None:
        self._pem = pem
        self._open = 0
        """The newest check in which this agent has measured its own node."""

    # ---- for the others --------------------------------------------------------------------

    async def Fetch(  # noqa: N802 - gRPC's name
        self, request: Any, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[Any]:
        while self._open < request.check:
            await asyncio.sleep(POLL_S)  # until the caller's deadline
        data = os.urandom(CHUNK_BYTES)
        left = min(request.size, MAX_FETCH_BYTES)
        while left > 0:
            yield pb.FetchChunk(data=data[:left])
            left -= CHUNK_BYTES

    # ---- of this node ------------------------------------------------------------------------

    async def run(self, order: Any, directory: Path, gpus: tuple[str, ...]) -> Any:
        """The ``pb.CheckReport`` of this order, within its limit."""
        began_s = time.monotonic()
        report = pb.CheckReport(check=order.check)
        own = asyncio.create_task(_measure_node(report, order.full, directory, gpus))
        try:
            await asyncio.wait_for(asyncio.shield(own), order.limit_s * OWN_SHARE)
        except asyncio.TimeoutError:
            _LOG.warning("check %d: this node is slow to measure itself", order.check)
        self._open = max(self._open, order.check)
        for number, peer in enumerate(order.peers, 1):
            share = OWN_SHARE + number * ROUND_SHARE
            limit_s = max(0.5, began_s + order.limit_s * share - time.monotonic())
            report.links.append(await self._link(order, peer, limit_s))
        await own
        _LOG.info("check %d took %.1f s", order.check, time.monotonic() - began_s)
        return report

    async def _link(self, order: Any, peer: Any, limit_s: float) -> Any:
        link = pb.LinkReport(node=peer.node)
        channel = grpc.aio.secure_channel(
            peer.address, channel_credentials(self._pem), options=CHANNEL_OPTIONS
        )
        try:
            await asyncio.wait_for(_measure_link(channel, order, link), limit_s)
        except grpc.aio.AioRpcError as error:
            link.failure = f"{error.code().name}: {error.details()}"
        except asyncio.TimeoutError:
            if not link.mib_s:
                link.failure = f"nothing came within {limit_s:.1f} s"
        finally:
            await channel.close(grace=None)
        return link


async def _measure_link(channel: Any, order: Any, link: Any) -> None:
    """Fills in ``link``; the rate as it goes, so that a limit leaves what was seen by then."""
    stub = yarnam_pb2_grpc.NodeCheckStub(channel)  # type: ignore[no-untyped-call]
    for number in range(PINGS):
        sent_s = time.perf_counter()
        async for _ in stub.Fetch(pb.FetchRequest(check=order.check, size=1)):
            trip_ms = (time.perf_counter() - sent_s) * 1000
            if number:
                link.rtt_ms = min(link.rtt_ms, trip_ms) if link.rtt_ms else trip_ms
    size = (FULL_LINK_MIB if order.full else QUICK_LINK_MIB) * MIB
    limit_s = FULL_S if order.full else QUICK_S
    began_s, received = time.perf_counter(), 0
    call = stub.Fetch(pb.FetchRequest(check=order.check, size=size))
    async for chunk in call:
        received += len(chunk.data)
        took_s = time.perf_counter() - began_s
        link.mib_s = received / MIB / max(took_s, 1e-9)
        if took_s >= limit_s:
            call.cancel()
            return


async def _measure_node(report: Any, is_full: bool, directory: Path, gpus: tuple[str, ...]) -> None:
    limit_s = FULL_S if is_full else QUICK_S
    report.cpu_mib_s = await asyncio.to_thread(cpu_mib_s, limit_s)
    report.memory_mib_s = await asyncio.to_thread(memory_mib_s, limit_s)
    try:
        report.disk_mib_s = await asyncio.to_thread(disk_mib_s, directory, limit_s)
    except OSError as error:
        report.trouble.append(f"cannot write to the disk of the container: {error}")
    if is_full and gpus:
        await measure_gpus(report, gpus, directory)
