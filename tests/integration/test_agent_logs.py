"""The agent's log service."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.integration.agent_world import World, small_job, world
from yarnam.agent.mailbox.log_service import CHUNK_BYTES
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc

pytestmark = [pytest.mark.grpc, pytest.mark.asyncio]


async def tail(here: World, address: str, **request: Any) -> tuple[bytes, list[Any]]:
    async with here.channel(address) as channel:
        stub = yarnam_pb2_grpc.AgentLogsStub(channel)
        chunks = [chunk async for chunk in stub.Tail(pb.TailRequest(**request), timeout=20)]
    return b"".join(chunk.data for chunk in chunks), chunks


async def test_followers_get_every_byte_also_those_after_the_end(tmp_path: Path) -> None:
    program = "for i in 1 2 3 4 5; do echo line $i; sleep 0.2; done; seq 1 200000"
    job = small_job(["sh", "-c", program])
    async with world(tmp_path) as here:
        container = here.container(job).start()
        ready = await here.am.until(container.ask, pb.READY)
        early = asyncio.create_task(tail(here, ready.log_address, follow=True))
        await asyncio.sleep(0.3)
        await here.am.launch(job, [container.ask])
        await here.am.until(container.ask, pb.STARTED)
        late = asyncio.create_task(tail(here, ready.log_address, follow=True, offset=7))
        await here.am.until(container.ask, pb.EXITED)
        await here.am.leave(container.ask)
        whole, chunks = await early
        assert whole == container.log()
        assert (await late)[0] == container.log()[7:]
        assert max(len(chunk.data) for chunk in chunks) <= CHUNK_BYTES
        offset = 0
        for chunk in chunks:
            assert chunk.offset == offset
            offset += len(chunk.data)
        assert await container.exit_code() == 0


async def test_a_new_line_is_seen_at_once(tmp_path: Path) -> None:
    job = small_job(["sh", "-c", "sleep 1; date +%s.%N; sleep 600"])
    async with world(tmp_path) as here:
        container = here.container(job).start()
        ready = await here.am.until(container.ask, pb.READY)
        await here.am.launch(job, [container.ask])
        async with here.channel(ready.log_address) as channel:
            call = yarnam_pb2_grpc.AgentLogsStub(channel).Tail(pb.TailRequest(follow=True))
            async for chunk in call:
                assert time.time() - float(chunk.data) < 1.0
                break


async def test_starting_points(tmp_path: Path) -> None:
    job = small_job(["sh", "-c", "seq 1 100000"])
    async with world(tmp_path) as here:
        container = here.container(job).start()
        ready = await here.am.until(container.ask, pb.READY)
        address = ready.log_address
        assert await tail(here, address) == (b"", [])
        await here.am.launch(job, [container.ask])
        await here.am.until(container.ask, pb.EXITED)
        assert (await tail(here, address, last_lines=2))[0] == b"99999\n100000\n"
        assert (await tail(here, address, last_lines=10**9))[0] == container.log()
        assert (await tail(here, address, offset=-7))[0] == b"100000\n"
        assert (await tail(here, address, offset=10**9))[0] == b""
        assert b"ready: GPUs" in (await tail(here, address, agent_log=True))[0]
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await tail(here, address, local_rank=5)
        assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
