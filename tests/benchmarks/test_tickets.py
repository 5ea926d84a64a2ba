"""What a ticket costs a job that need not wait, against the look at the cluster that it goes
beside; and what a long line costs. On a real ZooKeeper and a real ResourceManager."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from yarnam.adapters.rm_rest import ResourceManager
from yarnam.adapters.zookeeper import ZooKeeper
from yarnam.adapters.zookeeper_tickets import ZooKeeperTickets
from yarnam.model.resources import Resources
from yarnam.model.tickets import Demand, Ticket

pytestmark = [pytest.mark.benchmark, pytest.mark.zookeeper, pytest.mark.timeout(300)]

ROUNDS = 15
LINE = 100
WANTED = Ticket(0, "", "train", "root.dl", (Demand(Resources(1024, 1, 1), 4),), 0.0)


@pytest.fixture
def open_office(cluster_env: dict[str, str]) -> Iterator[Callable[[str], ZooKeeperTickets]]:
    address = f"{cluster_env['YARNAM_ZOOKEEPER']}/yarnam-bench-{uuid.uuid4().hex}"
    opened: list[ZooKeeper] = []

    def make(job: str) -> ZooKeeperTickets:
        zookeeper = ZooKeeper(address)
        opened.append(zookeeper)
        office = ZooKeeperTickets(zookeeper, job)
        office.open(lambda: None)
        while office.trouble:
            time.sleep(0.001)
        return office

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
    cluster_env: dict[str, str], open_office: Callable[[str], ZooKeeperTickets]
) -> None:
    rm = ResourceManager.from_conf(cluster_env["HADOOP_CONF_DIR"])
    office = open_office("me")
    mine = replace(WANTED, job="me")

    def fast_path() -> None:
        office.take(mine)
        assert office.claim(mine, lambda others: True)
        office.give_back()

    look_ms = median_ms(lambda: rm.snapshot("root.dl"))
    alone_ms = median_ms(fast_path)
    others = [open_office(f"job{number}") for number in range(4)]
    for number in range(LINE):
        # One session may hold many tickets: the line is long, the test is not.
        holder = ZooKeeperTickets(others[number % 4]._zk, f"other{number}")
        holder.take(replace(WANTED, job=f"other{number}"))
    crowd_ms = median_ms(fast_path)
    office.take(mine)
    office.others()
    while office._copy.nodes() is None:
        office.others()
    copy_ms = median_ms(office.others)
    print()
    for what, took_ms in (
        ("look at the cluster (ResourceManager)", look_ms),
        ("take, claim, give back; nobody waits", alone_ms),
        (f"the same with {LINE} jobs in line", crowd_ms),
        ("read the others from the copy", copy_ms),
    ):
        print(f"  {what:40s} {took_ms:7.2f} ms, ratio to the look {took_ms / look_ms:5.2f}")
    assert len(office.others().tickets) == LINE
