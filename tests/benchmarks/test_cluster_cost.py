"""What waiting jobs cost a ResourceManager of many nodes, before and after they shared snapshots.

The ResourceManager, its Fair Scheduler and ZooKeeper are real. The nodes are simulated: one program
registers them and sends their heartbeats by YARN's own protocol
(``tests.integration.simulated_nodes``; it needs ``javac``). The waiting jobs are stand-ins: each
runs the product's own code that decides when to poll and whom (``core.admission.polling``), reads
and publishes snapshots (``SharedSnapshotView``) and confirms tickets (``ApplicationList``); it has
no ApplicationMaster and does not plan. "Before" sends the requests that were sent then, at the pace
of then, and does not parse the answers, so that the stand-ins are no bottleneck.

``YARNAM_BENCH_NODES`` (1000), ``YARNAM_BENCH_JOBS`` (0,100,1000) and ``YARNAM_BENCH_WINDOW_S`` (60)
choose the load. RM CPU is the kernel's account of the process; the delay is from an ask for a small
container to its grant.
"""

from __future__ import annotations

import heapq
import os
import random
import statistics
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import pytest

from tests.integration.simulated_nodes import SimulatedNodes
from yarnam.adapters.shared_snapshot_view import SharedSnapshotView
from yarnam.adapters.yarn.application_list import ApplicationList
from yarnam.adapters.yarn.rest import ResourceManager
from yarnam.adapters.zookeeper import snapshot_store
from yarnam.adapters.zookeeper.lazy_session import LazySession
from yarnam.adapters.zookeeper.snapshot_store import ZooKeeperSnapshots
from yarnam.cluster import ClusterShape, EmbeddedCluster
from yarnam.core.admission.polling import PollHistory, accepted_age_s, poll_interval_s
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.core.model.tickets import Demand, MustWait, Ticket
from yarnam.errors import Unavailable
from yarnam.wire import http_request
from yarnam.wire.protocol import APPLICATION_TAG
from yarnam.wire.shared.cluster_summary import decode_summary

pytestmark = [pytest.mark.benchmark, pytest.mark.yarn, pytest.mark.timeout(3600)]

NODES = int(os.environ.get("YARNAM_BENCH_NODES", "1000"))
JOBS = tuple(int(n) for n in os.environ.get("YARNAM_BENCH_JOBS", "0,100,1000").split(","))
WINDOW_S = float(os.environ.get("YARNAM_BENCH_WINDOW_S", "60"))
HEARTBEAT_MS = 1000
GPUS = 8
QUEUE = "root.dl"
WORKERS = 32
SESSIONS = 8
"""With ZooKeeper. Stand-ins share them, so that this program has not thousands of threads."""
FAILED_PAUSE_S = 2.0
OLD_FRESH_S = 30.0
"""How long a list of applications was used, however long it was."""
START_LIMIT_S = 120.0
HEAD = Ticket(1, "head", "head", QUEUE, (Demand(Resources(gpus=GPUS), 1),), 0.0)
NODE = Resources(262144, 64, GPUS)


