"""One client that means ill writes whatever it likes into the ZooKeeper of a real cluster, while
twenty small jobs are submitted. It has one application of its own, which runs, and it writes in the
names of all that live."""

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
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import VerdictKind
from yarnam.core.model.tickets import ADMISSION_RULES

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.zookeeper, pytest.mark.chaos, pytest.mark.timeout(1200)]

JOBS = 20
ONE = {"tasks": 1, "gpus": 1, "memory": "512MiB", "vcores": 1}

MACHINE_S = 300.0
"""For twenty ApplicationMasters that start, and twenty gangs that run, on two cores."""

PAUSE_S = 8.0
"""Of each of three that submit: twenty JVMs do not all start at once."""

PATIENT_AM = {"attempts": 6}
"""YARN gives an ApplicationMaster up that has no CPU for long; that is no matter here."""

EVERYTHING = [{"resources": {"memory_mib": 1024, "vcores": 1, "gpus": 8}, "count": 4}]
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
        deeds = (self._flood, self._forge, self._claim, self._hint)
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
            name, user, queue = app["id"], app["user"], app["queue"]
            began_s = app["startedTime"] / 1000.0
            more = {"user": user, "queue": queue, "taken_at_s": began_s}
            kinds = (
                {"demands": ONE_GPU},
                {"demands": EVERYTHING, "is_acquiring": True},
                {"demands": EVERYTHING},
                {"demands": NOTHING, "is_acquiring": True},
            )
            # In its own name it asks for everything, all the time: that is confirmed.
            kind = kinds[1] if name == self._own else kinds[number % 2]
            data = self._ticket(name, **more, **kind)
            folder = f"{self._root}/queue/tickets"
            if number % 3 == 0 and name != self._own:
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
    bound_s = IDLE_LIMIT_S + SPREAD_S + MACHINE_S

    def submit(number: int) -> Job:
        time.sleep(PAUSE_S)
        return world.submit(f"small-{number}", "sleep 1", worker=ONE, am=PATIENT_AM)

    with foe.at_work():
        with ThreadPoolExecutor(3) as pool:
            jobs = list(pool.map(submit, range(JOBS)))
        verdicts = {job.id: world.end_of(job, limit_s=2 * bound_s) for job in jobs}
    own.kill("the test is over")
    print(foe.done)
    assert min(foe.done.get(name, 0) for name in ("_flood", "_forge", "_claim", "_hint")) > 10
    assert {verdict.kind for verdict in verdicts.values()} == {VerdictKind.SUCCEEDED}, verdicts
    took_s = []
    for job in jobs:
        app = world.rm(f"apps/{job.id}")["app"]
        took_s.append((app["finishedTime"] - app["startedTime"]) / 1000.0)
        assert len(job.status().history) <= 5
    print(sorted(round(each_s) for each_s in took_s))
    assert max(took_s) <= bound_s
    for job in jobs:
        world.assert_cleared(job)
    assert not [name for name in own_nodes(world) if any(job.id in name for job in jobs)]


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
