"""How much of a long queue one look reads, on a ZooKeeper of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from kazoo.protocol.states import ZnodeStat

from tests.fakes.live_applications import FakeLiveApplications
from yarnam.adapters.zookeeper.session import Entry, ZooKeeper
from yarnam.adapters.zookeeper.ticket_nodes import NEW_AT_ONCE, RECHECKED, TicketNodes
from yarnam.core.model.tickets import LiveApplication

JOBS = 1000
ROOT = "/yarnam"
CLAIM = f"{ROOT}/queue/claim"
LIVE = [LiveApplication(f"application_1_{n:04d}", "", "root.dl", 0.0, 1) for n in range(JOBS)]


@dataclass
class CountingZooKeeper:
    """Nodes with content and the number of their last write. Counts ``exists`` and ``get``."""

    nodes: dict[str, Entry] = field(default_factory=dict)
    writes: int = 0
    reads: int = 0

    def write(self, path: str, data: bytes = b"{}") -> None:
        self.writes += 1
        before = self.nodes.get(path)
        created = before.created if before else self.writes
        version = before.version + 1 if before else 0
        self.nodes[path] = Entry(data, version, self.writes, 1, 0.0, created)

    def path(self, *names: str) -> str:
        return "/".join([ROOT, *names])

    def checking(self, path: str, watch: object = None) -> Callable[[], Any]:
        return lambda: self._stat(path)

    def listing(self, path: str, watch: object = None) -> Callable[[], Any]:
        below = f"{path}/"
        return lambda: [name.removeprefix(below) for name in self.nodes if name.startswith(below)]

    def together(self, calls: Sequence[Callable[[], Any]], doing: str) -> list[Any]:
        return [call() for call in calls]

    def read(self, *paths: str) -> list[Entry | None]:
        self.reads += len(paths)
        return [self.nodes.get(path) for path in paths]

    def _stat(self, path: str) -> ZnodeStat | None:
        self.reads += 1
        node = self.nodes.get(path)
        if node is None:
            is_folder = any(name.startswith(f"{path}/") for name in self.nodes)
            return ZnodeStat(0, 0, 0, 0, 0, 0, 0, 0, 0, JOBS, 0) if is_folder else None
        return ZnodeStat(node.created, node.changed, 0, 0, node.version, 0, 0, 1, len(node.data),
                         0, 0)  # fmt: skip


def ticket(number: int) -> str:
    return f"{ROOT}/queue/tickets/application_1_{number:04d}@1-{number:010d}"


def long_queue() -> tuple[CountingZooKeeper, TicketNodes]:
    zookeeper = CountingZooKeeper()
    for number in range(JOBS):
        zookeeper.write(ticket(number))
    live = FakeLiveApplications(*LIVE)
    nodes = TicketNodes(
        cast("ZooKeeper", zookeeper), "application_9_0001", live, changed=lambda: None
    )
    assert len(nodes.read().tickets) == JOBS
    zookeeper.reads = 0
    return zookeeper, nodes


def test_a_look_at_a_long_queue_reads_a_part_of_it() -> None:
    zookeeper, nodes = long_queue()
    for number in range(JOBS):
        zookeeper.write(ticket(number))  # a sign of life of each
    found = nodes.read(is_fresh=False)
    assert len(found.tickets) == JOBS
    assert len(found.looked_at) == RECHECKED
    assert zookeeper.reads <= 2 * RECHECKED + 5


def returned(running: int = 0) -> tuple[CountingZooKeeper, TicketNodes]:
    """ZooKeeper has lost all sessions, and all jobs have made their nodes again."""
    zookeeper = CountingZooKeeper()
    for number in reversed(range(JOBS)):
        path = ticket(number)
        if number < running:
            path = f"{ROOT}/queue/running/application_1_{number:04d}@1"
        zookeeper.write(path)
    nodes = TicketNodes(
        cast("ZooKeeper", zookeeper), "application_9_0001", FakeLiveApplications(*LIVE),
        changed=lambda: None,
    )  # fmt: skip
    return zookeeper, nodes


def test_after_zookeeper_s_return_a_look_reads_the_first_of_the_queue_only() -> None:
    zookeeper, nodes = returned()
    found = nodes.read(is_fresh=False)
    assert list(found.tickets) == [ticket(n) for n in reversed(range(NEW_AT_ONCE))]
    assert found.unread == JOBS - NEW_AT_ONCE
    assert zookeeper.reads <= 2 * NEW_AT_ONCE + 5


def test_it_is_read_whole_in_some_looks_and_by_a_claim_at_once() -> None:
    zookeeper, nodes = returned(running=400)
    counts = []
    while not counts or counts[-1]:
        before = zookeeper.reads
        counts.append(nodes.read(is_fresh=False).unread)
        assert zookeeper.reads - before <= 2 * (NEW_AT_ONCE + RECHECKED) + 5
    assert len(counts) == JOBS // NEW_AT_ONCE
    assert not returned()[1].read().unread


def test_running_gangs_and_tickets_are_read_in_turn() -> None:
    _, nodes = returned(running=400)
    found = nodes.read(is_fresh=False)
    assert (len(found.running), len(found.tickets)) == (NEW_AT_ONCE // 2, NEW_AT_ONCE // 2)


def test_more_nodes_of_known_jobs_are_not_unread_and_come_last() -> None:
    """A forger may make them as often as he likes."""
    zookeeper, nodes = long_queue()
    for number in range(200):
        zookeeper.write(ticket(number).replace("@1", "@2"))
    zookeeper.write(f"{ROOT}/queue/running/application_1_0999@1")
    found = nodes.read(is_fresh=False)
    assert not found.unread
    assert len(found.running) == 1


def test_every_ticket_is_looked_at_in_turn() -> None:
    zookeeper, nodes = long_queue()
    zookeeper.write(ticket(777), b"new")
    for _ in range(JOBS // RECHECKED):
        found = nodes.read(is_fresh=False)
    assert found.tickets[ticket(777)].data == b"new"


def test_what_comes_and_goes_is_seen_at_once() -> None:
    zookeeper, nodes = long_queue()
    del zookeeper.nodes[ticket(5)]
    zookeeper.write(ticket(6).replace("@1", "@2"), b"next AM attempt")
    found = nodes.read(is_fresh=False)
    assert ticket(5) not in found.tickets
    assert found.tickets[ticket(6).replace("@1", "@2")].data == b"next AM attempt"


def test_the_last_claimer_and_the_watched_are_looked_at_first() -> None:
    zookeeper, nodes = long_queue()
    for number in (900, 950):
        zookeeper.write(ticket(number), b"acquiring")
    zookeeper.write(CLAIM, b"application_1_0900 901")
    found = nodes.read(is_fresh=False, watched={ticket(950)})
    assert {found.tickets[ticket(n)].data for n in (900, 950)} == {b"acquiring"}
    assert nodes.read(is_fresh=False).claim_version == found.claim_version


def test_watched_tickets_leave_room_for_the_others() -> None:
    _, nodes = long_queue()
    watched = {ticket(number) for number in range(0, JOBS, 2)}
    found = nodes.read(is_fresh=False, watched=watched)
    assert len(found.looked_at) == RECHECKED
    assert len(found.looked_at - watched) >= RECHECKED // 4


def test_a_claim_reads_all_of_them() -> None:
    zookeeper, nodes = long_queue()
    zookeeper.write(ticket(999), b"new")
    found = nodes.read()
    assert found.tickets[ticket(999)].data == b"new"
    assert len(found.looked_at) == JOBS
    assert zookeeper.reads <= JOBS + 10, "what has not changed is not read again"
