"""Agents measure their nodes and the links between them, over the job's own certificate."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest

from tests.integration.agent_world import World, small_job, world
from yarnam.wire.credentials import new_credentials
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc

pytestmark = [pytest.mark.grpc, pytest.mark.asyncio]

LIMIT_S = 20.0
"""Twice that of a quick check: the machine of the tests has much else to do."""


async def addresses(here: World, count: int) -> list[tuple[str, str]]:
    """Ask and log address of agents that are parked."""
    found = []
    for _ in range(count):
        here.container(small_job(["true"])).start()
    for container in here.containers:
        ready = await here.am.until(container.ask, pb.READY)
        found.append((container.ask, ready.log_address))
    return found


def order(peers: list[pb.CheckPeer], check: int = 1) -> pb.Check:
    return pb.Check(attempt=1, check=check, limit_s=LIMIT_S, peers=peers)


async def test_each_measures_itself_and_what_it_receives_from_the_others(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        agents = await addresses(here, 3)
        peers = [pb.CheckPeer(node=f"n{n}", address=each) for n, (_, each) in enumerate(agents)]
        for n, (ask, _) in enumerate(agents):
            mine = [peers[(n + 1) % 3], peers[(n + 2) % 3]]
            await here.am.mailbox.order(ask, check=order(mine))
        for n, (ask, _) in enumerate(agents):
            report = await here.am.until(ask, pb.CHECKED, 2 * LIMIT_S)
            found = report.check
            assert (report.attempt, found.check) == (1, 1)
            assert min(found.cpu_mib_s, found.memory_mib_s, found.disk_mib_s) > 0
            assert [link.node for link in found.links] == [f"n{(n + 1) % 3}", f"n{(n + 2) % 3}"]
            assert all(link.mib_s > 0 and link.rtt_ms > 0 for link in found.links), found
            assert not found.trouble
        assert not list(here.containers[0].directory.glob(".yarnam-node-check*"))
        # The processes start as usual after it.
        ask = agents[0][0]
        await here.am.launch(here.containers[0].job, [ask])
        await here.am.until(ask, pb.EXITED)


async def test_a_partner_that_is_not_there_is_a_link_that_failed(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        ((ask, _),) = await addresses(here, 1)
        gone = pb.CheckPeer(node="gone", address="127.0.0.1:9")
        check = order([gone])
        check.limit_s = 6.0
        await here.am.mailbox.order(ask, check=check)
        found = (await here.am.until(ask, pb.CHECKED, 2 * LIMIT_S)).check
        assert (found.links[0].node, found.links[0].mib_s) == ("gone", 0.0)
        assert found.links[0].failure


async def test_another_jobs_certificate_gets_nothing_and_a_stranger_no_link(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        ((ask, address),) = await addresses(here, 1)
        await here.am.mailbox.order(ask, check=order([]))
        await here.am.until(ask, pb.CHECKED, 2 * LIMIT_S)

        async def fetch(pem: bytes) -> int:
            channel = here.channel(address, pem)
            stub = yarnam_pb2_grpc.NodeCheckStub(channel)
            try:
                call = stub.Fetch(pb.FetchRequest(check=1, size=300_000), timeout=LIMIT_S)
                return sum([len(chunk.data) async for chunk in call])
            finally:
                await channel.close()

        assert await fetch(here.am.pem) == 300_000
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await fetch(new_credentials())
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        await asyncio.sleep(0)
