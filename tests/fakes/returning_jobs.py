"""Many waiting jobs, and the ZooKeeper and the ResourceManager that they come back to, in virtual
time. The jobs run the product's code: the shell of the queue client, the plan service with its
retries, the ticket queue with its reads, the shared snapshots, the list of applications. The two
servers are values that count calls.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, cast

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from kazoo.protocol.states import ZnodeStat

from tests.fakes.cluster_view import cluster
from tests.fakes.serial_executor import InlineSerialExecutor
from yarnam.adapters.shared_snapshot_view import SharedSnapshotView
from yarnam.adapters.yarn.application_list import ApplicationList
from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.adapters.zookeeper.lazy_session import LazySession
from yarnam.adapters.zookeeper.session import RECONNECT_CAP_S, Entry, ZooKeeper
from yarnam.adapters.zookeeper.snapshot_store import ZooKeeperSnapshots
from yarnam.adapters.zookeeper.ticket_queue import ZooKeeperTicketQueue
from yarnam.am.am_settings import AmSettings
from yarnam.am.plan_service import PlanService
from yarnam.am.queue_client_shell import QueueClientShell
from yarnam.core.gang.state import initial
from yarnam.core.model.actions import RequestPlan
from yarnam.core.model.snapshot import ClusterSnapshot, QueueView
from yarnam.core.queue_client import ClientLimits, queued_job
from yarnam.errors import Unavailable
from yarnam.wire.records import JobRecord

START_S = 1_700_000_000.0

BACK_OFF_S = 30.0
"""Between two requests of a gang that did not fit: ``gang.backoff`` of the spec grows to more."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time stands still while anything runs, and jumps to the next timer when nothing does."""

    def __init__(self) -> None:
        self._selector_of_time = _VirtualSelector()
        super().__init__(self._selector_of_time)

    def time(self) -> float:
        return self._selector_of_time.now_s


class _VirtualSelector(selectors.SelectSelector):
    now_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if not found and timeout:
            self.now_s += timeout
        return found


@dataclass
class CallCount:
    """Calls by second of virtual time."""

    by_second: Counter[int] = field(default_factory=Counter)

    def add(self, at_s: float, calls: int = 1) -> None:
        self.by_second[int(at_s)] += calls

    def peak(self, begin_s: float, end_s: float) -> int:
        return max(self.by_second[second] for second in range(int(begin_s), int(end_s)))

    def total(self, begin_s: float, end_s: float) -> int:
        return sum(self.by_second[second] for second in range(int(begin_s), int(end_s)))


@dataclass
class Node:
    data: bytes
    owner: int
    version: int = 0
    created: int = 0
    changed: int = 0
    at_s: float = 0.0


