"""The policies of queues on a real ZooKeeper: two administrators at once, and what others write."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from yarnam.adapters.zookeeper.lazy_session import LazySession
from yarnam.adapters.zookeeper.queue_policies import MAX_BYTES, QueuePolicies
from yarnam.core.policies.chosen_policy import NOTHING_CHOSEN, active_policy, checked
from yarnam.errors import BadConfig, UsageError
from yarnam.wire.codec import encode

pytestmark = pytest.mark.zookeeper

QUEUE = "root.dl"
ADMIN = "digest:admin:secret"


@pytest.fixture
def open_policies(
    cluster_env: dict[str, str],
) -> Iterator[Callable[[], tuple[QueuePolicies, KazooClient, str]]]:
    """Each call: another client of the same root."""
    address = f"{cluster_env['YARNAM_ZOOKEEPER']}/yarnam-test-{uuid.uuid4().hex}"
    sessions: list[LazySession] = []

    def make() -> tuple[QueuePolicies, KazooClient, str]:
        sessions.append(LazySession(address))
        zookeeper = sessions[-1].connected()
        return QueuePolicies(zookeeper), zookeeper.kazoo, zookeeper.root

    yield make
    zookeeper = sessions[0].connected()
    zookeeper.kazoo.add_auth("digest", "admin:secret")
    zookeeper.kazoo.delete(zookeeper.root, recursive=True)
    for session in sessions:
        session.close()


Open = Callable[[], tuple[QueuePolicies, KazooClient, str]]


def test_what_one_administrator_chooses_everybody_reads(open_policies: Open) -> None:
    ann, _, _ = open_policies()
    job, _, _ = open_policies()
    assert job.of(QUEUE) == NOTHING_CHOSEN
    changes: list[object] = []
    job.of(QUEUE, changes.append)
    kept = ann.choose(QUEUE, checked("tiresias", {"limits": "60"}, by="ann", at_s=9.0), expected=0)
    found = job.of(QUEUE)
    assert found == kept
    assert (found.policy, found.settings, found.by) == ("tiresias", (("limits", "60"),), "ann")
    assert found.version > 0
    again = ann.choose(QUEUE, checked("fifo", {}), expected=found.version)
    assert again.version > found.version
    assert job.of(QUEUE).policy == "fifo"
    assert dict(job.all()) == {QUEUE: again}


def test_of_two_administrators_the_later_one_is_refused_and_told_by_whom(
    open_policies: Open,
) -> None:
    ann, bob = open_policies()[0], open_policies()[0]
    before = ann.choose(QUEUE, checked("fifo", {}), expected=0)
    ann.choose(QUEUE, checked("srtf", {}, by="ann"), expected=before.version)
    with pytest.raises(UsageError, match="changed by ann meanwhile"):
        bob.choose(QUEUE, checked("tiresias", {}, by="bob"), expected=before.version)
    with pytest.raises(UsageError, match="meanwhile"):
        bob.choose(QUEUE, checked("tiresias", {}), expected=0)
    assert bob.of(QUEUE).policy == "srtf"


def test_with_an_administrators_credentials_others_read_and_cannot_write(
    open_policies: Open,
) -> None:
    ann, _, _ = open_policies()
    other, kazoo, root = open_policies()
    kept = ann.choose(QUEUE, checked("fifo", {}), expected=0, admin=ADMIN)
    assert ann.is_protected(QUEUE)
    assert other.of(QUEUE) == kept
    path = f"{root}/policies/{QUEUE}"
    for write in (
        lambda: kazoo.set(path, b"{}"),
        lambda: kazoo.delete(path),
        lambda: kazoo.create(f"{root}/policies/root.x", b"{}"),
    ):
        with pytest.raises(NoAuthError):
            write()
    kazoo.create(f"{root}/hints")  # The root is everybody's, as ever.
    assert ann.choose(QUEUE, checked("srtf", {}), expected=kept.version, admin=ADMIN)


def test_without_them_it_says_so(open_policies: Open) -> None:
    ann, _, _ = open_policies()
    ann.choose(QUEUE, checked("fifo", {}), expected=0)
    assert not ann.is_protected(QUEUE)
    with pytest.raises(BadConfig) as found:
        ann.choose("root.x", checked("fifo", {}), expected=0, admin="kerberos:secret")
    assert "secret" not in str(found.value)


@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"\xff\x00",
        b"[" * 10_000,
        b'{"policy": 3}',
        b'{"policy": "fifo", "settings": [["skip", 1]]}',
        b'{"policy": "fifo", "at_s": 1e400}',
        b"x" * (MAX_BYTES + 1),
        encode(NOTHING_CHOSEN).replace(b"smallest-first", b"\x1b[2Jno-such"),
    ],
)
def test_what_is_no_choice_suspends_nobody(open_policies: Open, written: bytes) -> None:
    job, kazoo, root = open_policies()
    kazoo.create(f"{root}/policies/{QUEUE}", written, makepath=True)
    found = active_policy(job.of(QUEUE))
    if found is not None:
        assert found.policy is None
        assert found.trouble.isprintable()
    assert set(job.all()) == {QUEUE}


@pytest.mark.parametrize("queue", ["", ".", "..", "x" * 400])
def test_what_is_no_name_of_a_queue(open_policies: Open, queue: str) -> None:
    with pytest.raises(UsageError):
        open_policies()[0].of(queue)


def test_an_odd_name_stays_below_the_folder(open_policies: Open) -> None:
    ann, kazoo, root = open_policies()
    ann.choose("../root/a b", checked("fifo", {}), expected=0)
    assert kazoo.get_children(f"{root}/policies") == ["..%2Froot%2Fa%20b"]
    assert set(ann.all()) == {"../root/a b"}