class Traffic:
    """Counts what all stand-ins send and receive."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests = self.size = self.failures = 0

    def add(self, requests: int, size: int) -> None:
        with self._lock:
            self.requests += requests
            self.size += size

    def fail(self) -> None:
        with self._lock:
            self.failures += 1


class StandIn(Protocol):
    """A waiting job. ``poll`` returns in how many seconds it polls next."""

    def poll(self) -> float: ...


@dataclass
class Old:
    """As jobs polled before: all nodes and all queues each time, unpacked."""

    url: str
    ahead: int
    traffic: Traffic
    dice: random.Random
    listed_at_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.listed_at_s = time.monotonic() - self.dice.uniform(0, OLD_FRESH_S)

    def poll(self) -> float:
        began_s = time.monotonic()
        self._get("/ws/v1/cluster/scheduler")
        self._get("/ws/v1/cluster/nodes")
        took_s = time.monotonic() - began_s
        if began_s - self.listed_at_s >= OLD_FRESH_S:
            self.listed_at_s = began_s
            self._get(
                f"/ws/v1/cluster/apps?applicationTags={APPLICATION_TAG}"
                "&states=NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING&limit=10000"
            )
        wait = MustWait(self.ahead, HEAD, "")
        return max(10 * took_s, poll_interval_s(wait, self.dice.random()))

    def _get(self, path: str) -> None:
        asked = urllib.request.Request(self.url + path, headers={"Accept": "application/json"})
        with urllib.request.urlopen(asked, timeout=120.0) as reply:
            self.traffic.add(1, len(reply.read()))


class New:
    """As jobs poll now, by the product's own code."""

    def __init__(
        self,
        rm: ResourceManager,
        session: LazySession,
        ahead: int,
        seen: ClusterSnapshot,
        names: frozenset[str],
        dice: random.Random,
    ) -> None:
        self._wait = MustWait(ahead, HEAD, "")
        self._view = SharedSnapshotView(rm, ZooKeeperSnapshots(session))
        self._view._own = seen  # of its first poll, which is not what is measured
        self._names = names
        self._dice = dice
        now_s = time.time()
        self._history = PollHistory().after_own_poll(
            self._wait, now_s - dice.uniform(0, 20.0 * (1 + ahead)), dice.random()
        )
        # Its list is of any age, as after some time of waiting.
        self._shift_s = -dice.uniform(0.0, 150.0)
        self._applications = ApplicationList(rm, now_s=lambda: time.monotonic() + self._shift_s)

    def begin(self, known: ApplicationList) -> None:
        self._applications._known = known._known
        self._applications._listed_at_s = time.monotonic() + self._shift_s
        self._shift_s = 0.0

    def poll(self) -> float:
        now_s = time.time()
        age_s = accepted_age_s(self._history, self._wait, now_s)
        began_s = time.monotonic()
        taken = self._view.snapshot(QUEUE, max_age_s=age_s)
        took_s = time.monotonic() - began_s
        self._applications.confirm(self._names)
        interval_s = poll_interval_s(self._wait, self._dice.random())
        if taken.is_shared:
            return interval_s
        self._history = self._history.after_own_poll(self._wait, now_s, self._dice.random())
        return max(10 * took_s, interval_s)


def run(jobs: list[StandIn], for_s: float, dice: random.Random, traffic: Traffic) -> None:
    """Each of them polls when it is due, the first time at any moment of its interval. One whose
    requests fail polls again after ``AmSettings.retry_pause_s``."""
    now_s = time.monotonic()
    due = [
        (now_s + dice.uniform(0.0, poll_interval_s(MustWait(n, HEAD, ""), 0.5)), n)
        for n in range(len(jobs))
    ]
    heapq.heapify(due)
    end_s = now_s + for_s
    lock = threading.Lock()

    def work() -> None:
        while (left_s := end_s - time.monotonic()) > 0:
            with lock:
                if not due:
                    return
                at_s, number = due[0]
                if at_s <= time.monotonic():
                    heapq.heappop(due)
                else:
                    number = -1
            if number < 0:
                time.sleep(min(left_s, 0.02))
                continue
            try:
                again_s = jobs[number].poll()
            except (OSError, Unavailable):
                traffic.fail()
                again_s = FAILED_PAUSE_S
            with lock:
                heapq.heappush(due, (time.monotonic() + again_s, number))

    with ThreadPoolExecutor(WORKERS) as pool:
        for future in [pool.submit(work) for _ in range(WORKERS)]:
            future.result()
    time.sleep(max(0.0, end_s - time.monotonic()))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """One real node; unmanaged applications live as long as the benchmark."""
    shape = ClusterShape(
        nodes=1, racks=1, gpus="simulated", gpus_per_node=1, nm_expiry_s=300,
        overrides={"yarn-site": {"yarn.am.liveness-monitor.expiry-interval-ms": "7200000"}},
    )  # fmt: skip
    root = tmp_path_factory.mktemp("clusters")
    with EmbeddedCluster(shape, name=f"cost-{os.getpid()}", state_root=root) as found:
        yield found


@pytest.fixture(scope="module")
def simulation(
    cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SimulatedNodes]:
    folder = tmp_path_factory.mktemp("nodes")
    with closing(SimulatedNodes(cluster, folder, NODES, NODE, HEARTBEAT_MS)) as made:
        made.send_heartbeats()
        made.ask(QUEUE, START_LIMIT_S)
        yield made


