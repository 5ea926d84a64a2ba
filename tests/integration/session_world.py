"""A task that runs in a container made by hand, and sessions in it through the AM's relay."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from tests.integration.agent_world import World, small_job, world
from yarnam.adapters.grpc.session_client import GrpcTaskSession
from yarnam.adapters.grpc.session_relay import SessionRelay
from yarnam.core.model.events import Event
from yarnam.core.model.session_parts import (
    SessionData,
    SessionEnd,
    SessionKind,
    SessionOpened,
    SessionPart,
    SessionRequest,
)
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc
from yarnam.wire.tls import CHANNEL_OPTIONS, SERVER_OPTIONS, channel_credentials, server_credentials

SLEEPER = ["sh", "-c", "echo started; exec sleep 600"]


@dataclass
class Heard:
    """All that came of one session."""

    opened: SessionOpened | None = None
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)
    end: SessionEnd | None = None

    def take(self, part: SessionPart) -> None:
        if isinstance(part, SessionOpened):
            self.opened = part
        elif isinstance(part, SessionData):
            (self.err if part.is_error else self.out).extend(part.data)
        elif isinstance(part, SessionEnd):
            self.end = part


@dataclass
class Task:
    """A task that runs, and the way to its agent."""

    here: World
    container: Any
    address: str
    channel: grpc.Channel
    events: list[Event]
    """As the relay has recorded them."""

    def open(self, *command: str | bytes, **more: Any) -> GrpcTaskSession:
        request = SessionRequest(
            more.pop("kind", SessionKind.EXEC),
            "me",
            self.container.ask,
            command=tuple(os.fsencode(one) for one in command),
            **more,
        )
        stub = yarnam_pb2_grpc.TaskSessionsStub(self.channel)
        return GrpcTaskSession(stub.Open, request, self.address)

    async def run(self, *command: str | bytes, data: bytes | None = b"", **more: Any) -> Heard:
        session = self.open(*command, **more)

        def feed() -> None:
            session.send(data or b"")
            session.end_data()

        if data is not None:
            threading.Thread(target=feed, daemon=True).start()
        return await asyncio.to_thread(hear, session)


def hear(session: GrpcTaskSession, stop: Callable[[Heard], bool] = lambda _: False) -> Heard:
    heard = Heard()
    for part in session:
        heard.take(part)
        if stop(heard):
            break
    return heard


@asynccontextmanager
async def running(
    folder: Path, command: list[str] | None = None, **changes: Any
) -> AsyncIterator[Task]:
    job = small_job(command or SLEEPER, **changes)
    async with world(folder) as here:
        container = here.container(job).start()
        ready = await here.am.until(container.ask, pb.READY)
        await here.am.launch(job, [container.ask])
        await here.am.until(container.ask, pb.STARTED)
        recorded: list[Event] = []
        agents = {container.ask: ready.log_address}
        async with relay(here.am.pem, agents, recorded.append) as address:
            credentials = channel_credentials(here.am.pem)
            with grpc.secure_channel(address, credentials, CHANNEL_OPTIONS) as channel:
                yield Task(here, container, ready.log_address, channel, recorded)


@asynccontextmanager
async def relay(
    pem: bytes, agents: dict[str, str], inbox: Callable[[Event], None]
) -> AsyncIterator[str]:
    """The AM's part; its address."""
    service = SessionRelay(lambda ask: agents.get(ask, ""), pem, time.time)
    service.open(inbox)
    server = grpc.aio.server(options=SERVER_OPTIONS)
    yarnam_pb2_grpc.add_TaskSessionsServicer_to_server(service, server)
    port = server.add_secure_port("127.0.0.1:0", server_credentials(pem))
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(grace=None)
