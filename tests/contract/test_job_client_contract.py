"""One contract for the line to a job: the fake, and the real one over gRPC with TLS."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import grpc
import pytest

from tests.fakes.job_client import FakeJobClient
from yarnam.adapters.grpc.job_client import OPENING_AT_ONCE, GrpcJobClient
from yarnam.adapters.grpc.job_control import JobControlService
from yarnam.core.model.events import (
    CancelRequested,
    ContainersMarked,
    Event,
    JobStarted,
    ResumeRequested,
    ScaleRequested,
    SuspendRequested,
)
from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.errors import Unavailable, YarnamError
from yarnam.ports.job_access import JobClient
from yarnam.wire.codec import encode, encode_event
from yarnam.wire.credentials import new_credentials
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc as rpc
from yarnam.wire.tls import SERVER_OPTIONS, server_credentials

pytestmark = pytest.mark.grpc

STATUS = JobStatus("application_1_1", "hello", "me", "root.dl", JobState.RUNNING)
PEM = new_credentials()


class Am(Protocol):
    """The AM's side, as far as both have one."""

    line: JobClient
    log_address: str

    def tell(self, *statuses: JobStatus) -> None: ...
    def record(self, *events: Event) -> None: ...
    def prints(self, local_rank: int, *pieces: bytes) -> None: ...
    def cancelled(self) -> tuple[str, str]: ...
    def scaled(self) -> list[tuple[str, int | None]]: ...
    def suspended(self) -> list[tuple[str, float, str]]: ...
    def resumed(self) -> list[str]: ...
    def interrupted(self) -> list[str]: ...
    def tokens(self) -> list[str]: ...
    def die(self) -> None: ...


class FakeAm:
    log_address = "n1:9"

    def __init__(self) -> None:
        self._line = FakeJobClient()
        self.line: JobClient = self._line

    def tell(self, *statuses: JobStatus) -> None:
        self._line.statuses = list(statuses)

    def record(self, *events: Event) -> None:
        self._line.journal += events

    def prints(self, local_rank: int, *pieces: bytes) -> None:
        self._line.outputs[self.log_address, local_rank] = list(pieces)

    def cancelled(self) -> tuple[str, str]:
        return self._line.cancelled[0]

    def scaled(self) -> list[tuple[str, int | None]]:
        return self._line.scaled

    def suspended(self) -> list[tuple[str, float, str]]:
        return self._line.suspended

    def resumed(self) -> list[str]:
        return self._line.resumed

    def interrupted(self) -> list[str]:
        return self._line.interrupted

    def tokens(self) -> list[str]:
        return self._line.tokens

    def die(self) -> None:
        self._line.failure = Unavailable("no answer")

    def close(self) -> None:
        pass


class Logs(rpc.AgentLogsServicer):  # type: ignore[misc]
    def __init__(self) -> None:
        self.pieces: dict[int, tuple[bytes, ...]] = {}
        self.answers_after_s = 0.0
        self.unanswered = self.most_unanswered = 0

    async def Tail(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        self.unanswered += 1
        self.most_unanswered = max(self.most_unanswered, self.unanswered)
        await asyncio.sleep(self.answers_after_s)
        await context.send_initial_metadata(())
        self.unanswered -= 1
        for piece in self.pieces.get(request.local_rank, ()):
            yield pb.LogChunk(data=piece)
        while request.follow:  # as an agent whose process goes on
            await asyncio.sleep(0.05)


class RealAm:
    """AM and agent on one port of this machine."""

    def __init__(self) -> None:
        self.control = JobControlService(time.time)
        self._tokens: list[str] = []
        self.control.take_tokens = self._tokens.extend
        self.logs = Logs()
        self.inbox: list[Event] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        port = asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(10)
        self.log_address = f"127.0.0.1:{port}"
        self.line: JobClient = GrpcJobClient(self.log_address, PEM)

    async def _serve(self) -> int:
        self.server = grpc.aio.server(options=SERVER_OPTIONS)
        rpc.add_JobControlServicer_to_server(self.control, self.server)  # type: ignore[no-untyped-call]
        rpc.add_AgentLogsServicer_to_server(self.logs, self.server)  # type: ignore[no-untyped-call]
        port = self.server.add_secure_port("127.0.0.1:0", server_credentials(PEM))
        self.control.open(self.inbox.append)
        await self.server.start()
        return int(port)

    def tell(self, *statuses: JobStatus) -> None:
        for status in statuses:
            self.control.publish(encode(status))

    def record(self, *events: Event) -> None:
        self.control.record([encode_event(event) for event in events])

    def prints(self, local_rank: int, *pieces: bytes) -> None:
        self.logs.pieces[local_rank] = pieces

    def cancelled(self) -> tuple[str, str]:
        (event,) = self.inbox
        assert isinstance(event, CancelRequested)
        return event.by, event.reason

    def scaled(self) -> list[tuple[str, int | None]]:
        return [(e.by, e.tasks) for e in self.inbox if isinstance(e, ScaleRequested)]

    def tokens(self) -> list[str]:
        return self._tokens

    def suspended(self) -> list[tuple[str, float, str]]:
        found = [e for e in self.inbox if isinstance(e, SuspendRequested)]
        return [(e.by, e.limit_s, e.reason) for e in found]

    def resumed(self) -> list[str]:
        return [e.by for e in self.inbox if isinstance(e, ResumeRequested)]

    def interrupted(self) -> list[str]:
        return [e.by for e in self.inbox if isinstance(e, ContainersMarked)]

    def die(self) -> None:
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self.server.stop(0), self._loop).result(10)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
            self._loop.close()

    def close(self) -> None:
        self.line.close()
        self.die()
        self.control.close()


