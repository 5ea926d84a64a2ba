"""Cordons and stopped queues on a real ZooKeeper: who may write, and what others wrote."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from kazoo.client import KazooClient

from yarnam.adapters.zookeeper.closed_places import MAX_BY, MAX_BYTES, ClosedPlaces, ClosureReader
from yarnam.adapters.zookeeper.lazy_session import LazySession
from yarnam.core.model.ids import NodeId
from yarnam.core.model.snapshot import Closure, Closures
from yarnam.errors import NoPermission

pytestmark = pytest.mark.zookeeper

ADMIN = "digest:admin:secret"
DISK = Closure("ann", 1000.0, "disk errors", 2000.0, was_closed=True)

Open = Callable[[], tuple[ClosedPlaces, KazooClient, LazySession]]


def nodes(found: Closures | None) -> list[str]:
    assert found is not None
    return [str(node) for node in found.nodes]


@pytest.fixture
def open_places(cluster_env: dict[str, str]) -> Iterator[Open]:
    """Each call: another client of the same root."""
    address = f"{cluster_env['YARNAM_ZOOKEEPER']}/yarnam-test-{uuid.uuid4().hex}"
    sessions: list[LazySession] = []

    def make() -> tuple[ClosedPlaces, KazooClient, LazySession]:
        sessions.append(LazySession(address))
        zookeeper = sessions[-1].connected()
        return ClosedPlaces(zookeeper), zookeeper.kazoo, sessions[-1]

    yield make
    zookeeper = sessions[0].connected()
    zookeeper.kazoo.add_auth("digest", "admin:secret")
    zookeeper.kazoo.delete(zookeeper.root, recursive=True)
    for session in sessions:
        session.close()


def test_what_one_closes_everybody_reads(open_places: Open) -> None:
    ann, job = open_places()[0], open_places()[0]
    assert job.all() == Closures()
    ann.close("node", "n1", DISK)
    ann.close("queue", "root.a/b", DISK)
    assert job.all() == Closures({NodeId("n1"): DISK}, {"root.a/b": DISK})
    ann.close("node", "n1", Closure("bob", 1.0))
    assert job.of("node", "n1") == Closure("bob", 1.0)
    ann.open("node", "n1")
    ann.open("node", "n1")
    assert job.all() == Closures({}, {"root.a/b": DISK})
    assert not job.is_protected()


def test_with_an_administrators_credentials_others_read_and_cannot_write(open_places: Open) -> None:
    ann, stranger = open_places()[0], open_places()[0]
    ann.close("node", "n1", DISK, admin=ADMIN)
    assert stranger.all() == Closures({NodeId("n1"): DISK})
    assert stranger.is_protected()
    for change in (
        lambda: stranger.close("node", "n1", DISK),
        lambda: stranger.close("node", "n2", DISK),
        lambda: stranger.open("node", "n1"),
    ):
        with pytest.raises(NoPermission, match="only administrators may write"):
            change()
    ann.open("node", "n1", admin=ADMIN)
    assert stranger.all() == Closures()


def test_what_cannot_be_read_closes_nothing(open_places: Open) -> None:
    places, kazoo, session = open_places()
    places.close("node", "n1", DISK)
    folder = session.connected().path("closed")
    kazoo.create(f"{folder}/node=n2", b"{")
    kazoo.create(f"{folder}/node=n3", b"x" * (MAX_BYTES + 1))
    kazoo.create(f"{folder}/other=n4", b"{}")
    assert places.all() == Closures({NodeId("n1"): DISK})


def test_a_large_node_is_not_fetched_and_a_long_name_is_cut(
    open_places: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, kazoo, session = open_places()
    places.close("node", "n1", replace(DISK, by="ann" * 500))
    folder = session.connected().path("closed")
    kazoo.create(f"{folder}/node=n2", b"x" * 900_000)
    fetched: list[str] = []
    get = kazoo.get_async

    def counted(path: str, *rest: object) -> object:
        fetched.append(path.rpartition("/")[2])
        return get(path, *rest)

    monkeypatch.setattr(kazoo, "get_async", counted)
    found = places.all()
    assert places.of("node", "n2") is None
    assert fetched == ["node=n1"]
    assert [len(one.by) for one in found.nodes.values()] == [MAX_BY]


def test_a_reader_keeps_what_it_knew_while_zookeeper_is_away(open_places: Open) -> None:
    places, session = open_places()[0], open_places()[2]
    places.close("node", "n1", DISK)
    now_s = [0.0]
    read = ClosureReader(session, monotonic_s=lambda: now_s[0])
    assert nodes(read()) == ["n1"]
    places.open("node", "n1")
    assert nodes(read()) == ["n1"], "a copy of this age will do"
    now_s[0] = 5.0
    assert read() == Closures()
    places.close("node", "n1", DISK)
    now_s[0] = 10.0
    assert nodes(read()) == ["n1"]
    session.close()
    now_s[0] = 20.0
    assert nodes(read()) == ["n1"]


def test_what_is_closed_is_not_known_before_zookeeper_has_answered() -> None:
    session = LazySession("127.0.0.1:1/yarnam-test")
    try:
        assert ClosureReader(session)() is None
    finally:
        session.close()
