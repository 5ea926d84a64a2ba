"""One client that means ill writes whatever it likes into the ZooKeeper of a real cluster, while
twenty small jobs are submitted. It has one application of its own, which runs, and it writes in the
names of all that live. Its own ticket is one that the ResourceManager confirms: it asks for
everything, for ever."""

from __future__ import annotations

import itertools
import json
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from tests.integration.fault_world import MARKS
from yarnam.core.admission.delay_limit import IDLE_LIMIT_S, SPREAD_S
from yarnam.core.model.events import AmRestarted, JobStarted, PlanReady
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import VerdictKind
from yarnam.core.model.tickets import ADMISSION_RULES

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.zookeeper, pytest.mark.long, pytest.mark.timeout(1200)]

JOBS = 20
ONE = {"tasks": 1, "gpus": 1, "memory": "512MiB", "vcores": 1}

BOUND_S = IDLE_LIMIT_S + SPREAD_S + 90.0
"""From the start of an ApplicationMaster until it asks for its gang, whose GPUs are free: the limit
in docs/how-to/zookeeper.md, and two polls (45 s at most each) of twenty AMs on two cores."""

PAUSE_S = 8.0
"""Of each of three that submit: twenty JVMs do not all start at once."""

PATIENT_AM = {"attempts": 6}
"""YARN gives an ApplicationMaster up that has no CPU for long; that is no matter here."""

EVERYTHING = [{"resources": {"memory_mib": 1024, "vcores": 1, "gpus": 8}, "count": 4}]
ENDLESS = [{"resources": {"memory_mib": 128, "vcores": 1, "gpus": 1}, "count": 10_000}]
"""Fits into whatever is left: no GPU is free beside it."""
ONE_GPU = [{"resources": {"memory_mib": 1024, "vcores": 1, "gpus": 1}, "count": 1}]
NOTHING = [{"resources": {"memory_mib": 0, "vcores": 0, "gpus": 0}, "count": 10**9}]


class Foe:
    """``own``: its application; ``applications``: those that live, as anybody may ask the
    ResourceManager."""

    def __init__(
        self,
        address: str,
        own: str,
        applications: Callable[[], list[dict[str, Any]]],
        nodes: list[str],
    ) -> None:
        hosts, _, root = address.partition("/")
        self._zk = KazooClient(hosts=hosts)
        self._root = f"/{root}"
        self._own = own
        self._applications = applications
        self._nodes = nodes
        self._is_over = threading.Event()
        self.done: dict[str, int] = {}

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self._zk.start(timeout=15.0)
        deeds = (self._occupy, self._flood, self._forge, self._claim, self._hint)
        threads = [threading.Thread(target=self._repeat, args=(deed,)) for deed in deeds]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join()
            self._zk.stop()
            self._zk.close()

    def _repeat(self, deed: Callable[[int], float]) -> None:
        for number in itertools.count():
            try:
                pause_s = deed(number)
                self.done[deed.__name__] = number + 1
            except KazooException:
                pause_s = 0.1  # a node that a job has removed or made meanwhile
            if self._is_over.wait(pause_s):
                return

    def _put(self, path: str, data: bytes, *, is_kept: bool = False) -> None:
        if self._zk.exists(path):
            self._zk.set(path, data)
        else:
            self._zk.create(path, data, ephemeral=not is_kept, makepath=True)

    def _occupy(self, number: int) -> float:
        """In its own name it asks for all GPUs, takes none, and sends heartbeats."""
        (app,) = (app for app in self._applications() if app["id"] == self._own)
        more = {"user": app["user"], "queue": app["queue"], "demands": ENDLESS}
        more["is_acquiring"] = True
        data = self._ticket(self._own, taken_at_s=app["startedTime"] / 1000.0, **more)
        self._put(f"{self._root}/queue/tickets/{self._own}@1-{0:010d}", data)
        return 5.0

    def _flood(self, number: int) -> float:
        """Of applications that there are not, absurd and deep ones, and ones of half a megabyte."""
        data = (
            self._ticket("application_1_1", taken_at_s=0.0),
            self._ticket("application_1_1", demands=NOTHING, taken_at_s=0.0),
            b"[" * 5000,
            b"\xff" * (500 << 10) if number < 4 else b"\xff",
        )[number % 4]
        name = f"application_1700000000000_{number:04d}@1-{number:010d}"
        self._put(f"{self._root}/queue/tickets/{name}", data)
        bomb = zlib.compress(b" " * (16 << 20))
        self._put(f"{self._root}/gpu-models", bomb, is_kept=True)
        return 0.05 if number < 500 else 1.0

    def _forge(self, number: int) -> float:
        """In the names of the jobs that live: they want everything, or a little and before all
        others; they ask for it for ever; and a newer AM attempt has taken their place over."""
        for app in self._applications():
            if app["id"] == self._own:
                continue
            name, user, queue = app["id"], app["user"], app["queue"]
            began_s = app["startedTime"] / 1000.0
            more = {"user": user, "queue": queue, "taken_at_s": began_s}
            kinds = (
                {"demands": ONE_GPU},
                {"demands": EVERYTHING, "is_acquiring": True},
                {"demands": EVERYTHING},
                {"demands": NOTHING, "is_acquiring": True},
            )
            data = self._ticket(name, **more, **kinds[number % 2])
            folder = f"{self._root}/queue/tickets"
            if number % 3 == 0:
                for other in self._zk.get_children(folder):
                    if other.startswith(f"{name}@1-"):
                        self._zk.delete(f"{folder}/{other}")
            self._put(f"{folder}/{name}@1-{0:010d}", data)
            for attempt in (99, 100, 101):
                bad = self._ticket(name, **more, **kinds[number % 4])
                self._put(f"{folder}/{name}@{attempt}-{attempt:010d}", bad)
            gang = {
                "job": name,
                "queue": queue,
                "gpus": -8,
                "ends_at_s": 1e308,
                "nodes": [["n", 9]],
            }
            self._put(f"{self._root}/queue/running/{name}@99", json.dumps(gang).encode())
        return 0.5

    def _claim(self, number: int) -> float:
        self._put(f"{self._root}/queue/claim", b"foe 1", is_kept=True)
        return 0.01

    def _hint(self, number: int) -> float:
        for node in (*self._nodes, f"no-such-node-{number % 1000}"):
            self._put(f"{self._root}/hints/{node}@foe{number % 10}", b"bad", is_kept=True)
        return 0.5

    def _ticket(self, job: str, **more: Any) -> bytes:
        ticket = {
            "number": 0, "job": job, "name": "foe", "queue": "root.dl", "demands": EVERYTHING,
            "user": "foe", "rules": ADMISSION_RULES, **more,
        }  # fmt: skip
        return json.dumps(ticket).encode()


