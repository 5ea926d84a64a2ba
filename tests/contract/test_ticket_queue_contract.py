"""One contract for the ticket queue: in memory, and on a real ZooKeeper."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Protocol

import pytest

from tests.fakes.live_applications import FakeLiveApplications
from tests.fakes.ticket_queue import FakeTicketQueue, FakeTicketStore, asking
from yarnam.adapters.zookeeper.session import ZooKeeper
from yarnam.adapters.zookeeper.ticket_nodes import MAX_NODE_BYTES, MOST_CHILDREN
from yarnam.adapters.zookeeper.ticket_queue import CLAIM_TRIES, ZooKeeperTicketQueue
from yarnam.core.admission.wait_queue import SILENT_AFTER_S
from yarnam.core.model.ids import NodeId
from yarnam.core.model.resources import Resources
from yarnam.core.model.tickets import Demand, HoldState, PolicyTicket, RunningGang, Ticket
from yarnam.core.queue_client.ticket_list import TicketList
from yarnam.errors import Unavailable
from yarnam.ports import Superseded
from yarnam.ports.ticket_queue import TicketQueue
from yarnam.wire.codec import encode

LIMIT_S = 15.0
SHORT_SESSION_S = 4.0
"""The least that the embedded ZooKeeper allows (two of its ticks)."""


def wanted(job: str, gpus: int = 4, **changes: object) -> Ticket:
    ticket = Ticket(0, job, "train", "root.dl", (Demand(Resources(1024, 1, 1), gpus),), 1000.0)
    return replace(ticket, **changes)  # type: ignore[arg-type]


@dataclass
class Skewed:
    """The time of day, which a test can move on."""

    ahead_s: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_s


class Town(Protocol):
    """Where the queues are."""

    now_s: Skewed
    rm: FakeLiveApplications

    def queue(self, job: str, am_attempt: int = 1) -> TicketQueue: ...

    def lose_session(self, queue: TicketQueue) -> None: ...


@dataclass
class FakeTown:
    now_s: Skewed = field(default_factory=Skewed)
    rm: FakeLiveApplications = field(default_factory=FakeLiveApplications)

    def __post_init__(self) -> None:
        self.hall = FakeTicketStore(self.now_s, applications=self.rm)

    def queue(self, job: str, am_attempt: int = 1) -> TicketQueue:
        self.rm.add(job, attempt=am_attempt)
        return FakeTicketQueue(self.hall, job, am_attempt)

    def lose_session(self, queue: TicketQueue) -> None:
        assert isinstance(queue, FakeTicketQueue)
        queue.lose_session()


@dataclass
class RealTown:
    hosts: str
    root: str = field(default_factory=lambda: f"yarnam-test-{uuid.uuid4().hex}")
    now_s: Skewed = field(default_factory=Skewed)
    rm: FakeLiveApplications = field(default_factory=FakeLiveApplications)
    opened: dict[int, ZooKeeper] = field(default_factory=dict)

    def queue(self, job: str, am_attempt: int = 1) -> TicketQueue:
        self.rm.add(job, attempt=am_attempt)
        zookeeper = ZooKeeper(f"{self.hosts}/{self.root}", session_timeout_s=SHORT_SESSION_S)
        queue = ZooKeeperTicketQueue(zookeeper, job, self.rm, am_attempt, now_s=self.now_s)
        self.opened[id(queue)] = zookeeper
        return queue

    def lose_session(self, queue: TicketQueue) -> None:
        """A second connection that closes this session ends it, as its expiry does."""
        from kazoo.client import KazooClient

        victim = self.opened[id(queue)]
        before = victim.session
        thief = KazooClient(hosts=self.hosts, client_id=victim.kazoo.client_id)
        thief.start(timeout=LIMIT_S)
        thief.stop()
        thief.close()
        until(lambda: victim.is_connected and victim.session not in {0, before})


@pytest.fixture(params=["fake", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
def town(request: pytest.FixtureRequest) -> Iterator[FakeTown | RealTown]:
    if request.param == "fake":
        yield FakeTown()
        return
    found = RealTown(request.getfixturevalue("cluster_env")["YARNAM_ZOOKEEPER"])
    yield found
    for zookeeper in found.opened.values():
        zookeeper.close()
    sweeper = ZooKeeper(f"{found.hosts}/{found.root}")
    sweeper.start(lambda is_new: None)
    until(lambda: sweeper.is_connected)
    sweeper.kazoo.delete(f"/{found.root}", recursive=True)
    sweeper.close()


@pytest.fixture
def enter(town: Town) -> Iterator[Callable[..., TicketQueue]]:
    """Opens the queue of a job and waits until it works."""
    entered = []

    def make(job: str, am_attempt: int = 1, changed: Callable[[], None] = lambda: None):  # type: ignore[no-untyped-def]
        queue = town.queue(job, am_attempt)
        queue.open(changed)
        entered.append(queue)
        until(lambda: not queue.trouble)
        return queue

    yield make
    for queue in entered:
        queue.close()


def until(is_true: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < deadline, "did not come about"
        time.sleep(0.01)


def jobs(queue: TicketQueue) -> list[str]:
    return [ticket.job for ticket in queue.others().tickets]


def test_numbers_follow_the_order_of_arrival(enter: Callable[..., TicketQueue]) -> None:
    first, second, third = (enter(name) for name in "abc")
    numbers = [queue.take(wanted(name)).number for queue, name in ((first, "a"), (second, "b"))]
    numbers.append(third.take(wanted("c")).number)
    assert numbers == sorted(set(numbers))
    assert numbers[0] > 0
    until(lambda: jobs(third) == ["a", "b"])
    until(lambda: jobs(first) == ["b", "c"])


def test_a_ticket_is_shown_as_it_was_taken(enter: Callable[..., TicketQueue]) -> None:
    mine = wanted("a", gpus=16, duration_s=60.0, gpu_model="A100", blocked_reason="Grüße")
    taken = enter("a").take(mine)
    queue = enter("b")
    queue.take(wanted("b"))
    [seen] = queue.others().tickets
    assert replace(seen, seen_at_s=None) == replace(mine, number=taken.number)
    assert seen.seen_at_s is not None


def test_taking_again_keeps_the_place(enter: Callable[..., TicketQueue]) -> None:
    first, second = enter("a"), enter("b")
    number = first.take(wanted("a")).number
    second.take(wanted("b"))
    assert first.take(wanted("a", gpus=2)).number == number
    until(lambda: [t.gpus for t in second.others().tickets] == [2])


def test_twenty_takers_at_once_get_numbers_of_their_own(enter: Callable[..., TicketQueue]) -> None:
    queues = [enter(f"job-{number}") for number in range(20)]
    gate = threading.Barrier(20)

    def take(index: int) -> int:
        gate.wait()
        return queues[index].take(wanted(f"job-{index}")).number

    with ThreadPoolExecutor(20) as pool:
        numbers = list(pool.map(take, range(20)))
    assert len(set(numbers)) == 20
    ordered = [f"job-{index}" for index in sorted(range(20), key=lambda i: numbers[i])]
    for index in (0, 7, 19):
        expected = [name for name in ordered if name != f"job-{index}"]
        until(lambda index=index, expected=expected: jobs(queues[index]) == expected)


def test_of_claims_at_once_the_later_sees_the_earlier(enter: Callable[..., TicketQueue]) -> None:
    """Each may claim while nobody else acquires: exactly one of them does."""
    queues = [enter(f"job-{number}") for number in range(6)]
    for number, queue in enumerate(queues):
        queue.take(wanted(f"job-{number}"))
    gate = threading.Barrier(6)

    def nobody_acquires(listed: TicketList) -> bool:
        return not any(ticket.is_acquiring for ticket in listed.tickets)

    def claim(index: int) -> bool:
        gate.wait()
        return queues[index].claim(asking(wanted(f"job-{index}"), nobody_acquires))

    with ThreadPoolExecutor(6) as pool:
        granted = list(pool.map(claim, range(6)))
    assert granted.count(True) == 1
    winner = f"job-{granted.index(True)}"
    loser = queues[granted.index(False)]
    until(lambda: [t.job for t in loser.others().tickets if t.is_acquiring] == [winner])


def test_a_claim_that_may_not_be_leaves_the_ticket(enter: Callable[..., TicketQueue]) -> None:
    first, second = enter("a"), enter("b")
    first.take(wanted("a"))
    second.take(wanted("b"))
    assert not first.claim(asking(wanted("a"), lambda listed: False))
    until(lambda: [t.is_acquiring for t in second.others().tickets] == [False])
    assert first.claim(asking(wanted("a")))
    until(lambda: [t.is_acquiring for t in second.others().tickets] == [True])
    first.update(wanted("a", blocked_reason="backs off"))
    until(
        lambda: (
            [(t.is_acquiring, t.blocked_reason) for t in second.others().tickets]
            == [(False, "backs off")]
        )
    )


def test_without_a_ticket_nothing_is_claimed(enter: Callable[..., TicketQueue]) -> None:
    assert not enter("a").claim(asking(wanted("a")))


def test_a_gang_that_stands_has_no_ticket(enter: Callable[..., TicketQueue]) -> None:
    first, second = enter("a"), enter("b")
    first.take(wanted("a"))
    second.take(wanted("b"))
    gang = RunningGang("a", "root.dl", 4, 2000.0, ((NodeId("n1"), 4),))
    first.set_running(gang)
    until(lambda: second.others() == TicketList((), (gang,)))
    smaller = replace(gang, gpus=2, nodes=())
    first.set_running(smaller)
    until(lambda: second.others().running == (smaller,))
    first.close()
    until(lambda: second.others() == TicketList())


def test_a_ticket_that_is_set_aside_is_that_of_a_job_that_holds_nothing(
    enter: Callable[..., TicketQueue],
) -> None:
    """Of a suspended gang, say: what the policy of its queue goes by comes with it."""
    first, second = enter("a"), enter("b")
    second.take(wanted("b"))
    first.set_running(RunningGang("a", "root.dl", 4, None))
    until(lambda: len(second.others().running) == 1)
    told = PolicyTicket("a", 0, 2000.0, 4, state=HoldState.SUSPENDED, since_s=2000.0)
    shown = wanted("a", blocked_reason="it is suspended", policy=told)
    first.take(shown)
    first.update(shown)
    until(lambda: second.others().running == ())
    until(lambda: [one.policy for one in second.others().tickets] == [told])


def test_others_are_told_when_something_changes(enter: Callable[..., TicketQueue]) -> None:
    told = threading.Event()
    watcher = enter("w", changed=told.set)
    watcher.take(wanted("w"))
    watcher.others()
    watcher.others()
    until(lambda: watcher.others() == TicketList())
    other = enter("a")
    for change in (
        lambda: other.take(wanted("a")),
        lambda: other.claim(asking(wanted("a"))),
        lambda: other.set_running(RunningGang("a", "root.dl", 4, None)),
        other.close,
    ):
        time.sleep(0.2)  # The one before has been told by now.
        watcher.others()
        told.clear()
        change()
        assert told.wait(LIMIT_S)


def test_a_closed_office_has_given_everything_back(enter: Callable[..., TicketQueue]) -> None:
    first, second = enter("a"), enter("b")
    second.take(wanted("b"))
    first.take(wanted("a"))
    until(lambda: jobs(second) == ["a"])
    first.close()
    first.close()
    until(lambda: second.others() == TicketList())
    assert first.trouble
    with pytest.raises(Unavailable):
        first.others()


def test_a_lost_session_keeps_the_place(town: Town, enter: Callable[..., TicketQueue]) -> None:
    first, second = enter("a"), enter("b")
    number = first.take(wanted("a")).number
    second.take(wanted("b"))
    first.claim(asking(wanted("a")))
    town.lose_session(first)
    until(lambda: [t.number for t in second.others().tickets] == [number])
    assert [t.is_acquiring for t in second.others().tickets] == [True]
    assert first.take(wanted("a")).number == number
    assert first.claim(asking(wanted("a")))


def test_a_lost_session_keeps_the_gang_shown(town: Town, enter: Callable[..., TicketQueue]) -> None:
    first, second = enter("a"), enter("b")
    second.take(wanted("b"))
    gang = RunningGang("a", "root.dl", 4, None)
    first.set_running(gang)
    until(lambda: second.others().running == (gang,))
    town.lose_session(first)
    # What it shows from now on it shows in a session of its own.
    grown = replace(gang, gpus=8)
    first.set_running(grown)
    until(lambda: second.others().running == (grown,))


def test_a_new_am_attempt_takes_over_the_place(enter: Callable[..., TicketQueue]) -> None:
    old = enter("a", 1)
    other = enter("b")
    number = old.take(wanted("a")).number
    other.take(wanted("b"))
    new = enter("a", 2)
    assert new.take(wanted("a", gpus=2)).number == number
    with pytest.raises(Superseded):
        old.update(wanted("a", gpus=8))
    until(lambda: [t.gpus for t in other.others().tickets] == [2])


def test_a_new_am_attempt_returns_with_the_number_it_knows(
    enter: Callable[..., TicketQueue],
) -> None:
    old, other = enter("a", 1), enter("b")
    number = old.take(wanted("a")).number
    later = other.take(wanted("b")).number
    old.close()
    until(lambda: jobs(other) == [])
    assert enter("a", 2).take(wanted("a", number=number)).number == number
    until(lambda: [t.number for t in other.others().tickets] == [number])
    assert enter("c").take(wanted("c")).number > later


def test_a_silent_holder_is_known_as_such(town: Town, enter: Callable[..., TicketQueue]) -> None:
    """It is there, but its AM hangs: nothing has been written for long. A sign of life ends it."""
    first, second = enter("a"), enter("b")
    first.take(wanted("a"))
    second.take(wanted("b"))
    before = second.others().tickets[0].seen_at_s
    assert before is not None
    town.now_s.ahead_s = 100.0
    assert second.others().tickets[0].seen_at_s == before
    first.update(wanted("a"))
    until(lambda: (second.others().tickets[0].seen_at_s or 0.0) > before + 90.0)


def test_who_hangs_while_acquiring_is_passed_over(
    town: Town, enter: Callable[..., TicketQueue]
) -> None:
    first, second = enter("a"), enter("b")
    first.take(wanted("a"))
    second.take(wanted("b"))
    first.claim(asking(wanted("a")))
    until(lambda: [t.is_acquiring for t in second.others().tickets] == [True])
    town.now_s.ahead_s = SILENT_AFTER_S + 1.0
    assert jobs(second) == []
    first.update(wanted("a", is_acquiring=True))
    until(lambda: jobs(second) == ["a"])


def test_what_the_resource_manager_does_not_confirm_is_not_listed(
    town: Town, enter: Callable[..., TicketQueue]
) -> None:
    first, second = enter("a"), enter("b")
    second.take(wanted("b"))
    number = first.take(wanted("a", taken_at_s=1000.0)).number
    first.set_running(RunningGang("a", "root.dl", 4, None))
    first.take(wanted("a", taken_at_s=1000.0, number=number))
    until(lambda: jobs(second) == ["a"])
    town.rm.add("a", started_at_s=900.0, queue="root.other")
    [seen] = second.others().tickets
    assert (seen.queue, seen.taken_at_s) == ("root.other", 1000.0)
    assert [gang.queue for gang in second.others().running] == ["root.other"]
    town.rm.add("a", started_at_s=1030.0)
    assert [ticket.taken_at_s for ticket in second.others().tickets] == [1030.0]
    town.rm.add("a", started_at_s=time.time())
    assert jobs(second) == [], "a ticket that is older than its application"
    town.rm.add("a", user="somebody")
    assert jobs(second) == []
    del town.rm.known["a"]
    assert second.others() == TicketList()
    town.rm.trouble = "no answer"
    assert jobs(second) == ["a"]
    assert second.others().trouble == "no answer"


def test_an_update_without_a_ticket_is_harmless(enter: Callable[..., TicketQueue]) -> None:
    queue = enter("a")
    queue.update(wanted("a"))
    assert queue.others() == TicketList()


# ---- what others than yarnam write, on the real one ----------------------------------------------


@dataclass
class Foe:
    """A client of ZooKeeper's that is no job."""

    town: RealTown

    def __post_init__(self) -> None:
        self.zk = ZooKeeper(f"{self.town.hosts}/{self.town.root}")
        self.zk.start(lambda is_new: None)
        until(lambda: self.zk.is_connected)
        self.town.opened[id(self)] = self.zk

    def put(self, name: str, data: bytes, folder: str = "tickets", **more: bool) -> str:
        return self.zk.create(self.zk.path("queue", folder, name), data, **more)

    def forge(self, name: str, ticket: Ticket, **more: bool) -> str:
        return self.put(name, encode(replace(ticket, number=0)), ephemeral=True, **more)


