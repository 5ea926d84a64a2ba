"""What clients see of a job, over real gRPC on loopback."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from yarnam.adapters.grpc.am_server import GrpcMailbox, bind_address
from yarnam.adapters.grpc.job_control import EventLog
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
    assert len(spool.read(0)) == 2
    assert len(spool.read(4)) == 1
    assert spool.read(5) == []
    spool.append([b"y" * 50])
    # One that alone is larger than a reply is still given.
    assert spool.read(5) == [b"y" * 50]
    assert len(spool) == 6
    spool.close()


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