class Ensemble:
    """ZooKeeper. ``restart`` loses all sessions, as one that was away for longer than they last."""

    root = "/yarnam"

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.calls = CallCount()
        self.is_up = True
        self.nodes: dict[str, Node] = {}
        self.children: dict[str, dict[str, None]] = {}
        self.watches: dict[str, list[Callable[[object], None]]] = {}
        self.numbers: Counter[str] = Counter()
        self.transactions = 0
        self.handles: list[Session] = []

    def count(self, calls: int = 1) -> None:
        if not self.is_up:
            raise Unavailable("ZooKeeper does not answer")
        self.calls.add(self.loop.time(), calls)

    def put(self, path: str, data: bytes, owner: int, *, is_new: bool) -> Node:
        self.transactions += 1
        node = self.nodes.get(path)
        if node is None or is_new:
            node = Node(data, owner, created=self.transactions)
        else:
            node.version += 1
        node.data, node.changed, node.at_s = data, self.transactions, self.loop.time()
        folder, _, name = path.rpartition("/")
        if path not in self.nodes:
            self.nodes[path] = node
            self.children.setdefault(folder, {})[name] = None
            self.fire(folder)
        self.fire(path)
        return node

    def remove(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        del self.nodes[path]
        del self.children[folder][name]
        self.fire(path)
        self.fire(folder)

    def fire(self, path: str) -> None:
        for watch in self.watches.pop(path, []):
            self.loop.call_soon(watch, None)

    def stop(self) -> None:
        self.is_up = False
        self.watches.clear()
        for handle in self.handles:
            handle.lose()

    def restart(self, dice: random.Random) -> None:
        for path in [path for path, node in self.nodes.items() if node.owner]:
            self.remove(path)
        self.is_up = True
        for handle in self.handles:
            # kazoo tries again after at most this.
            self.loop.call_later(dice.uniform(0.0, RECONNECT_CAP_S), handle.connect)


class Session:
    """One job's, in the place of ``adapters.zookeeper.session.ZooKeeper``."""

    hosts = "zk:2181"

    def __init__(self, ensemble: Ensemble) -> None:
        self._zk = ensemble
        self.session = 0
        self.is_connected = False
        self._listeners: list[Callable[[bool], None]] = []
        ensemble.handles.append(self)

    def start(self, listener: Callable[[bool], None]) -> None:
        self._listeners.append(listener)
        if not self.is_connected:
            self.connect()

    def connect(self) -> None:
        if self._zk.is_up:
            self._zk.count()
            self._zk.transactions += 1
            self.session, self.is_connected = self._zk.transactions, True
            for listener in self._listeners:
                listener(True)

    def lose(self) -> None:
        self.is_connected = False
        for listener in self._listeners:
            listener(False)

    def connected(self) -> Session:
        if not self.is_connected:
            raise Unavailable("ZooKeeper does not answer")
        return self

    def close(self) -> None:
        self.is_connected = False

    def spawn(self, function: Callable[[], None]) -> None:
        self._zk.loop.call_soon(function)

    def path(self, *names: str) -> str:
        return "/".join([self._zk.root, *names])

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False,
        acl: object = None,
    ) -> str:  # fmt: skip
        self._count()
        if sequence:
            folder = path.rpartition("/")[0]
            path = f"{path}{self._zk.numbers[folder]:010d}"
            self._zk.numbers[folder] += 1
        if path in self._zk.nodes:
            raise NodeExistsError
        self._zk.put(path, data, self.session if ephemeral else 0, is_new=True)
        return path

    def set(self, path: str, data: bytes, version: int = -1) -> int:
        self._count()
        node = self._zk.nodes.get(path)
        if node is None:
            raise NoNodeError
        if version not in (-1, node.version):
            raise BadVersionError
        return self._zk.put(path, data, node.owner, is_new=False).version

    def delete(self, path: str, version: int = -1) -> None:
        self._count()
        if path not in self._zk.nodes:
            raise NoNodeError
        self._zk.remove(path)

    def read(self, *paths: str) -> list[Entry | None]:
        self._count(len(paths))
        found = [self._zk.nodes.get(path) for path in paths]
        return [
            Entry(node.data, node.version, node.changed, node.owner, START_S + node.at_s,
                  node.created) if node else None
            for node in found
        ]  # fmt: skip

    def children(self, path: str) -> list[str]:
        self._count()
        return [*self._zk.children.get(path, ())]

    def checking(self, path: str, watch: Callable[[object], None] | None = None) -> Any:
        return lambda: self._stat(path, watch)

    def listing(self, path: str, watch: Callable[[object], None] | None = None) -> Any:
        def listed() -> list[str]:
            self._watch(path, watch)
            return [*self._zk.children.get(path, ())]

        return listed

    def together(self, calls: Sequence[Callable[[], Any]], doing: str) -> list[Any]:
        self._count(len(calls))
        return [call() for call in calls]

    def _stat(self, path: str, watch: Callable[[object], None] | None) -> ZnodeStat | None:
        self._watch(path, watch)
        node, below = self._zk.nodes.get(path), len(self._zk.children.get(path, ()))
        if node is None:
            return ZnodeStat(0, 0, 0, 0, 0, 0, 0, 0, 0, below, 0) if below else None
        mtime = int((START_S + node.at_s) * 1000)
        return ZnodeStat(node.created, node.changed, 0, mtime, node.version, 0, 0, node.owner,
                         len(node.data), below, 0)  # fmt: skip

    def _watch(self, path: str, watch: Callable[[object], None] | None) -> None:
        if watch is not None:
            self._zk.watches.setdefault(path, []).append(watch)

    def _count(self, calls: int = 1) -> None:
        self.connected()
        self._zk.count(calls)