@pytest.fixture
def foe(request: pytest.FixtureRequest, town: Town) -> Foe:
    assert isinstance(town, RealTown)
    return Foe(town)


real = pytest.mark.parametrize(
    "town", [pytest.param("zookeeper", marks=pytest.mark.zookeeper)], indirect=True
)


@real
def test_no_bytes_in_any_node_change_the_list(
    town: RealTown, foe: Foe, enter: Callable[..., TicketQueue]
) -> None:
    first, second = enter("a"), enter("b")
    first.take(wanted("a"))
    second.take(wanted("b"))
    until(lambda: jobs(second) == ["a"])
    for number in range(5):
        town.rm.add(f"live{number}")
    absurd = replace(wanted("live0"), demands=(Demand(Resources(0, 0, 0), 10**9),))
    for name, data in (
        ("live0@1-0000000001", encode(absurd)),
        ("live1@1-0000000002", b"[" * 5000),
        ("live2@1-0000000003", b"\x00" * (MAX_NODE_BYTES + 1)),
        ("live3@1-0000000004", b'{"taken_at_s": NaN}'),
        ("live4@1-0000000005", encode(wanted("a"))),
        ("dead@1-0000000006", encode(wanted("dead"))),
        ("nothing", b""),
        ("x@99999999999999999999-0000000001", b""),
        ("@1-0000000001", b""),
        ("y" * 5000 + "@1-0000000001", b""),
    ):
        foe.put(name, data)
        foe.put(name, data, "running")
    assert jobs(second) == ["a"]
    assert second.others().running == ()
    assert second.claim(
        asking(wanted("b"), lambda listed: [t.job for t in listed.tickets] == ["a"])
    )


