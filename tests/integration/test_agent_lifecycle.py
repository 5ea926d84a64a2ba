"""The agent's life, against the real process over real gRPC."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from itertools import pairwise
from pathlib import Path

import grpc
import psutil
import pytest

from tests.integration.agent_world import Container, World, small_am, small_job, world
from yarnam.agent.machine.agent_state import AgentExit
from yarnam.core.frameworks.task_ports import COORDINATOR_PORT
from yarnam.wire.credentials import new_credentials, split
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc
from yarnam.wire.protocol import HELD_CALLS, HOLD_S, wake_datagram
from yarnam.wire.tls import CHANNEL_OPTIONS

pytestmark = [pytest.mark.grpc, pytest.mark.asyncio]

# A child, a grandchild that left session and parent, and one that cleared its environment too.
FAMILY = """
(sleep 617 &)
setsid sh -c 'sleep 617 & sleep 617' &
env -i setsid sleep 617 &
exec sleep 617
"""


async def started(here: World, container: Container) -> None:
    container.start()
    await here.am.until(container.ask, pb.READY)
    await here.am.launch(container.job, [container.ask])
    await here.am.until(container.ask, pb.STARTED)


async def until_family(container: Container, count: int = 4) -> None:
    """All five processes of FAMILY run; the last one carries no mark."""
    end = time.monotonic() + 5
    while len(container.user_processes()) < count:
        assert time.monotonic() < end, container.user_processes()
        await asyncio.sleep(0.02)


def sleepers() -> set[int]:
    """All of this machine, but those of other tests, which sleep for another time."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == b"sleep\x00617\x00":
                found.add(int(path.parent.name))
        except OSError:
            continue
    return found


async def test_parks_launches_reports_and_leaves(tmp_path: Path) -> None:
    job = small_job(["sh", "-c", 'echo "hello from $YARNAM_RANK of $YARNAM_WORLD_SIZE"'])
    async with world(tmp_path) as here:
        container = here.container(job).start()
        ready = await here.am.until(container.ask, pb.READY)
        assert not container.user_processes(), "nothing of the user's may run before the launch"
        assert ready.node == "127.0.0.1"
        assert ready.nm_http_address == "127.0.0.1:8042"
        assert [port.name for port in ready.ports] == ["coordinator"]
        assert not ready.HasField("wake"), "its poll waits at the AM: nothing else listens"
        await here.am.launch(job, [container.ask])
        await here.am.until(container.ask, pb.STARTED)
        exited = await here.am.until(container.ask, pb.EXITED)
        (process,) = exited.processes
        assert (process.kind, process.code, process.signal) == ("ok", 0, 0)
        assert list(process.last_lines) == ["hello from 0 of 1"]
        assert container.process is not None
        assert container.process.poll() is None, "it stays until it is told to leave"
        await here.am.leave(container.ask)
        assert await container.exit_code() == AgentExit.DONE
        assert not container.all_processes()
        assert container.log() == b"hello from 0 of 1\n"


