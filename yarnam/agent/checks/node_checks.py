"""Runs the check of a node before the barrier. First each agent measures its own node; only then
does it serve the others, so a link is measured between two nodes that have nothing else to do."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, replace
from pathlib import Path

import grpc

from yarnam._light_imports import on_first_use
from yarnam.agent.machine.agent_directives import Check, CheckPeer
from yarnam.agent.mailbox.link_service import LinkClient, LinkService
from yarnam.core.model.outcomes import LinkMeasure, NodeMeasures
from yarnam.wire.tls import rpc_failure

with on_first_use():  # most jobs have no nodes checked
    from yarnam.agent.checks import gpu_measures, node_measures

_LOG = logging.getLogger("yarnam.agent")

PINGS = 4
"""Round trips; the first one connects."""

QUICK_S, FULL_S = 0.6, 3.0
"""For each of CPU, memory and disk; a link gets as long."""

QUICK_LINK_MIB, FULL_LINK_MIB = 64, 1024
"""At most."""

OWN_SHARE = 0.35
"""The part of the limit after which links are measured, whatever else is still being measured; each
round has a fifth of it then, and a tenth is left for the answer."""
ROUND_SHARE = 0.25


class NodeChecks:
    """The checks of one agent; ``pem``: the job's credentials."""

    def __init__(self, pem: bytes) -> None:
        self._pem = pem
        self.service = LinkService()

    async def run(self, order: Check, directory: Path, gpus: tuple[str, ...]) -> NodeMeasures:
        """Measure the node and its links, within the order's limit."""
        began_s = time.monotonic()
        own = asyncio.create_task(_measure_node(order.is_full, directory, gpus))
        try:
            await asyncio.wait_for(asyncio.shield(own), order.limit_s * OWN_SHARE)
        except asyncio.TimeoutError:
            _LOG.warning("check %d: this node is slow to measure itself", order.check)
        self.service.open(order.check)
        links = []
        for number, peer in enumerate(order.peers, 1):
            share = OWN_SHARE + number * ROUND_SHARE
            limit_s = max(0.5, began_s + order.limit_s * share - time.monotonic())
            links.append(await self._link(order, peer, limit_s))
        found = replace(await own, links=tuple(links))
        _LOG.info("check %d took %.1f s", order.check, time.monotonic() - began_s)
        return found

    async def _link(self, order: Check, peer: CheckPeer, limit_s: float) -> LinkMeasure:
        client, meter, failure = LinkClient(peer.address, self._pem), _LinkMeter(), ""
        try:
            await asyncio.wait_for(meter.measure(client, order), limit_s)
        except grpc.aio.AioRpcError as error:
            failure = rpc_failure(error)
        except asyncio.TimeoutError:
            if not meter.mib_s:
                failure = f"nothing came within {limit_s:.1f} s"
        finally:
            await client.close()
        return LinkMeasure(peer.node, meter.mib_s, meter.rtt_ms, failure)


@dataclass
class _LinkMeter:
    """One link. The rate is set as bytes come, so that a limit leaves what was seen by then."""

    mib_s: float = 0.0
    rtt_ms: float = 0.0

    async def measure(self, client: LinkClient, order: Check) -> None:
        for number in range(PINGS):
            await self._ping(client, order.check, is_first=number == 0)
        size = (FULL_LINK_MIB if order.is_full else QUICK_LINK_MIB) * node_measures.MIB
        limit_s = FULL_S if order.is_full else QUICK_S
        began_s, received = time.perf_counter(), 0

        def take(count: int) -> bool:
            nonlocal received
            received += count
            took_s = time.perf_counter() - began_s
            self.mib_s = received / node_measures.MIB / max(took_s, 1e-9)
            return took_s < limit_s

        await client.fetch(order.check, size, take)

    async def _ping(self, client: LinkClient, check: int, *, is_first: bool) -> None:
        sent_s = time.perf_counter()

        def take(_: int) -> bool:
            trip_ms = (time.perf_counter() - sent_s) * 1000
            if not is_first:
                self.rtt_ms = min(self.rtt_ms, trip_ms) if self.rtt_ms else trip_ms
            return True

        await client.fetch(check, 1, take)


async def _measure_node(is_full: bool, directory: Path, gpus: tuple[str, ...]) -> NodeMeasures:
    limit_s = FULL_S if is_full else QUICK_S
    cpu_mib_s = await asyncio.to_thread(node_measures.cpu_mib_s, limit_s)
    memory_mib_s = await asyncio.to_thread(node_measures.memory_mib_s, limit_s)
    disk_mib_s = 0.0
    trouble: tuple[str, ...] = ()
    try:
        disk_mib_s = await asyncio.to_thread(node_measures.disk_mib_s, directory, limit_s)
    except OSError as error:
        trouble = (f"cannot write to the disk of the container: {error}",)
    found = gpu_measures.NO_GPUS
    if is_full and gpus:
        found = await gpu_measures.measure_gpus(gpus, directory)
    return NodeMeasures(
        cpu_mib_s=cpu_mib_s,
        memory_mib_s=memory_mib_s,
        disk_mib_s=disk_mib_s,
        gpu_tflops=found.tflops,
        nccl_gib_s=found.nccl_gib_s,
        trouble=(*trouble, *found.trouble),
        not_run=found.not_run,
    )
