"""One contract for the place where waiting jobs share their snapshots: in memory, and on a real
ZooKeeper. And what has been written there by nobody who means well."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.fakes.cluster_view import cluster
from tests.fakes.shared_snapshots import FakeSharedSnapshots
from yarnam.adapters.zookeeper.lazy_session import LazySession
from yarnam.adapters.zookeeper.snapshot_store import PUBLISH_EVERY_S, ZooKeeperSnapshots
from yarnam.core.model.ids import NodeId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, NodeState
from yarnam.ports.shared_snapshot import SharedSnapshots
from yarnam.wire.shared.cluster_summary import MAX_BYTES, encode_summary

USED = cluster(used=3)


class Skewed:
    """The time of day, which a test can move on."""

    ahead_s = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_s


@pytest.fixture
def now_s() -> Skewed:
    return Skewed()


@pytest.fixture
def open_store(
    request: pytest.FixtureRequest, now_s: Skewed
) -> Iterator[Callable[[], ZooKeeperSnapshots]]:
    """Each call: another job's."""
    hosts = request.getfixturevalue("cluster_env")["YARNAM_ZOOKEEPER"]
    address = f"{hosts}/yarnam-test-{uuid.uuid4().hex}"
    sessions: list[LazySession] = []

    def make() -> ZooKeeperSnapshots:
        sessions.append(LazySession(address))
        return ZooKeeperSnapshots(sessions[-1], now_s=now_s)

    yield make
    zookeeper = sessions[0].connected()
    zookeeper.kazoo.delete(zookeeper.root, recursive=True)
    for session in sessions:
        session.close()


Pair = tuple[SharedSnapshots, SharedSnapshots]


@pytest.fixture(params=["fake", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
def jobs(request: pytest.FixtureRequest, now_s: Skewed) -> Pair:
    """One that publishes, and one that reads."""
    if request.param == "fake":
        return FakeSharedSnapshots.of_two_jobs(now_s)
    make = request.getfixturevalue("open_store")
    return make(), make()


def test_what_one_job_publishes_another_reads(jobs: Pair) -> None:
    author, reader = jobs
    assert reader.newest(10.0) is None
    author.publish(USED)
    found = reader.newest(10.0)
    assert found is not None
    assert found.nodes == {
        node.node_id: (NodeState.RUNNING, Resources(0, 0, 3)) for node in USED.nodes
    }
    assert found.queues == USED.queues


def test_nobody_reads_back_what_he_has_published(jobs: Pair) -> None:
    author, _ = jobs
    author.publish(USED)
    assert author.newest(10.0) is None


def test_an_old_one_is_not_given(jobs: Pair, now_s: Skewed) -> None:
    author, reader = jobs
    author.publish(USED)
    assert reader.newest(10.0) is not None
    now_s.ahead_s = 11.0
    assert reader.newest(10.0) is None
    assert reader.newest(60.0) is not None


# ---- ZooKeeper -----------------------------------------------------------------------------------


def written(store: ZooKeeperSnapshots, data: bytes) -> None:
    zookeeper = store._session.connected()
    zookeeper.kazoo.ensure_path(zookeeper.path("snapshot"))
    zookeeper.kazoo.set(zookeeper.path("snapshot"), data)


@pytest.mark.zookeeper
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        encode_summary(USED)[:-5],
        encode_summary(USED) + b"more",
        b"x" * (MAX_BYTES + 1),
    ],
    ids=["empty", "nonsense", "torn", "with-a-tail", "too-large"],
)
def test_what_cannot_be_read_is_as_none_and_replaced_at_once(
    open_store: Callable[[], ZooKeeperSnapshots], data: bytes
) -> None:
    author, reader = open_store(), open_store()
    written(author, data)
    assert reader.newest(60.0) is None
    reader.publish(USED)
    assert author.newest(60.0) is not None


@pytest.mark.zookeeper
def test_the_age_is_never_less_than_since_the_reader_saw_it(
    open_store: Callable[[], ZooKeeperSnapshots], now_s: Skewed
) -> None:
    """A reader whose clock is behind ZooKeeper's would take an old one for new."""
    author, reader = open_store(), open_store()
    now_s.ahead_s = -3600.0
    author.publish(USED)
    assert reader.newest(10.0) is not None
    now_s.ahead_s += 11.0
    assert reader.newest(10.0) is None


@pytest.mark.zookeeper
def test_of_several_at_once_the_first_is_kept(
    open_store: Callable[[], ZooKeeperSnapshots], now_s: Skewed
) -> None:
    first, second = open_store(), open_store()
    first.publish(USED)
    second.publish(cluster())
    found = second.newest(10.0)
    assert found is not None
    assert found.nodes[USED.nodes[0].node_id][1].gpus == 3
    now_s.ahead_s = PUBLISH_EVERY_S + 0.5
    second.publish(cluster())
    found = first.newest(10.0)
    assert found is not None
    assert found.nodes[USED.nodes[0].node_id][1].gpus == 0


@pytest.mark.zookeeper
def test_a_cluster_too_large_to_share_is_not_published(
    open_store: Callable[[], ZooKeeperSnapshots], monkeypatch: pytest.MonkeyPatch
) -> None:
    author, reader = open_store(), open_store()
    monkeypatch.setattr("yarnam.adapters.zookeeper.snapshot_store.MAX_BYTES", 50)
    author.publish(USED)
    assert reader.newest(10.0) is None


def test_ten_thousand_nodes_fit_well() -> None:
    """With names as clouds give them, and a different use on nearly each node."""
    size = len(encode_summary(_large(10_000)))
    assert size < MAX_BYTES / 2


def _large(nodes: int) -> ClusterSnapshot:
    one = cluster(nodes=1).nodes[0]
    return replace(
        USED,
        nodes=tuple(
            replace(
                one,
                node_id=NodeId(f"ip-10-{n % 7}-{n // 250}-{n % 250}.eu-west-1.compute.internal"),
                used=Resources(1024 * (n * 7919 % 250), n * 104729 % 64, n % 9),
            )
            for n in range(nodes)
        ),
    )
