"""The agent's life, against the real process over real gRPC."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.agent_world import small_job, world
from yarnam.wire.pb import yarnam_pb2 as pb

pytestmark = [pytest.mark.grpc, pytest.mark.asyncio]


async def test_parks_launches_reports_and_leaves(tmp_path: Path) -> None:
    job = small_job(["sh", "-c", 'echo "hello from $YARNAM_RANK of $YARNAM_WORLD_SIZE"'])
    async with world(tmp_path) as here:
        container = here.container(job).start()
        ready = await here.am.until(container.ask, pb.READY)
        assert not container.user_processes(), "nothing of the user's may run before the launch"
        assert ready.node == "127.0.0.1"
        assert ready.nm_http_address == "127.0.0.1:8042"
        assert [port.name for port in ready.ports] == ["coordinator"]
        await here.am.launch(job, [container.ask])
        await here.am.until(container.ask, pb.STARTED)
        exited = await here.am.until(container.ask, pb.EXITED)
        (process,) = exited.processes
        assert (process.kind, process.code, process.signal) == ("ok", 0, 0)
        assert list(process.last_lines) == ["hello from 0 of 1"]
        assert container.process is not None
        assert container.process.poll() is None, "it stays until it is told to leave"
        await here.am.leave(container.ask)
        assert await container.exit_code() == 0
        assert not container.all_processes()
        assert container.log() == b"hello from 0 of 1\n"
