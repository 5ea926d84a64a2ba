"""A small ApplicationMaster and containers made by hand, around the real agent process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import grpc

from yarnam.agent.keeper import procfs
from yarnam.agent.keeper.keeper import MARK
from yarnam.core.model.actions import GangMember
from yarnam.core.model.ids import NodeId, RackId, TaskId, parse_ask_id
from yarnam.core.model.job_spec import AmSpec, JobSpec, RoleSpec, ShippedFile
from yarnam.core.model.plans import Placed
from yarnam.core.model.resources import Resources
from yarnam.wire.codec import encode
from yarnam.wire.credentials import new_credentials
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc
from yarnam.wire.records import JobRecord
from yarnam.wire.rendezvous import environments
from yarnam.wire.tls import CHANNEL_OPTIONS, SERVER_OPTIONS, channel_credentials, server_credentials

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 20.0


def small_job(
    command: Sequence[str],
    *,
    tasks: int = 1,
    gpus: int = 0,
    processes: int = 1,
    framework: str = "command",
    orphan_timeout_s: float = 3.0,
    **changes: Any,
) -> JobSpec:
    role = RoleSpec(
        "worker",
        tasks,
        Resources(memory_mib=512, vcores=1, gpus=gpus),
        tuple(command),
        processes_per_task=processes,
        ports=changes.pop("ports", ()),
        env=changes.pop("role_env", ()),
    )
    am = AmSpec(orphan_timeout_s=orphan_timeout_s, stop_grace_s=changes.pop("grace_s", 2.0))
    job = JobSpec("test-job", "root.users.test", "tester", framework, (role,), am=am)
    return replace(job, **changes)


class SmallMailbox(yarnam_pb2_grpc.TaskMailboxServicer):
    """Keeps every report; each ask's directive is what the test last gave."""

    def __init__(self) -> None:
        self.reports: dict[str, list[Any]] = {}
        self.timed: dict[str, list[tuple[Any, float]]] = {}
        """The same, with the time at which each came."""
        self.polled_at: dict[str, list[float]] = {}
        self.polled_steps: dict[str, list[int]] = {}
        """Of the first process, as polls brought them along."""
        self.seen: dict[str, int] = {}
        """The newest directive that an agent has followed."""
        self.poll_after_ms = 0
        """Of all directives."""
        self._directives: dict[str, Any] = {}
        self._changed = asyncio.Condition()
        self._is_closing = False

    async def Report(self, request: Any, context: Any) -> Any:  # noqa: N802
        async with self._changed:
            self.reports.setdefault(request.ask, []).append(request)
            self.timed.setdefault(request.ask, []).append((request, time.time()))
            self._changed.notify_all()
        return pb.ReportAck()

    async def AwaitDirective(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.polled_at.setdefault(request.ask, []).append(time.monotonic())
        self.seen[request.ask] = request.seen
        if request.HasField("progress"):
            steps = self.polled_steps.setdefault(request.ask, [])
            steps.append(request.progress.processes[0].metrics.step)
            await self.Report(_told_by_poll(request), context)
        end = time.monotonic() + request.hold_ms / 1000
        async with self._changed:
            while True:
                directive = self._directives.get(request.ask)
                if directive is None:
                    directive = pb.Directive(number=1, park=pb.Park())
                directive.poll_after_ms = self.poll_after_ms
                left = end - time.monotonic()
                if directive.number != request.seen or left <= 0 or self._is_closing:
                    return directive
                try:
                    await asyncio.wait_for(self._changed.wait(), left)
                except asyncio.TimeoutError:
                    continue

    async def order(self, ask: str, **order: Any) -> None:
        async with self._changed:
            old = self._directives.get(ask)
            number = (old.number if old is not None else 1) + 1
            self._directives[ask] = pb.Directive(number=number, **order)
            self._changed.notify_all()

    async def until_followed(self, ask: str, limit_s: float = LIMIT_S) -> None:
        """Until the agent has followed the newest directive: its next poll has seen it."""
        end = time.monotonic() + limit_s
        while self.seen.get(ask) != self._directives[ask].number:
            assert time.monotonic() < end, f"{ask} has followed {self.seen.get(ask)}"
            await asyncio.sleep(0.02)

    async def close(self) -> None:
        async with self._changed:
            self._is_closing = True
            self._changed.notify_all()

    async def until(self, ask: str, accept: Callable[[Any], bool], limit_s: float = LIMIT_S) -> Any:
        """The first report that is accepted."""

        async def look() -> Any:
            async with self._changed:
                while True:
                    for report in self.reports.get(ask, ()):
                        if accept(report):
                            return report
                    await self._changed.wait()

        try:
            return await asyncio.wait_for(look(), limit_s)
        except asyncio.TimeoutError:
            states = [report.state for report in self.reports.get(ask, ())]
            raise AssertionError(f"{ask}: not reported within {limit_s} s; seen {states}") from None


def _told_by_poll(request: Any) -> Any:
    """As a report of its own."""
    return pb.AgentReport(
        ask=request.ask,
        state=pb.STARTED,
        attempt=request.progress.attempt,
        processes=request.progress.processes,
    )


@dataclass
class SmallAm:
    mailbox: SmallMailbox
    server: Any
    address: str
    pem: bytes

    async def vanish(self) -> None:
        await self.server.stop(grace=None)

    async def until(self, ask: str, state: int, limit_s: float = LIMIT_S) -> Any:
        return await self.mailbox.until(ask, lambda report: report.state == state, limit_s)

    async def launch(self, job: JobSpec, asks: Sequence[str], attempt: int = 1) -> None:
        """Every ask must have reported; ranks follow the order of ``asks``."""
        members = []
        for number, ask in enumerate(asks):
            report = self.mailbox.reports[ask][0]
            placed = Placed(
                "worker",
                NodeId(report.node),
                RackId("/rack1"),
                tuple(report.gpu_ids),
                job.roles[0].processes_per_task,
                report.address,
                tuple((port.name, port.port) for port in report.ports),
            )
            members.append(GangMember(parse_ask_id(ask), TaskId("worker", number), placed))
        envs = environments(job, members, attempt, "application_1_1")
        rank = 0
        for ask, member, of_member in zip(asks, members, envs, strict=True):
            processes = []
            for local, env in enumerate(of_member):
                processes.append(pb.ProcessLaunch(rank=rank, local_rank=local, env=env))
                rank += 1
            launch = pb.Launch(
                attempt=attempt, role="worker", index=member.task.index, processes=processes
            )
            if job.resizes_in_place and member is members[0]:
                launch.members.extend(f"{one.ask}:{one.placed.processes}" for one in members)
            await self.mailbox.order(ask, launch=launch)

    async def leave(self, ask: str) -> None:
        await self.mailbox.order(ask, leave=pb.Leave(reason="the test is over"))


@asynccontextmanager
async def small_am(
    pem: bytes | None = None, address: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[SmallAm]:
    pem = pem or new_credentials()
    mailbox = SmallMailbox()
    server = grpc.aio.server(options=SERVER_OPTIONS)
    yarnam_pb2_grpc.add_TaskMailboxServicer_to_server(mailbox, server)
    port = server.add_secure_port(f"{address}:{port}", server_credentials(pem))
    await server.start()
    try:
        yield SmallAm(mailbox, server, f"{address}:{port}", pem)
    finally:
        await mailbox.close()
        await server.stop(grace=0.5)
        # gRPC's last tasks, cancelled with the loop, would hang its closing.
        end = time.monotonic() + 2
        while len(asyncio.all_tasks()) > 1 and time.monotonic() < end:
            await asyncio.sleep(0.01)


@dataclass
class Container:
    """One container's directory and the agent in it."""

    root: Path
    am_address: str
    pem: bytes
    job: JobSpec
    ask: str = "a1.worker.0"
    number: int = 2
    node: str = "127.0.0.1"
    env: Mapping[str, str] = field(default_factory=dict)
    sdk: bool = False
    """Ship the training SDK."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def container_id(self) -> str:
        return f"container_e01_{os.getpid()}_0001_01_{self.number:06d}"

    @property
    def directory(self) -> Path:
        return self.root / self.container_id

    @property
    def logs(self) -> Path:
        return self.root / f"{self.container_id}-logs"

    def prepare(self) -> Container:
        self.directory.mkdir()
        self.logs.mkdir()
        self.write_job()
        (self.directory / "yarnam-credentials.pem").write_bytes(self.pem)
        (self.directory / "yarnam-runtime").mkdir()
        (self.directory / "yarnam-runtime" / "lib").symlink_to(ROOT)
        if self.sdk:
            package = self.directory / "yarnam-runtime" / "sdk" / "yarnam"
            package.mkdir(parents=True)
            (package / "__init__.py").touch()
            (package / "train").symlink_to(ROOT / "yarnam" / "train")
        return self

    def write_job(self) -> None:
        record = JobRecord(self.job, (), "hdfs://nowhere/job", time.time(), "0")
        (self.directory / "yarnam-job.json").write_bytes(encode(record))

    def start(self) -> Container:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            # As in a real container: the agent's libraries are in its runtime.
            "PYTHONPATH": str(self.directory / "yarnam-runtime" / "lib"),
            "YARNAM_ASK": self.ask,
            "YARNAM_AM_ADDRESS": self.am_address,
            "CONTAINER_ID": self.container_id,
            "NM_HOST": self.node,
            # Tells NodeManagers of one machine apart, and so the simulated GPUs of two tests.
            "NM_PORT": str(crc32(bytes(self.root))),
            "NM_HTTP_PORT": "8042",
            "LOG_DIRS": str(self.logs),
            "LOCAL_DIRS": str(self.root),
            "SKEIN_APPLICATION_ID": "application_1_1",
            **self.env,
        }
        with (self.logs / "stderr").open("ab") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "yarnam.cli.containers.agent_process"],
                cwd=self.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,
            )
        return self

    def log(self, local_rank: int = 0, index: int = 0) -> bytes:
        return (self.logs / f"worker-{index}.{local_rank}.log").read_bytes()

    def agent_log(self) -> str:
        logs = (self.logs / "agent.log", self.logs / "stderr")
        return "".join(log.read_text() for log in logs if log.exists())

    async def until_logged(self, text: str, limit_s: float = LIMIT_S) -> None:
        """Until the agent's own log has it."""
        end = time.monotonic() + limit_s
        while text not in self.agent_log():
            assert time.monotonic() < end, f"{text!r} is not in:\n{self.agent_log()}"
            await asyncio.sleep(0.02)

    async def until_printed(self, text: bytes, limit_s: float = LIMIT_S) -> None:
        """Wait for a line of the first user process. Its shell sets traps before it prints."""
        end = time.monotonic() + limit_s
        while text not in self.log():
            assert time.monotonic() < end, f"{text!r} is not in:\n{self.log()!r}"
            await asyncio.sleep(0.02)

    async def exit_code(self, limit_s: float = LIMIT_S) -> int:
        assert self.process is not None
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            code = self.process.poll()
            if code is not None:
                return code
            await asyncio.sleep(0.02)
        raise AssertionError(f"the agent did not end within {limit_s} s:\n{self.agent_log()}")

    def user_processes(self) -> set[int]:
        """Living processes of the user's in this container."""
        return procfs.marked(f"{MARK}={self.container_id}".encode())

    def all_processes(self) -> set[int]:
        """These, and the keeper and the agent."""
        return procfs.marked(f"CONTAINER_ID={self.container_id}".encode())

    async def until_empty(self, limit_s: float = 5.0) -> float:
        """Seconds until no process of this container was left."""
        start = time.monotonic()
        while self.all_processes():
            if time.monotonic() - start > limit_s:
                raise AssertionError(f"left after {limit_s} s: {self.all_processes()}")
            await asyncio.sleep(0.01)
        return time.monotonic() - start

    def clear(self) -> None:
        """Whatever the test did, nothing of this container stays."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        end = time.monotonic() + 5
        while (left := self.all_processes()) and time.monotonic() < end:
            time.sleep(0.02)
        assert not left, f"{self.container_id} left {left} behind"


@dataclass
class World:
    """One AM with its containers on a machine; ``container`` starts a real agent."""

    am: SmallAm
    root: Path
    containers: list[Container] = field(default_factory=list)

    def container(self, job: JobSpec, **changes: Any) -> Container:
        number = len(self.containers) + 2
        ask = changes.pop("ask", f"a1.worker.{len(self.containers)}")
        pem = changes.pop("pem", self.am.pem)
        made = Container(self.root, self.am.address, pem, job, ask, number, **changes).prepare()
        self.containers.append(made)
        return made

    def channel(self, address: str, pem: bytes | None = None) -> Any:
        credentials = channel_credentials(pem or self.am.pem)
        return grpc.aio.secure_channel(address, credentials, options=CHANNEL_OPTIONS)


@asynccontextmanager
async def world(root: Path) -> AsyncIterator[World]:
    async with small_am() as am:
        here = World(am, root)
        try:
            yield here
        finally:
            for container in here.containers:
                container.clear()


def shipped(container: Container, name: str, text: str, *, executable: bool = False) -> ShippedFile:
    """Put a file where YARN would put it."""
    path = container.directory / name
    path.write_text(text)
    if executable:
        path.chmod(0o755)
    return ShippedFile(name, f"hdfs://nowhere/{name}", executable=executable)
