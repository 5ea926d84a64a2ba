"""What clients see of a job, over real gRPC on loopback."""

from __future__ import annotations

import resource
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from yarnam.adapters.grpc.am_server import GrpcMailbox, bind_address
from yarnam.adapters.grpc.job_control import MAX_BYTES_IN_MEMORY, EventLog
from yarnam.core.model.events import CancelRequested, Event
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_spec import JobSpec
from yarnam.errors import InternalError, WireMismatch
from yarnam.wire.credentials import new_credentials
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc as pb_grpc
from yarnam.wire.tls import CHANNEL_OPTIONS, channel_credentials

JOB = JobSpec("j", "root.a", "u", "command", ())


@dataclass
class Line:
    mailbox: GrpcMailbox
    stub: Any
    events: list[Event]


@pytest.fixture
def line() -> Iterator[Line]:
    pem = new_credentials()
    events: list[Event] = []
    mailbox = GrpcMailbox(JOB, pem, host="127.0.0.1", now_s=lambda: 5.0)
    address = mailbox.start(events.append)
    with grpc.secure_channel(address, channel_credentials(pem), CHANNEL_OPTIONS) as channel:
        yield Line(mailbox, pb_grpc.JobControlStub(channel), events)  # type: ignore[no-untyped-call]
    mailbox.close()


def status(line: Line, seen: int = 0, hold_ms: int = 0) -> pb.StatusReply:
    reply = line.stub.AwaitStatus(pb.StatusRequest(seen=seen, hold_ms=hold_ms), timeout=10.0)
    assert isinstance(reply, pb.StatusReply)
    return reply


@pytest.mark.grpc
def test_the_newest_status_with_a_growing_version(line: Line) -> None:
    line.mailbox.control.publish(b'{"a":1}')
    first = line.stub.GetStatus(pb.StatusRequest(), timeout=5.0)
    line.mailbox.control.publish(b'{"a":2}')
    second = line.stub.GetStatus(pb.StatusRequest(), timeout=5.0)
    assert (first.status_json, second.status_json) == (b'{"a":1}', b'{"a":2}')
    assert second.version > first.version


@pytest.mark.grpc
def test_a_status_of_any_size_arrives(line: Line) -> None:
    """With smaller TLS records at the AM some sizes broke the connection, one in a thousand."""
    for size in range(2500, 6500):
        line.mailbox.control.publish(b"x" * size)
        reply = line.stub.GetStatus(pb.StatusRequest(), timeout=5.0)
        assert len(reply.status_json) == size


@pytest.mark.grpc
def test_a_long_poll_ends_with_the_next_change(line: Line) -> None:
    line.mailbox.control.publish(b"{}")
    seen = status(line).version
    threading.Timer(0.3, lambda: line.mailbox.control.publish(b'{"b":1}')).start()
    began = time.monotonic()
    reply = status(line, seen, 5000)
    assert reply.status_json == b'{"b":1}'
    assert 0.2 <= time.monotonic() - began < 3.0


@pytest.mark.grpc
def test_a_long_poll_ends_with_its_hold(line: Line) -> None:
    line.mailbox.control.publish(b"{}")
    seen = status(line).version
    began = time.monotonic()
    assert status(line, seen, 300).version == seen
    assert time.monotonic() - began >= 0.25


@pytest.mark.grpc
def test_cancel_comes_in_as_an_event(line: Line) -> None:
    line.stub.Cancel(pb.CancelRequest(by="alice", reason="wrong data"), timeout=5.0)
    assert line.events == [CancelRequested(5.0, "alice", "wrong data")]


@pytest.mark.grpc
def test_events_from_a_number_on(line: Line) -> None:
    line.mailbox.control.record([b"0", b"1"])
    line.mailbox.control.record([b"2"])
    request = pb.EventsRequest(**{"from": 1})
    assert list(line.stub.GetEvents(request, timeout=5.0).events_json) == [b"1", b"2"]
    request = pb.EventsRequest(**{"from": 3})
    assert list(line.stub.GetEvents(request, timeout=5.0).events_json) == []


@pytest.mark.grpc
def test_closing_twice_is_harmless_and_nothing_works_afterwards(line: Line) -> None:
    line.mailbox.close()
    line.mailbox.close()
    with pytest.raises(InternalError):
        line.mailbox.expect([AskId(1, "w", 0)])


