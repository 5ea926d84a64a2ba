"""GPU leases among real agents on one node."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
import time
from pathlib import Path

import pytest

from tests.integration.agent_world import small_job, world
from yarnam.wire.pb import yarnam_pb2 as pb

pytestmark = [pytest.mark.grpc, pytest.mark.asyncio]

SHOW = ["sh", "-c", "echo gpus=$CUDA_VISIBLE_DEVICES order=$CUDA_DEVICE_ORDER; sleep 600"]


async def test_agents_on_one_node_never_share_a_device(tmp_path: Path) -> None:
    job = small_job(SHOW, tasks=4, gpus=2, processes=2)
    env = {"YARNAM_NODE_GPUS": "sim:0,1,2,3,4,5,6,7"}
    async with world(tmp_path) as here:
        containers = [here.container(job, env=env).start() for _ in range(4)]
        asks = [container.ask for container in containers]
        reports = [await here.am.until(ask, pb.READY) for ask in asks]
        leased = [gpu for report in reports for gpu in report.gpu_ids]
        assert sorted(leased) == [str(number) for number in range(8)]
        await here.am.launch(job, asks)
        for container, report in zip(containers, reports, strict=True):
            await here.am.until(container.ask, pb.STARTED)
            index = containers.index(container)
            for local, gpu in enumerate(report.gpu_ids):
                end = time.monotonic() + 5
                while not container.log(local, index) and time.monotonic() < end:
                    await asyncio.sleep(0.02)
                shown = container.log(local, index).decode().strip()
                assert shown == f"gpus={gpu} order=PCI_BUS_ID"


async def test_no_device_left_is_said_with_the_holders_name(tmp_path: Path) -> None:
    job = small_job(SHOW, tasks=2, gpus=2)
    env = {"YARNAM_NODE_GPUS": "sim:0,1,2"}
    async with world(tmp_path) as here:
        first = here.container(job, env=env).start()
        await here.am.until(first.ask, pb.READY)
        second = here.container(job, env=env).start()
        unable = await here.am.until(second.ask, pb.UNABLE)
        assert not unable.user_fault
        assert "2 of the node's 3 GPUs could not be leased within 10 s" in unable.message
        assert first.process is not None
        user = pwd.getpwuid(os.getuid()).pw_name
        said = f"by its own word job 'test-job' of 'tester' (application_{os.getpid()}_0001)"
        holder = f"process {first.process.pid} of user {user}, {said}"
        assert f"holders: GPU 0: {holder}; GPU 1: {holder}" in unable.message
        assert unable.node_busy
        await here.am.leave(second.ask)
        assert await second.exit_code() == 0


@pytest.mark.parametrize("is_launched", [False, True])
async def test_a_killed_agents_lease_is_free_when_its_processes_are_gone(
    tmp_path: Path, is_launched: bool
) -> None:
    job = small_job(["sleep", "600"], tasks=2, gpus=1)
    env = {"YARNAM_NODE_GPUS": "sim:0"}
    async with world(tmp_path) as here:
        first = here.container(job, env=env).start()
        await here.am.until(first.ask, pb.READY)
        if is_launched:
            await here.am.launch(job, [first.ask])
            await here.am.until(first.ask, pb.STARTED)
        second = here.container(job, env=env).start()
        await second.until_logged("for 1 GPUs that others hold")
        assert second.ask not in here.am.mailbox.reports, "it waits for the device"
        assert first.process is not None
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        ready = await here.am.until(second.ask, pb.READY, 8.0)
        assert list(ready.gpu_ids) == ["0"]
        assert not first.all_processes()


async def test_a_device_is_not_given_on_while_processes_may_still_use_it(tmp_path: Path) -> None:
    job = small_job(["sleep", "600"], tasks=2, gpus=1)
    env = {"YARNAM_NODE_GPUS": "sim:0"}
    async with world(tmp_path) as here:
        first = here.container(job, env=env).start()
        await here.am.until(first.ask, pb.READY)
        await here.am.launch(job, [first.ask])
        await here.am.until(first.ask, pb.STARTED)
        assert first.process is not None
        (keeper,) = first.all_processes() - first.user_processes() - {first.process.pid}
        os.kill(keeper, signal.SIGSTOP)
        try:
            first.process.kill()
            first.process.wait()
            second = here.container(job, env=env).start()
            await second.until_logged("for 1 GPUs that others hold")
            assert first.user_processes(), "its process still runs"
            assert second.ask not in here.am.mailbox.reports, "so nobody else has the device"
        finally:
            os.kill(keeper, signal.SIGCONT)
        await here.am.until(second.ask, pb.READY, 8.0)
        assert not first.user_processes()


async def test_more_gpus_than_the_node_has(tmp_path: Path) -> None:
    job = small_job(SHOW, gpus=4)
    async with world(tmp_path) as here:
        container = here.container(job, env={"YARNAM_NODE_GPUS": "sim:0,1"}).start()
        unable = await here.am.until(container.ask, pb.UNABLE)
        assert "needs 4 GPUs, the node shows 2" in unable.message


async def test_task_without_gpus_sees_none(tmp_path: Path) -> None:
    job = small_job(["sh", "-c", 'echo "[$CUDA_VISIBLE_DEVICES]"'])
    async with world(tmp_path) as here:
        container = here.container(job, env={"YARNAM_NODE_GPUS": "sim:0,1"}).start()
        ready = await here.am.until(container.ask, pb.READY)
        assert list(ready.gpu_ids) == []
        await here.am.launch(job, [container.ask])
        await here.am.until(container.ask, pb.EXITED)
        assert container.log() == b"[]\n"


async def test_node_managers_on_one_machine_have_their_own_simulated_devices(
    tmp_path: Path,
) -> None:
    job = small_job(SHOW, tasks=2, gpus=1)
    env = {"YARNAM_NODE_GPUS": "sim:0"}
    async with world(tmp_path) as here:
        for node in ("127.0.0.1", "127.0.0.2"):
            container = here.container(job, env=env, node=node).start()
            ready = await here.am.until(container.ask, pb.READY)
            assert list(ready.gpu_ids) == ["0"]
            assert ready.address == node