def waiting_applications(rm: ResourceManager, count: int) -> frozenset[str]:
    """Applications of yarnam's that hold nothing, as YARN sees waiting jobs (unmanaged: no
    container is granted for their ApplicationMaster)."""
    names = set()
    for number in range(count):
        name = rm.new_application()
        rm.submit_application({
            "application-id": name,
            "application-name": f"train-{number}",
            "application-type": "skein",
            "queue": QUEUE,
            "unmanaged-AM": True,
            "am-container-spec": {"commands": {"command": "true"}},
            "application-tags": {"tag": [APPLICATION_TAG, f"yarnam-key-{number}"]},
            "resource": {"memory": 1024, "vCores": 1},
        })  # fmt: skip
        names.add(name)
    return frozenset(names)


def settle(rm: ResourceManager) -> None:
    """Until the ResourceManager has answered what was asked before."""
    until_s = time.monotonic() + START_LIMIT_S
    while time.monotonic() < until_s:
        began_s = time.monotonic()
        try:
            rm.info()
        except Unavailable:
            continue
        if time.monotonic() - began_s < 1.0:
            return
        time.sleep(1.0)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(
    what: str, cluster: EmbeddedCluster, simulation: SimulatedNodes, traffic: Traffic,
    load: Callable[[], None],
) -> tuple[float, float]:  # fmt: skip
    """Prints one line; returns requests and bytes a second."""
    pid = cluster.daemon("rm").pid
    assert pid is not None
    requests, size, delays = traffic.requests, traffic.size, len(simulation.delays)
    failures = traffic.failures
    cpu, began_s = cpu_s(pid), time.monotonic()
    load()
    passed_s = time.monotonic() - began_s
    found = sorted(simulation.delays[delays:]) or [float("nan")]
    per_s = (traffic.requests - requests) / passed_s
    bytes_s = (traffic.size - size) / passed_s
    print(
        f"  {what:28s} {per_s:7.2f} requests/s {bytes_s / 1e6:8.3f} MB/s, "
        f"RM {(cpu_s(pid) - cpu) / passed_s:5.2f} cores, grant after "
        f"{statistics.median(found):5.0f} ms (95 %: {found[int(len(found) * 0.95)]:.0f} ms, "
        f"{len(found)} asks), {traffic.failures - failures} polls failed"
    )
    return per_s, bytes_s


def test_what_waiting_jobs_cost(
    cluster: EmbeddedCluster, simulation: SimulatedNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    traffic, dice = Traffic(), random.Random(7)
    rm = ResourceManager.from_conf(str(cluster.conf_dir), user=cluster.plan.user)
    whole = http_request.read_at_most

    def counted(stream: object, most: int) -> bytes:
        data = whole(stream, most)  # type: ignore[arg-type]
        traffic.add(1, len(data))
        return data

    monkeypatch.setattr(http_request, "read_at_most", counted)
    # A thousand AMs decode it on a thousand nodes, not in one process.
    monkeypatch.setattr(snapshot_store, "decode_summary", lru_cache(8)(decode_summary))
    seen = rm.snapshot(QUEUE)
    assert sum(node.is_usable for node in seen.nodes) == NODES + 1
    sessions = [LazySession(f"{cluster.zookeeper}/yarnam/cost") for _ in range(SESSIONS)]
    print(f"\n{NODES} simulated nodes, a heartbeat each {HEARTBEAT_MS} ms, {WINDOW_S:g} s each:")
    names: frozenset[str] = frozenset()
    try:
        for count in JOBS:
            names |= waiting_applications(rm, count - len(names))
            if not count:
                measured("no jobs", cluster, simulation, traffic, lambda: time.sleep(WINDOW_S))
                continue
            old: list[StandIn] = [Old(rm.url, n, traffic, dice) for n in range(count)]
            known = ApplicationList(rm)
            known.confirm(names)
            new = [New(rm, sessions[n % SESSIONS], n, seen, names, dice) for n in range(count)]
            for one in new:
                one.begin(known)
            after: list[StandIn] = list(new)
            settle(rm)
            before = measured(
                f"{count} waiting, before", cluster, simulation, traffic,
                lambda old=old: run(old, WINDOW_S, dice, traffic),  # type: ignore[misc]
            )  # fmt: skip
            settle(rm)
            now = measured(
                f"{count} waiting, now", cluster, simulation, traffic,
                lambda after=after: run(after, WINDOW_S, dice, traffic),  # type: ignore[misc]
            )  # fmt: skip
            print(f"    ratio: requests {now[0] / before[0]:.3f}, bytes {now[1] / before[1]:.4f}")
            assert now[1] < before[1]
    finally:
        for session in sessions:
            session.close()