@pytest.fixture(params=[FakeAm, RealAm])
def am(request: pytest.FixtureRequest) -> Iterator[Am]:
    made = request.param()
    yield made
    made.close()


def test_the_status_has_a_number_that_grows(am: Am) -> None:
    am.tell(STATUS)
    first = am.line.status()
    assert first.status == STATUS
    assert first.number > 0
    am.tell(STATUS, replace(STATUS, step=2))
    second = am.line.status(seen=first.number, hold_s=5.0)
    assert second.number > first.number


def test_the_story(am: Am) -> None:
    story = [JobStarted(1.0), CancelRequested(2.0, "me")]
    am.record(*story)
    assert list(am.line.events()) == story
    assert list(am.line.events(1)) == story[1:]


def test_a_cancel_arrives_with_who_and_why(am: Am) -> None:
    am.line.cancel(by="me", reason="enough")
    assert am.cancelled() == ("me", "enough")


def test_wishes_for_a_size_arrive_in_order(am: Am) -> None:
    am.line.scale(by="me", tasks=4)
    am.line.scale(by="you", tasks=None)
    assert am.scaled() == [("me", 4), ("you", None)]


def test_who_suspends_and_who_resumes_is_named(am: Am) -> None:
    am.line.suspend(by="ann", limit_s=90.5, reason="a demo")
    am.line.resume(by="bob")
    assert am.suspended() == [("ann", 90.5, "a demo")]
    assert am.resumed() == ["bob"]


def test_who_interrupts_is_named(am: Am) -> None:
    am.line.interrupt(by="ann")
    assert am.interrupted() == ["ann"]


def test_tokens_arrive(am: Am) -> None:
    am.line.replace_tokens(["one", "two"])
    assert am.tokens() == ["one", "two"]


def test_logs_come_in_pieces(am: Am) -> None:
    am.prints(1, b"one ", b"two\n")
    assert b"".join(am.line.tail(am.log_address, 1, last_lines=10)) == b"one two\n"
    assert b"".join(am.line.tail(am.log_address, 0)) == b""


@pytest.mark.parametrize(
    "call",
    [
        lambda line: line.status(),
        lambda line: line.status(hold_s=1.0),
        lambda line: line.events(),
        lambda line: line.cancel(by="me", reason=""),
        lambda line: line.scale(by="me", tasks=2),
        lambda line: line.suspend(by="me", limit_s=1.0, reason=""),
        lambda line: line.resume(by="me"),
        lambda line: line.interrupt(by="me"),
        lambda line: list(line.tail("127.0.0.1:1", 0)),
    ],
    ids=["status", "await", "events", "cancel", "scale", "suspend", "resume", "interrupt", "tail"],
)
def test_an_am_that_is_gone_is_unavailable_within_the_limit(
    am: Am, call: Callable[[JobClient], object]
) -> None:
    am.die()
    began = time.monotonic()
    with pytest.raises(Unavailable):
        call(am.line)
    assert time.monotonic() - began < 12.0


def test_closing_twice_is_harmless(am: Am) -> None:
    am.prints(0, b"step 1\n")
    assert list(am.line.tail(am.log_address, 0)) == [b"step 1\n"]
    am.line.close()
    am.line.close()
    assert list(am.line.tail(am.log_address, 0)) == []


# ---- the real one alone --------------------------------------------------------------------------


@pytest.fixture
def real() -> Iterator[RealAm]:
    made = RealAm()
    yield made
    made.close()


@pytest.mark.parametrize("limit_s", [0.0, -1.0, float("nan"), float("inf"), 1e12])
def test_a_suspension_without_an_end_is_refused(real: RealAm, limit_s: float) -> None:
    with pytest.raises(YarnamError, match="a suspension lasts"):
        real.line.suspend(by="me", limit_s=limit_s, reason="")
    assert real.suspended() == []


def test_closing_ends_a_tail_under_way(real: RealAm) -> None:
    real.prints(0, b"first\n")
    pieces = real.line.tail(real.log_address, 0, follow=True)
    assert next(pieces) == b"first\n"
    threading.Timer(0.2, real.line.close).start()
    began = time.monotonic()
    assert list(pieces) == []
    assert time.monotonic() - began < 5.0


def test_the_logs_of_a_large_gang_are_opened_a_few_at_a_time(real: RealAm) -> None:
    """Also where those that are open already say nothing."""
    real.logs.answers_after_s = 1.0
    silent = [real.line.tail(real.log_address, 1, follow=True) for _ in range(3 * OPENING_AT_ONCE)]
    readers = [threading.Thread(target=list, args=(pieces,)) for pieces in silent]
    for reader in readers:
        reader.start()
    real.prints(0, b"first\n")
    assert list(real.line.tail(real.log_address, 0)) == [b"first\n"]
    assert 1 < real.logs.most_unanswered <= OPENING_AT_ONCE
    real.line.close()
    for reader in readers:
        reader.join(10.0)
        assert not reader.is_alive()


def test_a_line_with_another_jobs_credentials_is_refused(real: RealAm) -> None:
    real.tell(STATUS)
    stranger = GrpcJobClient(real.log_address, new_credentials())
    try:
        with pytest.raises(Unavailable):
            stranger.status()
    finally:
        stranger.close()


def test_before_the_first_status_there_is_nothing_to_tell(real: RealAm) -> None:
    with pytest.raises(Unavailable, match="has no status yet"):
        real.line.status()
