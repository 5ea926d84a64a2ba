"""What jobs tell one another through a real ZooKeeper: strikes against nodes, models of GPUs."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import hdfs_utils
from tests.fakes.files import MemoryFiles
from yarnam.adapters.gpu_inventory import (
    FileInventoryStore,
    GpuInventory,
    InventoryStore,
)
from yarnam.adapters.zookeeper.inventory_store import ZooKeeperInventoryStore
from yarnam.adapters.zookeeper.lazy_session import LazySession
from yarnam.adapters.zookeeper.node_hints import (
    HINT_LIFE_S,
    MAX_REASON_BYTES,
    MOST_AT_ONCE,
    MOST_CHILDREN,
    REPEAT_S,
    ZooKeeperHints,
    recent_strikes,
)
from yarnam.core.model.events import Event, NodesSuspected
from yarnam.core.model.ids import NodeId
from yarnam.errors import Unavailable

LIMIT_S = 15.0
N1, N2, N3 = NodeId("n1"), NodeId("n2.example"), NodeId("127.0.1.1")
NODES = frozenset({N1, N2, N3})

OpenGate = Callable[[], LazySession]


@pytest.fixture
def open_gate(cluster_env: dict[str, str]) -> Iterator[OpenGate]:
    root = f"yarnam-test-{uuid.uuid4().hex}"
    gates: list[LazySession] = []

    def make() -> LazySession:
        session = LazySession(f"{cluster_env['YARNAM_ZOOKEEPER']}/{root}")
        gates.append(session)
        return session

    yield make
    make().connected().kazoo.delete(f"/{root}", recursive=True)
    for session in gates:
        session.close()


class Listener:
    """A job that hears the others."""

    def __init__(self, session: LazySession, job: str, ahead_s: float = 0.0) -> None:
        self.events: list[Event] = []
        self.ahead_s = ahead_s
        self.nodes = NODES
        self.hints = ZooKeeperHints(
            session, job, lambda: self.nodes, now_s=lambda: time.time() + self.ahead_s
        )

    def heard(self) -> list[str]:
        nodes: list[str] = []
        for event in self.events:
            assert isinstance(event, NodesSuspected)
            nodes += event.nodes
        return nodes

    def until(self, *nodes: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while sorted(self.heard()) != sorted(nodes):
            assert time.monotonic() < deadline, self.heard()
            time.sleep(0.02)


@pytest.mark.zookeeper
def test_an_administrator_reads_who_struck_a_node_and_why(open_gate: OpenGate) -> None:
    gate = open_gate()
    first, second, long = (f"application_1700000000000_000{k}" for k in (1, 2, 3))
    assert recent_strikes(gate.connected(), time.time()) == ()
    Listener(gate, first).hints.share(N1, "ECC error")
    Listener(gate, second).hints.share(N2, "slow links")
    Listener(gate, long).hints.share(N1, "x" * (MAX_REASON_BYTES + 1))
    Listener(gate, "no application").hints.share(N3, "forged")
    found = recent_strikes(gate.connected(), time.time())
    assert [one.at_s for one in found] == sorted((one.at_s for one in found), reverse=True)
    assert {(one.node, one.job, one.why) for one in found} == {
        (N1, first, "ECC error"), (N2, second, "slow links"), (N1, long, ""),
    }  # fmt: skip
    assert recent_strikes(gate.connected(), time.time() + HINT_LIFE_S) == ()


@pytest.mark.long
@pytest.mark.zookeeper
def test_strikes_of_others_are_heard_old_ones_at_the_start_new_ones_as_they_come(
    open_gate: OpenGate,
) -> None:
    first = ZooKeeperHints(open_gate(), "application_1", lambda: NODES)
    first.share(NodeId("no-such-node"), "never heard: the cluster does not have it")
    first.share(N1, "agent silent")
    listener = Listener(open_gate(), "application_2")
    listener.hints.start(listener.events.append)
    listener.until(N1)
    first.share(N2, "node lost")
    listener.until(N1, N2)
    # Again is fresh again, after a while.
    listener.ahead_s = REPEAT_S + 1.0
    first.share(N1, "agent silent again")
    listener.until(N1, N1, N2)
    # Its own it knows already.
    listener.hints.share(N3, "mine")
    time.sleep(0.7)
    listener.until(N1, N1, N2)
    for one in (first, listener.hints):
        one.close()
        one.close()


@pytest.mark.zookeeper
def test_strikes_that_come_together_are_one_event(open_gate: OpenGate) -> None:
    first = ZooKeeperHints(open_gate(), "application_1", lambda: NODES)
    for node in (N1, N2, N3):
        first.share(node, "rack lost")
    listener = Listener(open_gate(), "application_2")
    listener.hints.start(listener.events.append)
    listener.until(N1, N2, N3)
    assert len(listener.events) == 1
    listener.hints.close()


@pytest.mark.zookeeper
def test_old_strikes_are_not_told_and_are_cleared_away(open_gate: OpenGate) -> None:
    session = open_gate()
    ZooKeeperHints(session, "application_1", lambda: NODES).share(N1, "long ago")
    late = Listener(session, "application_2", ahead_s=HINT_LIFE_S + 1.0)
    late.hints.start(late.events.append)
    time.sleep(1.0)
    assert late.events == []
    zookeeper = session.connected()
    assert zookeeper.children(zookeeper.path("hints")) == ["n1@application_1"]
    late.hints.share(N2, "now")
    # Its own is as old to that clock.
    assert "n1@application_1" not in zookeeper.children(zookeeper.path("hints"))


@pytest.mark.zookeeper
def test_a_flood_of_hints_reaches_a_job_in_small_doses(open_gate: OpenGate) -> None:
    """Of nodes that there are not, of all that there are, again and again, with any content."""
    session = open_gate()
    zookeeper = session.connected()
    nodes = frozenset(NodeId(f"node{number:03d}") for number in range(100))
    for number in range(150):
        zookeeper.create(zookeeper.path("hints", f"node{number:03d}@foe"), b"\xff" * 1000)
        zookeeper.create(zookeeper.path("hints", f"no-such-{number}@foe"))
    for name in ("@", "node000", "node000@", "@foe", "node999@foe@foe"):
        zookeeper.create(zookeeper.path("hints", name))
    listener = Listener(open_gate(), "application_2")
    listener.nodes = nodes
    listener.hints.start(listener.events.append)
    deadline = time.monotonic() + 2 * LIMIT_S
    while len(listener.events) < 2:
        assert time.monotonic() < deadline
        listener.hints._changed.set()  # as whoever rewrites them all the time does
        time.sleep(0.05)
    assert [len(event.nodes) for event in listener.events] == [MOST_AT_ONCE, MOST_AT_ONCE]  # type: ignore[union-attr]
    heard = listener.heard()
    assert len(set(heard)) == len(heard)
    assert nodes.issuperset(heard)
    listener.hints.close()


@pytest.mark.zookeeper
def test_more_hints_than_are_read_are_named_in_the_log(
    open_gate: OpenGate, caplog: pytest.LogCaptureFixture
) -> None:
    session = open_gate()
    zookeeper = session.connected()
    zookeeper.create(zookeeper.path("hints"))
    made = zookeeper.kazoo.transaction
    for batch in range(0, MOST_CHILDREN + 1, 1000):
        transaction = made()
        for number in range(batch, min(batch + 1000, MOST_CHILDREN + 1)):
            transaction.create(zookeeper.path("hints", f"n1@{number}"))
        transaction.commit()
    listener = Listener(open_gate(), "application_2")
    listener.hints.start(listener.events.append)
    deadline = time.monotonic() + LIMIT_S
    while "it has been flooded" not in caplog.text:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert f"{zookeeper.path('hints')} has {MOST_CHILDREN + 1} nodes" in caplog.text
    assert listener.events == []
    listener.hints.close()


def test_without_zookeeper_nothing_is_told_and_nothing_fails() -> None:
    listener = Listener(LazySession("127.0.0.1:1/yarnam"), "application_1")
    listener.hints.start(listener.events.append)
    listener.hints.share(N1, "reason")
    listener.hints.close()
    with pytest.raises(Unavailable, match="does not answer"):
        LazySession("127.0.0.1:1/yarnam").connected()


# ---- models of GPUs ------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "local", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], InventoryStore]:
    if request.param == "zookeeper":
        open_gate: OpenGate = request.getfixturevalue("open_gate")
        return lambda: ZooKeeperInventoryStore(open_gate())
    files = MemoryFiles() if request.param == "memory" else hdfs_utils.connect("file:///")
    folder = "/user/me/.yarnam" if request.param == "memory" else str(tmp_path)
    return lambda: FileInventoryStore(files, folder)


def test_what_one_job_learns_another_knows(shelf: Callable[[], InventoryStore]) -> None:
    first, second = GpuInventory(shelf()), GpuInventory(shelf())
    assert first.known().models == {}
    first.learn(N1, "NVIDIA A100-SXM4-80GB")
    first.learn(N2, "Tesla T4")
    first.learn(N3, "")
    assert first.known().models == {N1: "NVIDIA A100-SXM4-80GB", N2: "Tesla T4"}
    assert second.known().models == first.known().models
    second.learn(N2, "NVIDIA H100")  # the machine has been rebuilt
    assert GpuInventory(shelf()).known().models == {N1: "NVIDIA A100-SXM4-80GB", N2: "NVIDIA H100"}


def test_what_is_known_is_asked_once_a_minute() -> None:
    class Counting(FileInventoryStore):
        reads = 0

        def read(self) -> bytes:
            self.reads += 1
            return super().read()

    now_s = 0.0
    counting = Counting(MemoryFiles(), "/x")
    inventory = GpuInventory(counting, now_s=lambda: now_s)
    for _ in range(5):
        inventory.known()
    assert counting.reads == 1
    now_s = 61.0
    inventory.known()
    assert counting.reads == 2


@pytest.mark.zookeeper
def test_models_learnt_at_one_moment_are_all_kept(open_gate: OpenGate) -> None:
    inventories = [GpuInventory(ZooKeeperInventoryStore(open_gate())) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for number, inventory in enumerate(inventories):
            pool.submit(inventory.learn, NodeId(f"n{number}"), "A100")
    assert len(GpuInventory(ZooKeeperInventoryStore(open_gate())).known().models) == 4


def test_a_shelf_that_does_not_answer_is_no_error() -> None:
    inventory = GpuInventory(ZooKeeperInventoryStore(LazySession("127.0.0.1:1/yarnam")))
    assert inventory.known().models == {}
    inventory.learn(N1, "A100")
    assert inventory.known().models == {}
