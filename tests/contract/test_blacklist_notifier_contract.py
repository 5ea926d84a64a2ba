"""One contract for every notifier: the fake and a real ZooKeeper."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.fakes.blacklist_notifier import FakeBlacklistNotifier, FakeChannel
from yarnam.errors import Unavailable
from yarnam.ports.input_blacklist import BlacklistNotifier

HEARD_S = 5.0
QUIET_S = 0.5


@pytest.fixture(params=["fake", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
def new_bell(request: pytest.FixtureRequest) -> Iterator[Callable[[], BlacklistNotifier]]:
    """Makes bells that hear each other."""
    made: list[BlacklistNotifier] = []
    tower = FakeChannel()
    root = f"/yarnam-test-{uuid.uuid4().hex[:8]}"
    if request.param == "zookeeper":
        address = request.getfixturevalue("cluster_env")["YARNAM_ZOOKEEPER"]

    def make() -> BlacklistNotifier:
        if request.param == "fake":
            made.append(FakeBlacklistNotifier(tower))
        else:
            from yarnam.adapters.zookeeper.blacklist_notifier import ZooKeeperBlacklistNotifier
            from yarnam.adapters.zookeeper.session import ZooKeeper

            made.append(ZooKeeperBlacklistNotifier(ZooKeeper(address.partition("/")[0] + root)))
        return made[-1]

    yield make
    for notifier in made:
        notifier.close()
    if request.param == "zookeeper":
        from kazoo.client import KazooClient

        cleaner = KazooClient(address.partition("/")[0])
        cleaner.start(10)
        cleaner.delete(root, recursive=True)
        cleaner.stop()
        cleaner.close()


class Ear:
    def __init__(self) -> None:
        self.count = 0
        self._on_change = threading.Condition()

    def __call__(self) -> None:
        with self._on_change:
            self.count += 1
            self._on_change.notify_all()

    def hears(self, more_than: int, within_s: float = HEARD_S) -> bool:
        with self._on_change:
            return self._on_change.wait_for(lambda: self.count > more_than, within_s)

    def settle(self) -> int:
        """The count once it no longer changes: listening itself is on_change once."""
        assert self.hears(0)
        while self.hears(self.count, QUIET_S):
            pass
        return self.count


def test_a_ring_is_heard_by_who_listens_for_that_place(
    new_bell: Callable[[], BlacklistNotifier],
) -> None:
    listening, ringing = new_bell(), new_bell()
    here, elsewhere = Ear(), Ear()
    listening.subscribe(["/a/.b", "/c/.b"], here)
    listening.subscribe(["/x/.b"], elsewhere)
    before_here, before_elsewhere = here.settle(), elsewhere.settle()
    start = time.monotonic()
    ringing.notify(["/c/.b"])
    assert here.hears(before_here)
    assert time.monotonic() - start < HEARD_S
    assert not elsewhere.hears(before_elsewhere, QUIET_S)


def test_every_ring_is_heard_not_only_the_first(new_bell: Callable[[], BlacklistNotifier]) -> None:
    listening, ringing = new_bell(), new_bell()
    ear = Ear()
    listening.subscribe(["/a/.b"], ear)
    for _ in range(4):
        before = ear.settle()
        ringing.notify(["/a/.b"])
        assert ear.hears(before)


@pytest.mark.zookeeper
def test_a_ring_leaves_no_node_behind(cluster_env: dict[str, str]) -> None:
    from yarnam.adapters.zookeeper.blacklist_notifier import BLACKLIST, ZooKeeperBlacklistNotifier
    from yarnam.adapters.zookeeper.session import ZooKeeper

    root = f"/yarnam-test-{uuid.uuid4().hex[:8]}"
    session = ZooKeeper(cluster_env["YARNAM_ZOOKEEPER"].partition("/")[0] + root)
    notifier = ZooKeeperBlacklistNotifier(session)
    try:
        notifier.notify([f"/data-{number}/.b" for number in range(20)])
        assert session.children(session.path(BLACKLIST)) == []
    finally:
        session.kazoo.delete(root, recursive=True)
        notifier.close()


def test_many_ring_at_once_for_a_place_that_is_new(
    new_bell: Callable[[], BlacklistNotifier],
) -> None:
    bells = [new_bell() for _ in range(5)]
    ear = Ear()
    bells[0].subscribe(["/new/.b"], ear)
    before = ear.settle()
    failures = []

    def notify(notifier: BlacklistNotifier) -> None:
        try:
            notifier.notify(["/new/.b"])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=notify, args=(notifier,)) for notifier in bells]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not failures
    assert ear.hears(before)


def test_who_has_stopped_hears_nothing(new_bell: Callable[[], BlacklistNotifier]) -> None:
    listening, ringing = new_bell(), new_bell()
    ear = Ear()
    watch = listening.subscribe(["/a/.b"], ear)
    before = ear.settle()
    watch.stop()
    watch.stop()
    ringing.notify(["/a/.b"])
    assert not ear.hears(before, QUIET_S)


def test_closing_twice_is_no_harm(new_bell: Callable[[], BlacklistNotifier]) -> None:
    notifier, ear = new_bell(), Ear()
    notifier.subscribe(["/a/.b"], ear)
    before = ear.settle()
    notifier.close()
    notifier.close()
    new_bell().notify(["/a/.b"])
    assert not ear.hears(before, QUIET_S)


def test_nobody_is_told_where_there_is_no_zookeeper() -> None:
    from yarnam.adapters.zookeeper.blacklist_notifier import ZooKeeperBlacklistNotifier
    from yarnam.adapters.zookeeper.session import ZooKeeper

    notifier = ZooKeeperBlacklistNotifier(ZooKeeper("127.0.0.1:1/yarnam"), connect_limit_s=0.2)
    with pytest.raises(Unavailable, match="does not answer"):
        notifier.notify(["/a/.b"])
    notifier.close()
