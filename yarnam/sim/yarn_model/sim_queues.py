"""The queues of the model: what an allocation file says of them (``core.queues``), what they use,
and which of their jobs may start an ApplicationMaster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from yarnam.core.model.ids import AskId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import QueueView
from yarnam.core.queues.allocations import Element, Policy, QueueConfig
from yarnam.core.queues.amounts import UNLIMITED, Limit
from yarnam.core.queues.fair_share import (
    Schedulable,
    am_limit,
    bounds_of,
    divide,
    instantaneous_shares,
)
from yarnam.core.queues.serving_order import serving_key
from yarnam.sim.sim_settings import QueueSettings
from yarnam.sim.yarn_model.containers import Ask, Container, ContainerListener

NOTHING = Resources()


def queue_tree(queues: Iterable[QueueSettings]) -> QueueConfig:
    """Leaf queues below root that share by DRF, with no limit on ApplicationMasters."""
    element = Element("queue", 0)
    leaves = tuple(
        QueueConfig(
            queue.name,
            element,
            weight=queue.weight,
            maximum=Limit(gpus=queue.max_gpus),
            max_am_share=-1.0,
            policy=Policy.DRF,
        )
        for queue in queues
    )
    return QueueConfig("root", element, policy=Policy.DRF, is_parent=True, children=leaves)


class Application:
    """One application at the RM: what it has asked for and not got yet, and what it uses."""

    __slots__ = ("am", "asks", "at_share_s", "containers", "flagged", "has_am", "listener",
                 "next_check_s", "number", "phase_s", "queue", "reserved", "used")  # fmt: skip

    def __init__(
        self, number: int, queue: SimQueue, phase_s: float, listener: ContainerListener
    ) -> None:
        self.number = number
        self.queue = queue
        self.phase_s = phase_s
        self.listener = listener
        self.am = NOTHING
        """The part of the queue's AM share that its ApplicationMaster takes."""
        self.has_am = False
        self.asks: dict[AskId, Ask] = {}
        self.containers: dict[AskId, Container] = {}
        self.reserved: set[int] = set()
        self.used = NOTHING
        self.flagged: dict[AskId, Container] = {}
        """Containers that will be preempted."""
        self.at_share_s = 0.0
        """When it last had its fair share, as ``FSAppAttempt`` notes it."""
        self.next_check_s = 0.0
        """Containers have been preempted for it: no more before then."""


class SimQueue:
    """One queue of the tree: its settings and what it uses. Only leaves have applications."""

    __slots__ = ("am_used", "apps", "at_minimum_s", "children", "config", "is_limited", "maximum",
                 "minimum", "parent", "pending", "running", "used", "waiting")  # fmt: skip

    def __init__(self, config: QueueConfig, parent: SimQueue | None, cluster: Resources) -> None:
        self.config = config
        self.parent = parent
        self.minimum, self.maximum = bounds_of(config, cluster)
        above = parent is not None and parent.is_limited
        self.is_limited: bool = above or min(_amounts(self.maximum)) < UNLIMITED
        """The queue, or one above it, has a maximum."""
        self.used = NOTHING
        self.am_used = NOTHING
        self.running = 0
        """Applications that count against ``maxRunningApps``."""
        self.apps: dict[int, Application] = {}
        """The applications of a leaf that count against it."""
        self.waiting: deque[tuple[Application, Callable[[], None]]] = deque()
        """Applications without an ApplicationMaster, by their arrival, and the call that starts
        each."""
        self.pending: dict[int, Application] = {}
        """Applications with asks, of a leaf or of all leaves below."""
        self.at_minimum_s = 0.0
        """When it last had its minimum share."""
        self.children = [SimQueue(child, self, cluster) for child in config.children]

    @property
    def name(self) -> str:
        return self.config.name

    def path(self) -> Iterator[SimQueue]:
        """This queue and those above it."""
        queue: SimQueue | None = self
        while queue is not None:
            yield queue
            queue = queue.parent

    def walk(self) -> Iterator[SimQueue]:
        yield self
        for child in self.children:
            yield from child.walk()

    def has_quota_for(self, amount: Resources) -> bool:
        return all(queue.used.plus(amount).fits_in(queue.maximum) for queue in self.path())

    def usable_gpus(self) -> int:
        """The resources that may still be used before this queue or one above is at its maximum."""
        return min(queue.maximum.gpus - queue.used.gpus for queue in self.path())

    def take(self, amount: Resources) -> None:
        for queue in self.path():
            queue.used = queue.used.plus(amount)

    def give(self, amount: Resources) -> None:
        for queue in self.path():
            queue.used = queue.used.minus(amount)

    def asks_begin(self, app: Application) -> None:
        for queue in self.path():
            queue.pending[app.number] = app

    def asks_end(self, app: Application) -> None:
        for queue in self.path():
            queue.pending.pop(app.number, None)