def test_the_spool_answers_in_portions() -> None:
    spool = EventLog(max_reply_bytes=10)
    spool.append([b"x" * 4] * 5)
    assert spool.read(0) == (0, [b"x" * 4] * 2)
    assert spool.read(4) == (4, [b"x" * 4])
    assert spool.read(5) == (5, [])
    spool.append([b"y" * 50])
    # One that alone is larger than a reply is still given.
    assert spool.read(5) == (5, [b"y" * 50])
    assert spool.read(1, 1) == (1, [b"x" * 4])
    assert len(spool) == 6
    spool.close()
    spool.append([b"late"])
    assert len(spool) == 7


def numbered(numbers: Iterable[int]) -> list[bytes]:
    return [b"%06d" % number for number in numbers]


def test_the_newest_events_are_kept_within_a_limit() -> None:
    spool = EventLog(max_bytes=2400)
    for number in range(0, 2000, 10):
        spool.append(numbered(range(number, number + 10)))
    first, lines = spool.read(0)
    assert lines == numbered(range(first, 2000)), "each under its own number"
    assert 1600 <= first <= 1700
    assert spool.read(1990) == (1990, numbered(range(1990, 2000)))
    assert spool.read(1900, 3) == (1900, numbered(range(1900, 1903)))
    spool.close()


def test_events_of_a_job_whose_disk_is_full_are_kept_in_memory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A file limit stands for the full disk: both end a write half-way."""
    spool = EventLog()
    spool.append(numbered(range(100)))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, limits[1]))
    try:
        spool.append(numbered(range(100, 1000)))
        spool.append([b"z" * MAX_BYTES_IN_MEMORY] * 20)
        spool.append(numbered([1020]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert len(spool) == 1021
    assert spool.read(1020) == (1020, numbered([1020]))
    first, _ = spool.read(0)
    assert first > 1000, "the memory is bounded too"
    assert caplog.text.count("few events are kept") == 1
    spool.close()


def test_what_was_written_before_the_disk_was_full_can_still_be_read() -> None:
    spool = EventLog()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, limits[1]))
    try:
        spool.append(numbered(range(300)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert spool.read(0) == (0, numbered(range(300)))
    spool.close()


def test_no_place_for_a_file_ends_nothing(tmp_path: Path) -> None:
    spool = EventLog(directory=str(tmp_path / "missing"))
    spool.append(numbered(range(3)))
    assert spool.read(1) == (1, numbered([1, 2]))
    spool.close()


@pytest.mark.grpc
def test_a_client_that_asks_for_events_no_longer_kept_is_sent_to_the_journal(line: Line) -> None:
    line.mailbox.control._events = EventLog(max_bytes=240)
    line.mailbox.control.record(numbered(range(100)))
    with pytest.raises(grpc.RpcError) as refused:
        line.stub.GetEvents(pb.EventsRequest(), timeout=5.0)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    request = pb.EventsRequest(**{"from": 99})
    assert list(line.stub.GetEvents(request, timeout=5.0).events_json) == numbered([99])


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("10.1.2.3", "10.1.2.3"),
        ("fe80::1", "[fe80::1]"),
        ("localhost", "0.0.0.0"),
        ("no-such-host.invalid", "0.0.0.0"),
    ],
)
def test_where_to_listen(host: str, expected: str) -> None:
    assert bind_address(host) == expected


@pytest.mark.grpc
def test_a_job_without_tokens_takes_none(line: Line) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        line.stub.ReplaceTokens(pb.Tokens(tokens=["CWFsaWNl"]), timeout=5.0)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.grpc
def test_what_is_no_token_is_refused_without_its_text(line: Line) -> None:
    def refuse(tokens: Sequence[str]) -> None:
        raise WireMismatch("replacing the delegation tokens: no delegation token")

    line.mailbox.control.take_tokens = refuse
    with pytest.raises(grpc.RpcError) as caught:
        line.stub.ReplaceTokens(pb.Tokens(tokens=["CWFsaWNl"]), timeout=5.0)
    assert caught.value.details() == "replacing the delegation tokens: no delegation token"