@real
def test_an_application_counts_once_by_its_own_ticket(
    town: RealTown, foe: Foe, enter: Callable[..., TicketQueue]
) -> None:
    first, second = enter("a"), enter("b")
    first.take(wanted("a", gpus=4))
    second.take(wanted("b"))
    for number in range(40):
        foe.forge(f"a@1-{number + 100:010d}", wanted("a", gpus=1000))
    until(lambda: [t.gpus for t in second.others().tickets] == [4])
    # The job removes what is in its name as soon as it looks.
    first.others()
    left = foe.zk.children(foe.zk.path("queue", "tickets"))
    assert sorted(name.partition("@")[0] for name in left) == ["a", "b"]


@real
def test_a_forged_newer_attempt_does_not_evict(
    town: RealTown, foe: Foe, enter: Callable[..., TicketQueue]
) -> None:
    """It did: the victim gave up its place as if a newer AM attempt had taken it over."""
    victim = enter("a", 2)
    number = victim.take(wanted("a")).number
    for folder in ("tickets", "running"):
        foe.put("a@99-0000000001", encode(wanted("a")), folder, ephemeral=True)
    foe.zk.delete(foe.zk.path("queue", "tickets", f"a@2-{number - 1:010d}"))
    assert victim.take(wanted("a", gpus=2)).number == number
    victim.others()
    left = foe.zk.children(foe.zk.path("queue", "tickets"))
    assert left == [f"a@2-{number - 1:010d}"]
    # As long as the ResourceManager does not answer it stays, and does not matter either.
    foe.put("a@99-0000000001", b"", ephemeral=True)
    town.rm.trouble = "no answer"
    victim.update(wanted("a", gpus=3))
    victim.others()
    assert len(foe.zk.children(foe.zk.path("queue", "tickets"))) == 2
    # Where there is such an attempt, the old one goes.
    town.rm.trouble = ""
    town.rm.add("a", attempt=99)
    with pytest.raises(Superseded):
        victim.others()