def test_twenty_jobs_end_beside_a_client_that_means_ill(world: FaultWorld) -> None:
    def living() -> list[dict[str, Any]]:
        reply = world.rm("apps?applicationTags=yarnam&states=ACCEPTED,RUNNING")
        return (reply.get("apps") or {}).get("app") or []

    nodes = [node.address for node in world.cluster.nodes]
    own = world.submit("foe", "sleep 3600", worker=ONE, gang={"ticket": False})
    world.until_phase(own, Phase.RUNNING)
    foe = Foe(world.site.zookeeper, own.id, living, nodes)

    def submit(number: int) -> Job:
        time.sleep(PAUSE_S)
        return world.submit(f"small-{number}", "sleep 1", worker=ONE, am=PATIENT_AM)

    with foe.at_work():
        with ThreadPoolExecutor(3) as pool:
            jobs = list(pool.map(submit, range(JOBS)))
        verdicts = {job.id: world.end_of(job, limit_s=2 * BOUND_S) for job in jobs}
    own.kill("the test is over")
    print(foe.done)
    deeds = ("_occupy", "_flood", "_forge", "_claim", "_hint")
    assert min(foe.done.get(name, 0) for name in deeds) > 10
    assert {verdict.kind for verdict in verdicts.values()} == {VerdictKind.SUCCEEDED}, verdicts
    waits_s = [wait_s(world, job) for job in jobs]
    print(sorted(round(each_s) for each_s in waits_s))
    assert max(waits_s) >= IDLE_LIMIT_S, "the foe keeps nobody: this shows nothing"
    assert max(waits_s) <= BOUND_S
    for job in jobs:
        assert len(job.status().history) <= 5
        world.assert_cleared(job)
    assert not [name for name in own_nodes(world) if any(job.id in name for job in jobs)]


def wait_s(world: FaultWorld, job: Job) -> float:
    """From the start of the AM that first asked for the gang until it did: an AM counts anew."""
    planned = min(event.at_s for event in world.events(job, PlanReady))
    starts_s = [event.at_s for event in world.events(job, JobStarted)]
    starts_s += [event.at_s for event in world.events(job, AmRestarted)]
    return planned - max(at_s for at_s in starts_s if at_s <= planned)


def own_nodes(world: FaultWorld) -> list[str]:
    """Nodes of the wait queue that are left: they go with the sessions that made them."""
    hosts, _, root = world.site.zookeeper.partition("/")
    client = KazooClient(hosts=hosts)
    client.start(timeout=15.0)
    try:
        deadline = time.monotonic() + 15.0
        while True:
            found: list[str] = []
            for folder in ("tickets", "running"):
                found += client.get_children(f"/{root}/queue/{folder}")
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.5)
    finally:
        client.delete(f"/{root}/gpu-models")
        client.delete(f"/{root}/hints", recursive=True)
        client.stop()
        client.close()
