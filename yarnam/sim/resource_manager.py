"""The model of YARN's ResourceManager with the Fair Scheduler.

What it has of the real one, because it makes or breaks gangs: containers are granted when a node
heartbeats, by default one per heartbeat; queues are served by least use per weight, applications
in a queue by least use, an application's asks in their order; a node that has no room for the ask
whose turn it is may be *reserved* for it (FSAppAttempt.reserve), at most ``reservable_nodes`` of
all nodes for one application, and then serves nobody else until that ask is granted or withdrawn;
an ask and its withdrawal travel with the AM's heartbeat, so grants come late; released GPUs are
free a second later. Not modelled: memory of the AMs' own containers, preemption, node loss.

A node whose heartbeat could change nothing is not played.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from yarnam.core.model.ids import AskId
from yarnam.core.model.outcomes import ContainerEnd
from yarnam.core.model.plans import LocalityLevel, Target
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, QueueView
from yarnam.sim.sim_nodes import SimNodes, fair_shares
from yarnam.sim.sim_settings import Deal, QueueSettings, RmSettings
from yarnam.sim.timeline import Timeline

UNLIMITED = 2**31 - 1


@dataclass(slots=True)
class Container:
    """A grant, from its first to its last moment at the RM. Times in virtual seconds."""

    number: int
    job: int
    ask: AskId
    node: int
    resources: Resources
    granted_s: float
    freed_s: float | None = None
    """When its node could use the GPUs again; None: not yet."""
    released_s: float | None = None


class ContainerListener(Protocol):
    """An application's ear: called with the AM's heartbeat."""

    def granted(self, container: Container) -> None: ...

    def ended(self, container: Container, end: ContainerEnd) -> None:
        """Its node is lost, or YARN has taken it."""


@dataclass(slots=True)
class Ask:
    ask: AskId
    target: Target


class Application:
    """One application at the RM: what it has asked for and not got yet, and what it uses."""

    __slots__ = ("asks", "containers", "listener", "number", "phase_s", "queue", "reserved", "used")

    def __init__(
        self, number: int, queue: Queue, phase_s: float, listener: ContainerListener
    ) -> None:
        self.number = number
        self.queue = queue
        self.phase_s = phase_s
        self.listener = listener
        self.asks: dict[AskId, Ask] = {}
        self.containers: dict[AskId, Container] = {}
        self.reserved: set[int] = set()
        self.used = 0


class Queue:
    """A leaf queue: its settings and what it uses."""

    __slots__ = ("apps", "maximum", "pending", "settings", "used")

    def __init__(self, settings: QueueSettings) -> None:
        self.settings = settings
        self.used = Resources()
        self.maximum = settings.max_gpus if settings.max_gpus is not None else UNLIMITED
        self.apps: set[int] = set()
        self.pending: dict[int, Application] = {}

    def has_quota_for(self, amount: Resources) -> bool:
        return self.used.gpus + amount.gpus <= self.maximum


class SimResourceManager:
    """Nodes, queues, applications. ``containers`` are all grants there ever were."""

    def __init__(self, settings: RmSettings, timeline: Timeline, dice: random.Random) -> None:
        self.settings = settings
        self.nodes = SimNodes(settings)
        self.queues = {queue.name: Queue(queue) for queue in settings.queues}
        self.containers: list[Container] = []
        self.reservations: dict[int, tuple[Application, AskId]] = {}
        self._timeline = timeline
        self._dice = dice
        period_s = settings.node_heartbeat_s
        self._phases = [dice.uniform(0.0, period_s) for _ in range(settings.nodes)]
        self._beating: set[int] = set()
        self._most_reserved = math.ceil(settings.nodes * settings.reservable_nodes)
        self._pending = 0
        self._initial_gangs = 0
        self._apps: dict[int, Application] = {}
        self._shares: dict[str, float] | None = None

    # ---- what applications do ----------------------------------------------------------------

    def register(self, number: int, queue: str, listener: ContainerListener) -> Application:
        app = Application(
            number,
            self.queues[queue],
            self._dice.uniform(0.0, self.settings.am_heartbeat_s),
            listener,
        )
        app.queue.apps.add(number)
        self._apps[number] = app
        self._shares = None
        return app

    def register_running(
        self,
        queue: str,
        size: Resources,
        pieces: Iterable[tuple[int, int]],
        listener: ContainerListener,
    ) -> Application:
        """An application that has all its containers already, ``pieces`` of (node, how many)."""
        self._initial_gangs += 1
        app = self.register(-self._initial_gangs, queue, listener)
        for node, count in pieces:
            for _ in range(count):
                ask = AskId(0, "initial", len(app.containers))
                self.nodes.take(node, size)
                app.used += size.gpus
                app.queue.used = app.queue.used.plus(size)
                app.containers[ask] = Container(-1, app.number, ask, node, size, 0.0)
        return app

    def unregister(self, app: Application) -> None:
        """The application ends: nothing of it stays, reservations included."""
        for ask in list(app.asks):
            self._withdraw(app, ask)
        for container in list(app.containers.values()):
            self._release(container, app)
        app.queue.apps.discard(app.number)
        self._apps.pop(app.number, None)
        self._shares = None

    def ask(self, app: Application, asks: Iterable[Ask]) -> None:
        batch = tuple(asks)
        self._timeline.at(self._next(app), lambda: self._receive(app, batch))

    def release(self, app: Application, ask: AskId) -> None:
        """Withdraw the ask or release its container, whichever it is when the RM hears of it."""
        self._timeline.at(self._next(app), lambda: self._drop(app, ask))

    def end_all_on(self, node: int, end: ContainerEnd, away_s: float) -> None:
        """All containers there end at once. A lost node is back ``away_s`` later, idle; until then
        it shows no room."""
        for app in list(self._apps.values()):
            for container in [c for c in app.containers.values() if c.node == node]:
                del app.containers[container.ask]
                container.released_s = self._timeline.now_s
                self._freed(container, app)
                self._report_end(app, container, end)
        free = self.nodes.free[node]
        if end is ContainerEnd.LOST:
            self.nodes.take(node, free)
            self._timeline.after(away_s, lambda: self._back(node, free))

    def _report_end(self, app: Application, container: Container, end: ContainerEnd) -> None:
        self._timeline.at(self._next(app), lambda: app.listener.ended(container, end))

    def _back(self, node: int, free: Resources) -> None:
        self.nodes.give(node, free)
        self._kick(node)

    def snapshot(self, queue: str) -> ClusterSnapshot:
        views = tuple(self._queue_view(one) for one in self.queues.values())
        mine = next(view for view in views if view.name == queue)
        return ClusterSnapshot(
            taken_at_s=self._timeline.now_s, nodes=self.nodes.view(), queue=mine, queues=views
        )

    # ---- shares ------------------------------------------------------------------------------

    def share(self, queue: str) -> float:
        """GPUs that the queue is due now, among the queues that have applications."""
        if self._shares is None:
            active = [
                (name, one.settings.weight, one.settings.max_gpus)
                for name, one in self.queues.items()
                if one.apps
            ]
            self._shares = fair_shares(self.settings.gpus, active)
        return self._shares.get(queue, 0.0)

    def _queue_view(self, queue: Queue) -> QueueView:
        per_gpu = Resources(self.settings.memory_mib_per_gpu, self.settings.vcores_per_gpu, 1)
        maximum = None
        if queue.settings.max_gpus is not None:
            maximum = Resources(UNLIMITED, UNLIMITED, queue.settings.max_gpus)
        return QueueView(
            name=queue.settings.name,
            used=queue.used,
            fair_share=per_gpu.times(int(self.share(queue.settings.name))),
            maximum=maximum,
            running_jobs=len(queue.apps),
        )

    # ---- asks and releases -------------------------------------------------------------------

    def _next(self, app: Application) -> float:
        return _tick(self._timeline.now_s, app.phase_s, self.settings.am_heartbeat_s)

    def _receive(self, app: Application, batch: tuple[Ask, ...]) -> None:
        for ask in batch:
            app.asks[ask.ask] = ask
        self._pending += len(batch)
        app.queue.pending[app.number] = app
        for node in range(self.settings.nodes):
            self._kick(node)

    def _drop(self, app: Application, ask: AskId) -> None:
        container = app.containers.get(ask)
        if container is not None:
            self._release(container, app)
        else:
            self._withdraw(app, ask)

    def _withdraw(self, app: Application, ask: AskId) -> None:
        if app.asks.pop(ask, None) is None:
            return
        self._forget(app, ask)

    def _forget(self, app: Application, ask: AskId) -> None:
        """The ask is no longer pending: its reservations go, and their nodes serve others."""
        self._pending -= 1
        if not app.asks:
            app.queue.pending.pop(app.number, None)
        for node in sorted(app.reserved):
            if self.reservations[node][1] == ask:
                del self.reservations[node]
                app.reserved.discard(node)
                self._kick(node)

    def _release(self, container: Container, app: Application) -> None:
        """The RM hears of it now; the node a moment later."""
        del app.containers[container.ask]
        container.released_s = self._timeline.now_s
        delay_s = self._dice.uniform(*self.settings.release_s)
        self._timeline.after(delay_s, lambda: self._freed(container, app))

    def _freed(self, container: Container, app: Application) -> None:
        container.freed_s = self._timeline.now_s
        self.nodes.give(container.node, container.resources)
        app.used -= container.resources.gpus
        was_full = app.queue.maximum != UNLIMITED
        app.queue.used = app.queue.used.minus(container.resources)
        self._kick(container.node)
        if was_full and app.queue.pending:
            for node in range(self.settings.nodes):
                self._kick(node)

    # ---- node heartbeats ---------------------------------------------------------------------

    def _kick(self, node: int) -> None:
        """This node's next heartbeat may change something."""
        if node in self._beating or not self._pending:
            return
        self._beating.add(node)
        at_s = _tick(self._timeline.now_s, self._phases[node], self.settings.node_heartbeat_s)
        self._timeline.at(at_s, lambda: self._beat(node))

    def _beat(self, node: int) -> None:
        self._beating.discard(node)
        has_granted = self._assign(node)
        while has_granted and self.settings.assign_multiple:
            has_granted = self._assign(node)
        if has_granted and self.nodes.free[node].gpus:
            self._kick(node)

    def _assign(self, node: int) -> bool:
        """Grant one container on this node, or reserve it."""
        if not self._pending:
            return False
        reservation = self.reservations.get(node)
        if reservation is not None:
            app, ask_id = reservation
            ask = app.asks[ask_id]
            if ask.target.resources.fits_in(self.nodes.free[node]) and app.queue.has_quota_for(
                ask.target.resources
            ):
                self._grant(app, ask, node)
                return True
            return False
        if self.settings.deal is Deal.RANDOM:
            return self._deal_at_random(node)
        for app in self._in_fair_order():
            done = self._serve(app, node)
            if done is not None:
                return done
        return False

    def _in_fair_order(self) -> Iterable[Application]:
        queues = [queue for queue in self.queues.values() if queue.pending]
        queues.sort(key=lambda q: (q.used.gpus / q.settings.weight, q.settings.name))
        for queue in queues:
            yield from sorted(queue.pending.values(), key=lambda app: (app.used, app.number))

    def _serve(self, app: Application, node: int) -> bool | None:
        """True: granted; False: reserved; None: nothing for this application here."""
        free = self.nodes.free[node]
        tried: set[tuple[LocalityLevel, Resources, str]] = set()
        for ask in app.asks.values():
            target = ask.target
            key = (target.level, target.resources, target.service)
            if key in tried:
                continue
            tried.add(key)
            if not self._accepts(target, node) or not app.queue.has_quota_for(target.resources):
                continue
            if target.resources.fits_in(free):
                self._grant(app, ask, node)
                return True
            is_strict = target.level is LocalityLevel.NODE
            if not is_strict and len(app.reserved) >= self._most_reserved:
                continue
            if target.resources.fits_in(self.nodes.total):
                self.reservations[node] = (app, ask.ask)
                app.reserved.add(node)
                return False
        return None

    def _deal_at_random(self, node: int) -> bool:
        free = self.nodes.free[node]
        found = [
            (app, ask)
            for queue in self.queues.values()
            for app in queue.pending.values()
            for ask in app.asks.values()
            if ask.target.resources.fits_in(free)
            and self._accepts(ask.target, node)
            and queue.has_quota_for(ask.target.resources)
        ]
        if not found:
            return False
        app, ask = self._dice.choice(found)
        self._grant(app, ask, node)
        return True

    def _accepts(self, target: Target, node: int) -> bool:
        if target.level is LocalityLevel.ANY:
            return True
        return target.accepts(self.nodes.names[node], self.nodes.racks[node])

    def _grant(self, app: Application, ask: Ask, node: int) -> None:
        del app.asks[ask.ask]
        self._forget(app, ask.ask)
        resources = ask.target.resources
        self.nodes.take(node, resources)
        app.used += resources.gpus
        app.queue.used = app.queue.used.plus(resources)
        container = Container(
            number=len(self.containers),
            job=app.number,
            ask=ask.ask,
            node=node,
            resources=resources,
            granted_s=self._timeline.now_s,
        )
        self.containers.append(container)
        app.containers[ask.ask] = container
        self._timeline.at(self._next(app), lambda: app.listener.granted(container))


def _tick(now_s: float, phase_s: float, period_s: float) -> float:
    """The first time after now in the rhythm of ``period_s`` from ``phase_s`` on."""
    beats = math.floor((now_s - phase_s) / period_s) + 1
    at_s = phase_s + beats * period_s
    return at_s if at_s > now_s else at_s + period_s
