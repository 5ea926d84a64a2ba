"""What a ticket costs a job that need not wait, against the look at the cluster that it goes
beside; and what a long line costs, the ZooKeeper of a thousand waiting jobs above all. On a real
ZooKeeper and a real ResourceManager."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.fakes.live_applications import FakeLiveApplications
from tests.fakes.ticket_queue import asking
from yarnam.adapters.yarn.rest import ResourceManager
from yarnam.adapters.zookeeper.session import ZooKeeper
from yarnam.adapters.zookeeper.ticket_queue import HEARTBEAT_S, ZooKeeperTicketQueue
from yarnam.core.admission.polling import FIRST_POLL_S, POLL_CAP_S
from yarnam.core.model.resources import Resources
from yarnam.core.model.tickets import Demand, LiveApplication, RunningGang, Ticket

pytestmark = [pytest.mark.benchmark, pytest.mark.zookeeper, pytest.mark.timeout(300)]

ROUNDS = 15
LINE = 100
LONG_LINE = 1000
LIVE = FakeLiveApplications(
    *(LiveApplication(f"other{number}", "", "root.dl", 0.0, 1) for number in range(LONG_LINE))
)
WANTED = Ticket(0, "", "train", "root.dl", (Demand(Resources(1024, 1, 1), 4),), 0.0)


@pytest.fixture
def open_office(cluster_env: dict[str, str]) -> Iterator[Callable[[str], ZooKeeperTicketQueue]]:
    address = f"{cluster_env['YARNAM_ZOOKEEPER']}/yarnam-bench-{uuid.uuid4().hex}"
    opened: list[ZooKeeper] = []

    def make(job: str) -> ZooKeeperTicketQueue:
        zookeeper = ZooKeeper(address)
        opened.append(zookeeper)
        queue = ZooKeeperTicketQueue(zookeeper, job, LIVE)
        queue.open(lambda: None)
        while queue.trouble:
            time.sleep(0.001)
        return queue

    yield make
    make("sweeper")
    opened[-1].kazoo.delete(opened[-1].root, recursive=True)
    for zookeeper in opened:
        zookeeper.close()


def median_ms(call: Callable[[], object]) -> float:
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        call()
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


def test_a_ticket_against_a_look(
    cluster_env: dict[str, str], open_office: Callable[[str], ZooKeeperTicketQueue]
) -> None:
    rm = ResourceManager.from_conf(cluster_env["HADOOP_CONF_DIR"])
    queue = open_office("me")
    mine = replace(WANTED, job="me")

    def fast_path() -> None:
        queue.take(mine)
        assert queue.claim(asking(mine))
        queue.set_running(RunningGang("me", "root.dl", 8, None))

    look_ms = median_ms(lambda: rm.snapshot("root.dl"))
    alone_ms = median_ms(fast_path)
    others = [open_office(f"job{number}") for number in range(4)]
    for number in range(LINE):
        # One session may hold many tickets: the line is long, the test is not.
        holder = ZooKeeperTicketQueue(others[number % 4]._zk, f"other{number}", LIVE)
        holder.take(replace(WANTED, job=f"other{number}"))
    crowd_ms = median_ms(fast_path)
    queue.take(mine)
    queue.others()
    read_ms = median_ms(queue.others)
    print()
    for what, took_ms in (
        ("look at the cluster (ResourceManager)", look_ms),
        ("take, claim, run; nobody waits", alone_ms),
        (f"the same with {LINE} jobs in line", crowd_ms),
        ("read the others", read_ms),
    ):
        print(f"  {what:40s} {took_ms:7.2f} ms, ratio to the look {took_ms / look_ms:5.2f}")
    assert len(queue.others().tickets) == LINE


def packets(zookeeper: ZooKeeper) -> dict[str, int]:
    """What the server has counted: requests of all its clients, and the watches that they hold."""
    text = zookeeper.kazoo.command(b"mntr")
    found = dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)
    return {name: int(found[f"zk_{name}"]) for name in ("packets_received", "watch_count")}


def test_what_a_thousand_tickets_cost_zookeeper(
    open_office: Callable[[str], ZooKeeperTicketQueue],
) -> None:
    """One look, by the server's own count of requests; and what follows for all waiting jobs at the
    pace at which they poll. Every ticket gives a sign of life between two looks."""
    queue, other = open_office("me"), open_office("other")
    holders = [
        ZooKeeperTicketQueue(other._zk, f"other{number}", LIVE, now_s=lambda: clock[0])
        for number in range(LONG_LINE)
    ]
    clock = [time.time()]
    tickets = [replace(WANTED, job=f"other{number}") for number in range(LONG_LINE)]
    taken = [holder.take(ticket) for holder, ticket in zip(holders, tickets, strict=True)]
    queue.take(replace(WANTED, job="me"))
    queue.others()

    def look(call: Callable[[], object]) -> tuple[float, float]:
        """Requests, and milliseconds."""
        counts, times = [], []
        for _ in range(3):
            clock[0] += HEARTBEAT_S + 1
            for holder, ticket in zip(holders, taken, strict=True):
                holder.update(ticket)
            first, began = packets(queue._zk)["packets_received"], time.perf_counter()
            call()
            times.append((time.perf_counter() - began) * 1000)
            counts.append(packets(queue._zk)["packets_received"] - first)
        return statistics.median(counts), statistics.median(times)

    whole, whole_ms = look(queue._nodes.read)
    part, part_ms = look(queue.others)
    looks = sum(1 / min(POLL_CAP_S, FIRST_POLL_S * (1 + ahead)) for ahead in range(LONG_LINE))
    print(f"\n  {LONG_LINE} tickets, {packets(queue._zk)['watch_count']} watches of one job")
    for what, requests, took_ms in (("all read", whole, whole_ms), ("a part", part, part_ms)):
        print(
            f"  one look, {what:9s} {requests:6.0f} requests {took_ms:7.1f} ms; of all jobs "
            f"{looks * requests:8.0f} requests a second; ratio {requests / whole:.3f}"
        )
    print(f"  signs of life: {LONG_LINE / HEARTBEAT_S:.0f} writes a second")
    assert len(queue.others().tickets) == LONG_LINE
    assert part < whole / 5
