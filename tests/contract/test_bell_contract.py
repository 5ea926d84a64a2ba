"""One contract for every bell: the fake and a real ZooKeeper."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.fakes.bell import FakeBell, Tower
from yarnam.errors import Unavailable
from yarnam.ports.blacklist import Bell

HEARD_S = 5.0
QUIET_S = 0.5


@pytest.fixture(params=["fake", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
def new_bell(request: pytest.FixtureRequest) -> Iterator[Callable[[], Bell]]:
    """Makes bells that hear each other."""
    made: list[Bell] = []
    tower = Tower()
    root = f"/yarnam-test-{uuid.uuid4().hex[:8]}"
    if request.param == "zookeeper":
        address = request.getfixturevalue("cluster_env")["YARNAM_ZOOKEEPER"]

    def make() -> Bell:
        if request.param == "fake":
            made.append(FakeBell(tower))
        else:
            from yarnam.adapters.zookeeper import ZooKeeper
            from yarnam.adapters.zookeeper_bell import ZooKeeperBell

            made.append(ZooKeeperBell(ZooKeeper(address.partition("/")[0] + root)))
        return made[-1]

    yield make
    for bell in made:
        bell.close()
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
        self._heard = threading.Condition()

    def __call__(self) -> None:
        with self._heard:
            self.count += 1
            self._heard.notify_all()

    def hears(self, more_than: int, within_s: float = HEARD_S) -> bool:
        with self._heard:
            return self._heard.wait_for(lambda: self.count > more_than, within_s)

    def settle(self) -> int:
        """The count once it no longer changes: listening itself is heard once."""
        assert self.hears(0)
        while self.hears(self.count, QUIET_S):
            pass
        return self.count


def test_a_ring_is_heard_by_who_listens_for_that_place(new_bell: Callable[[], Bell]) -> None:
    listening, ringing = new_bell(), new_bell()
    here, elsewhere = Ear(), Ear()
    listening.listen(["/a/.b", "/c/.b"], here)
    listening.listen(["/x/.b"], elsewhere)
    before_here, before_elsewhere = here.settle(), elsewhere.settle()
    start = time.monotonic()
    ringing.ring(["/c/.b"])
    assert here.hears(before_here)
    assert time.monotonic() - start < HEARD_S
    assert not elsewhere.hears(before_elsewhere, QUIET_S)


def test_every_ring_is_heard_not_only_the_first(new_bell: Callable[[], Bell]) -> None:
    listening, ringing = new_bell(), new_bell()
    ear = Ear()
    listening.listen(["/a/.b"], ear)
    for _ in range(4):
        before = ear.settle()
        ringing.ring(["/a/.b"])
        assert ear.hears(before)


def test_many_ring_at_once_for_a_place_that_is_new(new_bell: Callable[[], Bell]) -> None:
    bells = [new_bell() for _ in range(5)]
    ear = Ear()
    bells[0].listen(["/new/.b"], ear)
    before = ear.settle()
    failures = []

    def ring(bell: Bell) -> None:
        try:
            bell.ring(["/new/.b"])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ring, args=(bell,)) for bell in bells]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not failures
    assert ear.hears(before)


def test_who_has_stopped_hears_nothing(new_bell: Callable[[], Bell]) -> None:
    listening, ringing = new_bell(), new_bell()
    ear = Ear()
    watch = listening.listen(["/a/.b"], ear)
    before = ear.settle()
    watch.stop()
    watch.stop()
    ringing.ring(["/a/.b"])
    assert not ear.hears(before, QUIET_S)


def test_closing_twice_is_no_harm(new_bell: Callable[[], Bell]) -> None:
    bell = new_bell()
    bell.listen(["/a/.b"], Ear())
    bell.close()
    bell.close()


def test_nobody_is_told_where_there_is_no_zookeeper(monkeypatch: pytest.MonkeyPatch) -> None:
    from yarnam.adapters import zookeeper_bell
    from yarnam.adapters.zookeeper import ZooKeeper

    monkeypatch.setattr(zookeeper_bell, "CONNECT_LIMIT_S", 0.2)
    bell = zookeeper_bell.ZooKeeperBell(ZooKeeper("127.0.0.1:1/yarnam"))
    with pytest.raises(Unavailable, match="does not answer"):
        bell.ring(["/a/.b"])
    bell.close()
