"""What a ticket costs a job that need not wait, against the look at the cluster that it goes
beside; and what a long line costs. On a real ZooKeeper and a real ResourceManager."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.fakes.live_applications import FakeLiveApplications
from yarnam.adapters.yarn.rest import ResourceManager
from yarnam.adapters.zookeeper.session import ZooKeeper
from yarnam.adapters.zookeeper.ticket_queue import ZooKeeperTicketQueue
from yarnam.core.model.resources import Resources
from yarnam.core.model.tickets import Demand, LiveApplication, RunningGang, Ticket

pytestmark = [pytest.mark.benchmark, pytest.mark.zookeeper, pytest.mark.timeout(300)]

ROUNDS = 15
LINE = 100
LIVE = FakeLiveApplications(
    *(LiveApplication(f"other{number}", "", "root.dl", 0.0, 1) for number in range(LINE))
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
        assert queue.claim(mine, lambda others: True)
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
