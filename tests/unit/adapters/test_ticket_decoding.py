"""Whatever lies in the ticket queue's nodes: a job reads the others' tickets and goes on."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from tests.fakes.live_applications import FakeLiveApplications
from yarnam.adapters.zookeeper.session import Entry, ZooKeeper
from yarnam.adapters.zookeeper.ticket_nodes import (
    MAX_NODE_BYTES,
    QueueNodes,
    am_attempt_of,
    job_of,
    number_of,
)
from yarnam.adapters.zookeeper.ticket_queue import ZooKeeperTicketQueue
from yarnam.core.model.ids import NodeId
from yarnam.core.model.resources import Resources
from yarnam.core.model.tickets import Demand, RunningGang, Ticket
from yarnam.wire.codec import encode

TICKET = Ticket(
    0, "application_1_0001", "train", "root.gpu", (Demand(Resources(4096, 2, 8), 4),), 1000.5
)
HOSTS = tuple(NodeId(f"gpu-{number:04d}.cluster.example.org") for number in range(5000))
FOREIGN = [b"", b"[" * 3000, b'{"a":' * 3000, b"\xff", b"x" * (MAX_NODE_BYTES + 1), b"5",
           encode(TICKET).replace(b"1000.5", b"1e400"), encode(TICKET)[:-1]]  # fmt: skip


def entries(folder: str, *contents: bytes) -> dict[str, Entry]:
    return {
        f"/yarnam/queue/{folder}/application_1_{n:04d}@1-{n:010d}": Entry(data, 0, n, 1)
        for n, data in enumerate(contents)
    }


def test_foreign_bytes_are_passed_over_and_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    queue = ZooKeeperTicketQueue(
        ZooKeeper("127.0.0.1:1/yarnam"), "application_9_0009", FakeLiveApplications()
    )
    honest = f"application_1_{len(FOREIGN):04d}"
    ticket, gang = replace(TICKET, job=honest), RunningGang(honest, "root.gpu", 8, None)
    nodes = QueueNodes(
        None,
        entries("tickets", *FOREIGN, encode(ticket)),
        entries("running", *FOREIGN, encode(gang)),
        own=(),
        applications=None,
        trouble="",
    )
    for _ in range(3):
        found = queue._listed(nodes)
        assert [ticket.name for ticket in found.tickets] == ["train"]
        assert found.running == (gang,)
    assert len(caplog.messages) == 2 * len(FOREIGN)
    assert "application_1_0003@1-0000000003 of application_1_0003 is passed over" in caplog.text
    assert "yarnam docs zookeeper" in caplog.messages[0]


def test_an_honest_node_is_never_too_long() -> None:
    choosy = replace(TICKET, included=HOSTS)
    gang = RunningGang("application_1_0001", "q", 8000, None, tuple((host, 8) for host in HOSTS))
    assert max(len(encode(choosy)), len(encode(gang))) < MAX_NODE_BYTES


@pytest.mark.parametrize(
    "name",
    ["x", "@", "a@", "a@b", "a@" + "9" * 5000, "a@1-" + "9" * 5000, "a@\u0661-0000000001",
     "a" * 999 + "@1", "a@1-000000000\u0661"],
)  # fmt: skip
def test_names_that_no_job_has_are_nobodys(name: str) -> None:
    assert (job_of(name), am_attempt_of(name), number_of(name)) == ("", 0, 0)