def _amounts(amounts: Resources) -> tuple[int, int, int]:
    return amounts.memory_mib, amounts.vcores, amounts.gpus


class SimQueues:
    """The tree, and the shares in it."""

    def __init__(self, root: QueueConfig, cluster: Resources) -> None:
        self.cluster = cluster
        self.root = SimQueue(root, None, cluster)
        self.leaves = {queue.name: queue for queue in self.root.walk() if queue.config.is_leaf}
        self._shares: dict[str, Resources] | None = None
        self._app_shares: dict[str, tuple[Resources, dict[int, Resources]]] = {}
        """The application shares by queue: the share that they divide, and the share of each."""
        self._views: dict[str, tuple[tuple[object, ...], QueueView]] = {}
        self._changes = 0
        """The number of changes of the applications so far."""
        self._all_views: tuple[QueueView, ...] = ()
        self._viewed: tuple[int, int] | None = None
        """The state that ``_all_views`` were made from."""

    # ---- applications ------------------------------------------------------------------------

    def add(self, app: Application) -> None:
        """It runs: its queue is active."""
        self._changes += 1
        if not app.queue.apps:
            self._shares = None
        app.queue.apps[app.number] = app
        self._app_shares.pop(app.queue.name, None)
        for queue in app.queue.path():
            queue.running += 1

    def remove(self, app: Application) -> None:
        self._changes += 1
        queue = app.queue
        if queue.apps.pop(app.number, None) is None:
            queue.waiting = deque(one for one in queue.waiting if one[0] is not app)
            return
        self._app_shares.pop(queue.name, None)
        for above in queue.path():
            above.running -= 1
        if app.has_am:
            queue.am_used = queue.am_used.minus(app.am)
        if not queue.apps:
            self._shares = None

    def wait(self, app: Application, am: Resources, start: Callable[[], None]) -> None:
        """``start`` is called, by ``start_waiting``, as soon as it may have an ApplicationMaster:
        after those of its queue that came before."""
        self._changes += 1
        app.am = am
        app.queue.waiting.append((app, start))

    def start_waiting(self) -> None:
        """Start those that may start, by their arrival."""
        blocked: set[str] = set()
        while True:
            first = [
                queue
                for queue in self.leaves.values()
                if queue.waiting and queue.name not in blocked
            ]
            if not first:
                return
            queue = min(first, key=lambda one: one.waiting[0][0].number)
            app, start = queue.waiting[0]
            if not self._may_start(app):
                blocked.add(queue.name)
                continue
            self._changes += 1
            queue.waiting.popleft()
            queue.am_used = queue.am_used.plus(app.am)
            app.has_am = True
            start()

    def _may_start(self, app: Application) -> bool:
        queue = app.queue
        if app.number not in queue.apps:
            for one in queue.path():
                if one.config.max_apps is not None and one.running >= one.config.max_apps:
                    return False
            self.add(app)
        if queue.config.max_am_share < 0:
            return True
        free = self.cluster.minus(self.root.used)
        limit = am_limit(self.share(queue), queue.maximum, free, queue.config.max_am_share)
        return queue.am_used.plus(app.am).fits_in(limit)

    # ---- shares ------------------------------------------------------------------------------

    def share(self, queue: SimQueue) -> Resources:
        """The queue's share now, among those with applications."""
        if self._shares is None:
            active = [name for name, leaf in self.leaves.items() if leaf.apps]
            self._shares = dict(
                instantaneous_shares(self.root.config, self.cluster, active),
            )
        return self._shares[queue.name]

    def app_shares(self, queue: SimQueue) -> dict[int, Resources]:
        """The fair share of each application of a leaf."""
        whole, known = self.share(queue), self._app_shares.get(queue.name)
        if known is None or known[0] != whole:
            known = self._app_shares[queue.name] = whole, self._divided(queue, whole)
        return known[1]

    def _divided(self, queue: SimQueue, whole: Resources) -> dict[int, Resources]:
        count, policy = len(queue.apps), queue.config.policy
        if policy is Policy.FIFO:
            return _first_come(queue, whole)
        alike = [Schedulable(1.0, 0, UNLIMITED)] * count
        memory = divide(whole.memory_mib, alike)
        zero = [0] * count
        is_drf = policy is Policy.DRF
        vcores = divide(whole.vcores, alike) if is_drf else zero
        gpus = divide(whole.gpus, alike) if is_drf else zero
        shares = (Resources(*one) for one in zip(memory, vcores, gpus, strict=True))
        return dict(zip(queue.apps, shares, strict=True))

    def in_serving_order(self) -> Iterator[Application]:
        """The applications that ask, the one that is served first at the front."""
        return self._below(self.root)

    def _below(self, queue: SimQueue) -> Iterator[Application]:
        policy, cluster = queue.config.policy, self.cluster
        if not queue.children:
            yield from sorted(
                queue.pending.values(),
                key=lambda app: (serving_key(policy, app.used, cluster), app.number),
            )
            return
        asking = [child for child in queue.children if child.pending]
        if len(asking) > 1:
            asking.sort(
                key=lambda q: (
                    serving_key(policy, q.used, cluster, q.minimum, q.config.weight),
                    q.name,
                )
            )
        for child in asking:
            yield from self._below(child)

    # ---- views -------------------------------------------------------------------------------

    def views(self, used_version: int) -> tuple[QueueView, ...]:
        """The leaves, as the RM's REST API shows them. ``used_version`` grows with every change of
        what is used."""
        viewed = used_version, self._changes
        if viewed != self._viewed:
            self._all_views = tuple(self._view(queue) for queue in self.leaves.values())
            self._viewed = viewed
        return self._all_views

    def _view(self, queue: SimQueue) -> QueueView:
        share, above = self.share(queue), queue.parent
        headroom = None
        if above is not None and above.is_limited:
            left = [one.maximum.minus(one.used) for one in queue.path()]
            headroom = Resources(
                min(one.memory_mib for one in left),
                min(one.vcores for one in left),
                min(one.gpus for one in left),
            )
        facts = (queue.used, share, len(queue.apps), len(queue.waiting), headroom)
        known = self._views.get(queue.name)
        if known is not None and known[0] == facts:
            return known[1]
        has_maximum = min(_amounts(queue.maximum)) < UNLIMITED
        view = QueueView(
            name=queue.name,
            used=queue.used,
            fair_share=share,
            minimum=queue.minimum if queue.minimum != NOTHING else None,
            maximum=queue.maximum if has_maximum else None,
            running_jobs=len(queue.apps),
            headroom=headroom,
            is_preemptable=queue.config.is_preemptable,
        )
        self._views[queue.name] = facts, view
        return view


def _first_come(queue: SimQueue, whole: Resources) -> dict[int, Resources]:
    """By ``fifo`` the earliest has everything (``FifoPolicy.computeShares``)."""
    shares = dict.fromkeys(queue.apps, NOTHING)
    if shares:
        shares[min(shares)] = whole
    return shares