class CountedResourceManager:
    """All its GPUs are taken. Counts the requests that a call makes."""

    def __init__(self, loop: VirtualLoop, jobs: int) -> None:
        self._loop = loop
        self.calls = CallCount()
        self.is_up = True
        view = QueueView("root.dl")
        self._shown = replace(cluster(used=8), queue=view, queues=(view,))
        self._applications = tuple(
            YarnApplication(name_of(n), "train", "u", "root.dl", "RUNNING", "UNDEFINED", "", 0.0,
                            0.0, 1)
            for n in range(jobs)
        )  # fmt: skip

    def snapshot(self, queue: str, *, max_age_s: float | None = None) -> ClusterSnapshot:
        self._count(2)
        return replace(self._shown, taken_at_s=START_S + self._loop.time())

    def applications(self, **_: Any) -> Sequence[YarnApplication]:
        self._count(1)
        return self._applications

    def newest_attempt(self, app_id: str, *, limit_s: float) -> int:
        self._count(1)
        return 1

    def stop(self) -> None:
        self.is_up = False

    def restart(self, _dice: random.Random) -> None:
        self.is_up = True

    def _count(self, requests: int) -> None:
        self.calls.add(self._loop.time(), requests)
        if not self.is_up:
            raise Unavailable("the ResourceManager does not answer")


def name_of(number: int) -> str:
    return f"application_1_{number:04d}"


class _Clock:
    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now_s(self) -> float:
        return START_S + self._loop.time()


class WaitingJobs:
    """``settle``, then ``stop`` and ``restart`` of one of the servers, and read the counts."""

    def __init__(self, loop: VirtualLoop, record: JobRecord, jobs: int, seed: int = 1) -> None:
        self.loop = loop
        self.dice = random.Random(seed)
        self.zookeeper = Ensemble(loop)
        self.rm = CountedResourceManager(loop, jobs)
        self._record = record
        self._gang = initial(record.job)
        self._is_open = True
        self.shells = [self._job(number) for number in range(jobs)]

    def _job(self, number: int) -> tuple[QueueClientShell, PlanService]:
        loop, settings = self.loop, AmSettings()
        session, now_s = Session(self.zookeeper), _Clock(loop).now_s
        applications = ApplicationList(cast("Any", self.rm), now_s=loop.time)
        queue = ZooKeeperTicketQueue(
            cast("ZooKeeper", session), name_of(number), applications, queue="root.dl", now_s=now_s
        )
        snapshots = ZooKeeperSnapshots(cast("LazySession", session), now_s=now_s)
        view = SharedSnapshotView(self.rm, snapshots, now_s=now_s)
        limits = ClientLimits(
            settings.ticket_patience_s, settings.ticket_grace_s, settings.retry_pause_s,
            settings.sign_of_life_s, settings.shrink_delay_s, settings.last_reason_s,
        )  # fmt: skip
        dice = random.Random(self.dice.random())
        shell = QueueClientShell(
            queued_job(self._record.job, self._record.targets, name_of(number), limits,
                       has_queue=True),
            is_pre_run=False,
            open_queue=lambda: queue,
            queue_executor=InlineSerialExecutor(),
            view=view,
            view_executor=InlineSerialExecutor(),
            clock=cast("Any", _Clock(loop)),
            inbox=lambda _: None,
            settings=settings,
            draw=dice.random,
            gang=lambda: self._gang,
        )  # fmt: skip
        # Forecasts cost time and no calls; a policy look is one call of a job that runs.
        shell.client = replace(
            shell.client, admission=replace(shell.client.admission, next_forecast_s=inf)
        )
        plans = PlanService(
            self._record, view, InlineSerialExecutor(), cast("Any", _Clock(loop)),
            lambda _: self._back_off(plans, dice), settings, queue=shell,
        )  # fmt: skip
        return shell, plans

    def _back_off(self, plans: PlanService, dice: random.Random) -> None:
        """As the gang machine does when nothing fits."""
        pause_s = dice.uniform(0.5, 1.0) * BACK_OFF_S
        self.loop.call_later(pause_s, lambda: self._is_open and plans.request(RequestPlan(1, 0)))

    async def begin(self, within_s: float) -> None:
        """The jobs come, one after the other."""
        pause_s = within_s / len(self.shells)
        for shell, plans in self.shells:
            shell.open()
            plans.request(RequestPlan(1, 0))
            await asyncio.sleep(pause_s)

    async def close(self) -> None:
        self._is_open = False
        for shell, plans in self.shells:
            plans.close()
            await shell.close()