async def test_heartbeats_at_least_every_two_seconds_and_stays_small(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        container = here.container(small_job(["sleep", "600"]))
        await started(here, container)
        polls = here.am.mailbox.polled_at[container.ask]
        end = time.monotonic() + 20
        while len(polls) < 4:
            assert time.monotonic() < end, polls
            await asyncio.sleep(0.05)
        gaps = [later - earlier for earlier, later in pairwise(polls)]
        assert max(gaps) < 3.0, gaps
        assert container.process is not None
        sizes = {
            pid: int(line.split()[1]) / 1024
            for pid in container.all_processes() - container.user_processes()
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            if line.startswith("VmRSS")
        }
        print(f"agent {sizes[container.process.pid]:.1f} MiB resident, with keeper {sizes}")
        assert len(sizes) == 2, "agent and keeper"
        assert sum(sizes.values()) <= 60, sizes


async def test_in_a_large_gang_it_polls_when_it_is_woken(tmp_path: Path) -> None:
    job = small_job(["sleep", "600"], tasks=HELD_CALLS + 1)
    async with world(tmp_path) as here:
        here.am.mailbox.poll_after_ms = 600_000
        container = here.container(job).start()
        wake = (await here.am.until(container.ask, pb.READY)).wake
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as am:
            am.sendto(wake_datagram(wake.key, 1), (wake.address, wake.port))
            await asyncio.sleep(3 * HOLD_S)
            assert len(here.am.mailbox.polled_at[container.ask]) < 4, (
                "it still polls although it can be woken"
            )
            await here.am.leave(container.ask)
            am.sendto(wake_datagram(wake.key, 2), (wake.address, wake.port))
            assert await container.exit_code() == AgentExit.DONE


async def test_another_jobs_certificate_is_refused(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        job = small_job(["true"], orphan_timeout_s=1.5)
        container = here.container(job, pem=new_credentials()).start()
        assert await container.exit_code() == AgentExit.ORPHANED
        assert container.ask not in here.am.mailbox.reports
        assert "cannot reach the AM" in container.agent_log()


async def test_log_service_refuses_callers_without_the_jobs_certificate(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        container = here.container(small_job(["true"])).start()
        ready = await here.am.until(container.ask, pb.READY)
        own = here.channel(ready.log_address)
        certificate, _ = split(here.am.pem)
        other, other_key = split(new_credentials())
        known = {"root_certificates": certificate}
        strangers = [
            grpc.aio.insecure_channel(ready.log_address),
            # These know the server's certificate, which is not a secret, and lack its key.
            *(
                grpc.aio.secure_channel(ready.log_address, credentials, options=CHANNEL_OPTIONS)
                for credentials in (
                    grpc.ssl_channel_credentials(**known),
                    grpc.ssl_channel_credentials(
                        **known, private_key=other_key, certificate_chain=other
                    ),
                )
            ),
        ]
        for channel in strangers:
            foreign = yarnam_pb2_grpc.AgentLogsStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                _ = [c async for c in foreign.Tail(pb.TailRequest(agent_log=True), timeout=3)]
            assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE
        chunks = yarnam_pb2_grpc.AgentLogsStub(own).Tail(pb.TailRequest(agent_log=True))
        assert b"ready" in b"".join([chunk.data async for chunk in chunks])
        for channel in (own, *strangers):
            await channel.close()


async def test_am_vanishes_and_nothing_is_left(tmp_path: Path) -> None:
    job = small_job(["sh", "-c", FAMILY], orphan_timeout_s=2.0, grace_s=1.0)
    async with world(tmp_path) as here:
        before = sleepers()
        container = here.container(job)
        await started(here, container)
        await until_family(container)
        await here.am.vanish()
        gone_at = time.monotonic()
        assert await container.exit_code() == AgentExit.ORPHANED
        took_s = time.monotonic() - gone_at
        # Orphan time-out, grace, and some for the rest on a busy machine.
        assert 1.5 <= took_s <= 2.0 + 1.0 + 3.0, took_s
        assert not container.all_processes()
        assert sleepers() == before


async def test_am_that_comes_back_in_time_finds_the_task_running(tmp_path: Path) -> None:
    job = small_job(["sleep", "600"], orphan_timeout_s=10.0)
    async with world(tmp_path) as here:
        container = here.container(job)
        await started(here, container)
        await here.am.vanish()
        await container.until_logged("cannot reach the AM")
        async with small_am(here.am.pem, port=int(here.am.address.rpartition(":")[2])) as again:
            polls = again.mailbox.polled_at
            end = time.monotonic() + 5
            while container.ask not in polls:
                assert time.monotonic() < end
                await asyncio.sleep(0.05)
            assert container.user_processes()
            await again.leave(container.ask)
            assert await container.exit_code() == AgentExit.DONE


async def test_killed_agent_takes_all_processes_with_it(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        before = sleepers()
        container = here.container(small_job(["sh", "-c", FAMILY]))
        await started(here, container)
        await until_family(container)
        assert container.process is not None
        # As YARN does: SIGKILL to the process group of the container.
        os.killpg(container.process.pid, signal.SIGKILL)
        container.process.wait()
        took_s = await container.until_empty()
        print(f"cleared {took_s * 1000:.0f} ms after SIGKILL")
        assert sleepers() == before


async def test_terminated_agent_is_gone_before_yarn_loses_patience(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        before = sleepers()
        container = here.container(small_job(["sh", "-c", f"trap '' TERM; {FAMILY}"]))
        await started(here, container)
        await until_family(container)
        assert container.process is not None
        at = time.monotonic()
        container.process.terminate()
        code = await container.exit_code()
        took_s = time.monotonic() - at
        print(f"left {took_s * 1000:.0f} ms after SIGTERM")
        assert code == AgentExit.TERMINATED
        assert sleepers() == before
        assert not container.all_processes()


async def test_killed_keeper_is_noticed_and_all_processes_end(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        before = sleepers()
        container = here.container(small_job(["sh", "-c", FAMILY]))
        await started(here, container)
        await until_family(container)
        assert container.process is not None
        # By its parent: a process of the family that is just becoming another program has no
        # readable environment for a moment, and would look like one that is not the user's.
        agent = psutil.Process(container.process.pid)
        (keeper,) = agent.children()
        keeper.send_signal(signal.SIGKILL)
        unable = await here.am.until(container.ask, pb.UNABLE)
        assert "keeper of the task's processes was killed" in unable.message
        assert not unable.user_fault, "nobody's program did that"
        assert sleepers() == before, "also those that were not its children"
        await here.am.leave(container.ask)
        assert await container.exit_code() == AgentExit.DONE
        await container.until_empty()


async def test_a_keeper_killed_while_the_agent_is_parked_is_noticed_too(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        container = here.container(small_job(["sh", "-c", FAMILY]))
        container.start()
        await here.am.until(container.ask, pb.READY)
        assert container.process is not None
        (keeper,) = psutil.Process(container.process.pid).children()
        keeper.send_signal(signal.SIGKILL)
        await here.am.until(container.ask, pb.UNABLE)
        await here.am.leave(container.ask)
        assert await container.exit_code() == AgentExit.DONE


async def test_late_and_doubled_directives_are_harmless(tmp_path: Path) -> None:
    job = small_job(["sh", "-c", "echo once; sleep 600"])
    async with world(tmp_path) as here:
        container = here.container(job)
        await started(here, container)
        await until_family(container, 2)
        await here.am.launch(job, [container.ask])
        await here.am.mailbox.until_followed(container.ask)
        await here.am.mailbox.order(container.ask, stop=pb.Stop(attempt=0, grace_s=0, reason="old"))
        await here.am.mailbox.until_followed(container.ask)
        assert len(container.user_processes()) == 2
        assert container.log() == b"once\n"
        await here.am.mailbox.order(container.ask, stop=pb.Stop(attempt=1, grace_s=1, reason="now"))
        exited = await here.am.until(container.ask, pb.EXITED)
        assert exited.processes[0].kind == "stopped"
        await here.am.launch(job, [container.ask], attempt=2)
        await here.am.mailbox.until(
            container.ask, lambda report: report.state == pb.STARTED and report.attempt == 2
        )


async def test_a_stop_says_why_and_how_long_there_is(tmp_path: Path) -> None:
    program = 'trap "cat $YARNAM_STOP_FILE; exit 0" TERM; echo up; sleep 600 & wait'
    job = small_job(["sh", "-c", program])
    async with world(tmp_path) as here:
        container = here.container(job)
        await started(here, container)
        await container.until_printed(b"up\n")
        order = pb.Stop(attempt=1, grace_s=7.5, reason="2 -> 4 tasks")
        await here.am.mailbox.order(container.ask, stop=order)
        await here.am.until(container.ask, pb.EXITED)
        up, said = container.log().split(b"\n", 1)
        assert up == b"up"
        facts = json.loads(said)
        assert (facts["reason"], facts["grace_s"]) == ("2 -> 4 tasks", 7.5)
        assert 0.0 <= time.time() - facts["asked_at_s"] < 60.0
        await here.am.launch(job, [container.ask], attempt=2)
        await here.am.mailbox.until(
            container.ask, lambda report: report.state == pb.STARTED and report.attempt == 2
        )
        assert not list(container.directory.glob(".yarnam-stop*")), "it speaks of the next launch"
        assert b"yarnam: attempt 2 starts in the same container\n" in container.log()


async def test_a_port_that_somebody_took_between_two_launches_is_no_fault_of_the_user(
    tmp_path: Path,
) -> None:
    job = small_job(["sh", "-c", "sleep 600"])
    async with world(tmp_path) as here:
        container = here.container(job)
        await started(here, container)
        # A server that binds a held port frees it for itself; here it is a stranger.
        report = await here.am.until(container.ask, pb.STARTED)
        (port,) = [p.port for p in report.ports if p.name == COORDINATOR_PORT]
        with socket.create_server((report.address, port), reuse_port=True):
            await container.until_logged("ports taken over by the processes: coordinator")
            stop = pb.Stop(attempt=1, grace_s=1, reason="again")
            await here.am.mailbox.order(container.ask, stop=stop)
            await here.am.until(container.ask, pb.EXITED)
            await here.am.launch(job, [container.ask], attempt=2)
            again = await here.am.mailbox.until(
                container.ask, lambda report: report.state == pb.EXITED and report.attempt == 2
            )
        (process,) = again.processes
        assert process.kind == "not-started", "so the platform's, not the user's"
        assert "ports taken by others" in process.last_lines[0]


async def test_damaged_files_end_the_agent_with_a_reason(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        container = here.container(small_job(["true"]))
        (container.directory / "yarnam-job.json").write_text('{"version": 99}')
        container.start()
        assert await container.exit_code() == AgentExit.REFUSED
        assert "version 99" in container.agent_log()
        await container.until_empty()