@real
def test_what_cannot_be_removed_is_in_nobodys_way(
    foe: Foe, enter: Callable[..., TicketQueue]
) -> None:
    for folder in ("tickets", "running"):
        foe.put("a@1-0000000099", b"", folder)
        foe.put("a@1-0000000099/child", b"", folder)
    queue = enter("a")
    assert queue.take(wanted("a")).number
    queue.others()
    assert queue.claim(asking(wanted("a")))
    queue.set_running(RunningGang("a", "root.dl", 4, None))
    queue.close()


@real
def test_a_claim_that_is_written_all_the_time_is_no_hang(
    foe: Foe, enter: Callable[..., TicketQueue]
) -> None:
    """The claim fails, soon; the job goes on by itself after a while (``delay_limit``)."""
    queue = enter("a")
    queue.take(wanted("a"))
    queue.claim(asking(wanted("a")))
    path = foe.zk.path("queue", "claim")
    asked: list[TicketList] = []

    def overtaken(listed: TicketList) -> bool:
        asked.append(listed)
        foe.zk.set(path, b"foe")
        return True

    assert not queue.claim(asking(wanted("a"), overtaken))
    assert len(asked) == CLAIM_TRIES


@real
def test_a_flood_is_not_read(foe: Foe, enter: Callable[..., TicketQueue]) -> None:
    queue = enter("a")
    queue.take(wanted("a"))
    for first in range(0, MOST_CHILDREN, 1000):
        transaction = foe.zk.kazoo.transaction()
        for number in range(first, first + 1000):
            transaction.create(foe.zk.path("queue", "tickets", f"x@1-{number:010d}"))
        transaction.commit()
    with pytest.raises(Unavailable, match="it has been flooded") as caught:
        queue.others()
    assert foe.zk.path("queue", "tickets") in caught.value.message
    assert "deleteall" in caught.value.hint
