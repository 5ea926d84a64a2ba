"""The model of YARN's ResourceManager with the Fair Scheduler.

What it has of the real one, because it makes or breaks gangs: containers are granted when a node
heartbeats, by default one per heartbeat; queues and applications are served in the order of their
policies, within the maximums of all queues above (``sim_queues``), an application's asks in their
order; a node that has no room for the ask whose turn it is may be *reserved* for it
(FSAppAttempt.reserve), at most ``reservable_nodes`` of all nodes for one application, and then
serves nobody else until that ask is granted or withdrawn; an ask and its withdrawal travel with the
AM's heartbeat, so grants come late; released GPUs are free a second later; queues that starve take
containers from others (``preemption``). ApplicationMasters count against the AM share of their
queue, but take no room on nodes and none of the queue's maximum.

A node whose heartbeat could change nothing is not played.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable

from yarnam.core.model.ids import AskId, RackId
from yarnam.core.model.outcomes import ContainerEnd
from yarnam.core.model.plans import LocalityLevel, Target
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.sim.sim_settings import RmSettings, ServingOrder
from yarnam.sim.timeline import Timeline
from yarnam.sim.yarn_model.containers import Ask, Container, ContainerListener
from yarnam.sim.yarn_model.preemption import Preempted, Preemption
from yarnam.sim.yarn_model.sim_nodes import SimNodes
from yarnam.sim.yarn_model.sim_queues import Application, SimQueues, queue_tree


class SimResourceManager:
    """Nodes, queues, applications. ``containers`` are all grants there ever were, if it
    ``keeps_past``."""

    def __init__(
        self,
        settings: RmSettings,
        timeline: Timeline,
        dice: random.Random,
        *,
        keeps_past: bool = True,
    ) -> None:
        self.settings = settings
        self.nodes = SimNodes(settings.all_nodes())
        self.queues = SimQueues(settings.root or queue_tree(settings.queues), self.nodes.size)
        self.containers: list[Container] = []
        self._keeps_past = keeps_past
        self._grants = 0
        self.reservations: dict[int, tuple[Application, AskId]] = {}
        self._timeline = timeline
        self._dice = dice
        period_s = settings.node_heartbeat_s
        self._phases = [dice.uniform(0.0, period_s) for _ in self.nodes.names]
        self._beating: set[int] = set()
        self._kicked_all_s = -math.inf
        self._node_numbers = {name: node for node, name in enumerate(self.nodes.names)}
        self._on_racks: dict[RackId, list[int]] = {}
        for node, rack in enumerate(self.nodes.racks):
            self._on_racks.setdefault(rack, []).append(node)
        self._most_reserved = math.ceil(len(self._phases) * settings.reservable_nodes)
        self._pending = 0
        self._initial_gangs = 0
        self._apps: dict[int, Application] = {}
        self._snapshots: dict[str, ClusterSnapshot] = {}
        self._preemption: Preemption | None = None
        if settings.preemption is not None:
            self._preemption = Preemption(settings, self, timeline)

    @property
    def preempted(self) -> tuple[Preempted, ...]:
        """Containers that were taken for starved queues, in the order of time."""
        return tuple(self._preemption.taken) if self._preemption is not None else ()

    # ---- what applications do ----------------------------------------------------------------

    def register(self, number: int, queue: str, listener: ContainerListener) -> Application:
        app = Application(
            number,
            self.queues.leaves[queue],
            self._dice.uniform(0.0, self.settings.am_heartbeat_s),
            listener,
        )
        app.at_share_s = self._timeline.now_s
        self._apps[number] = app
        return app

    def submit(self, app: Application, am: Resources, start: Callable[[], None]) -> None:
        """``start`` is called as soon as the queue's limits let the ApplicationMaster start."""
        self.queues.wait(app, am, start)
        self.queues.start_waiting()

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
        self.queues.add(app)
        for node, count in pieces:
            for _ in range(count):
                ask = AskId(0, "initial", len(app.containers))
                self.nodes.take(node, size)
                app.used = app.used.plus(size)
                app.queue.take(size)
                app.containers[ask] = Container(-1, app.number, ask, node, size, 0.0)
        return app

    def unregister(self, app: Application) -> None:
        """The application ends: nothing of it stays, reservations included."""
        for ask in list(app.asks):
            self._withdraw(app, ask)
        for container in list(app.containers.values()):
            self._release(container, app)
        self.queues.remove(app)
        self._apps.pop(app.number, None)
        self.queues.start_waiting()

    def ask(self, app: Application, asks: Iterable[Ask]) -> None:
        batch = tuple(asks)
        self._timeline.at(self._next(app), lambda: self._receive(app, batch))

    def release(self, app: Application, ask: AskId) -> None:
        """Withdraw the ask or release its container, whichever it is when the RM hears of it."""
        self._timeline.at(self._next(app), lambda: self._drop(app, ask))

    def end_all_on(self, node: int, end: ContainerEnd, away_s: float) -> None:
        """All containers there end immediately. A lost node is back ``away_s`` later, idle; until
        then it shows no room."""
        for app in list(self._apps.values()):
            for container in [c for c in app.containers.values() if c.node == node]:
                self.end(app, container, end)
        free = self.nodes.free[node]
        if end is ContainerEnd.LOST:
            self.nodes.take(node, free)
            self._timeline.after(away_s, lambda: self._back(node, free))

    def end(self, app: Application, container: Container, end: ContainerEnd) -> None:
        """The container is gone immediately; its application hears of it."""
        del app.containers[container.ask]
        container.released_s = self._timeline.now_s
        self._freed(container, app)
        self._timeline.at(self._next(app), lambda: app.listener.ended(container, end))

    def _back(self, node: int, free: Resources) -> None:
        self.nodes.give(node, free)
        self._kick(node)

    def snapshot(self, queue: str) -> ClusterSnapshot:
        """One for all that look at one moment."""
        views, nodes = self.queues.views(self.nodes.version), self.nodes.view()
        known, now_s = self._snapshots.get(queue), self._timeline.now_s
        if (
            known is not None
            and known.taken_at_s == now_s
            and known.queues is views
            and known.nodes is nodes
        ):
            return known
        self._snapshots[queue] = found = ClusterSnapshot(
            taken_at_s=now_s,
            nodes=nodes,
            queue=next(view for view in views if view.name == queue),
            queues=views,
            preempts=self.settings.preemption is not None,
        )
        return found

    def running(self) -> Iterable[Application]:
        """Applications that have not ended, by their registration."""
        return self._apps.values()

    def reserve(self, node: int, app: Application, ask: AskId) -> None:
        """Keep a node for an ask, if it is kept for none yet."""
        if node not in self.reservations:
            self.reservations[node] = (app, ask)
            app.reserved.add(node)

    # ---- asks and releases -------------------------------------------------------------------

    def _next(self, app: Application) -> float:
        return _tick(self._timeline.now_s, app.phase_s, self.settings.am_heartbeat_s)

    def _receive(self, app: Application, batch: tuple[Ask, ...]) -> None:
        for ask in batch:
            app.asks[ask.ask] = ask
        self._pending += len(batch)
        app.queue.asks_begin(app)
        self._kick_all()
        if self._preemption is not None:
            self._preemption.watch(app)

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
            app.queue.asks_end(app)
        may_not_reserve = len(app.reserved) >= self._most_reserved
        for node in sorted(app.reserved):
            if self.reservations[node][1] == ask:
                del self.reservations[node]
                app.reserved.discard(node)
                self._kick(node)
        if may_not_reserve and len(app.reserved) < self._most_reserved:
            self._kick_again()

    def _release(self, container: Container, app: Application) -> None:
        """The RM hears of it now; the node a moment later."""
        del app.containers[container.ask]
        container.released_s = self._timeline.now_s
        delay_s = self._dice.uniform(*self.settings.release_s)
        self._timeline.after(delay_s, lambda: self._freed(container, app))

    def _freed(self, container: Container, app: Application) -> None:
        container.freed_s = self._timeline.now_s
        self.nodes.give(container.node, container.resources)
        app.used = app.used.minus(container.resources)
        app.queue.give(container.resources)
        self._kick(container.node)
        # Those whom a maximum has kept out may go anywhere.
        if any(queue.is_limited and queue.pending for queue in app.queue.path()):
            self._kick_all()

    # ---- node heartbeats ---------------------------------------------------------------------

    def _kick_all(self) -> None:
        """The next heartbeat of each node may change something: played are those that would, as
        things are now."""
        self._kicked_all_s = self._timeline.now_s
        for node in sorted(self._of_use()):
            self._kick(node)

    def _kick_again(self) -> None:
        """Nodes may be reserved again. Those that have had a heartbeat since all were kicked have
        refused already; some of the others may be of use now."""
        now_s, period_s = self._timeline.now_s, self.settings.node_heartbeat_s
        for node in sorted(self._of_use()):
            if _tick(self._kicked_all_s, self._phases[node], period_s) > now_s:
                self._kick(node)

    def _of_use(self) -> set[int]:
        """Nodes that could be granted or reserved, for any of those who ask."""
        found = set(self.reservations)
        for app in self.queues.root.pending.values():
            may_reserve = len(app.reserved) < self._most_reserved
            targets = {
                (ask.target.level, ask.target.resources, ask.target.service): ask.target
                for ask in app.asks.values()
            }
            for target in targets.values():
                wanted = target.resources
                if not app.queue.has_quota_for(wanted):
                    continue
                keeps = may_reserve or target.level is LocalityLevel.NODE
                room = self.nodes.totals if keeps else self.nodes.free
                nodes = self._accepting(target)
                found.update(node for node in nodes if wanted.fits_in(room[node]))
        return found

    def _accepting(self, target: Target) -> Iterable[int]:
        """Nodes on which what is asked for there may run."""
        if target.level is LocalityLevel.NODE:
            return [self._node_numbers[name] for name in target.nodes if name in self._node_numbers]
        if target.level is LocalityLevel.RACK:
            racks = dict.fromkeys(target.racks)
            return [node for rack in racks for node in self._on_racks.get(rack, ())]
        return range(len(self._phases))

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
        if self.settings.serving_order is ServingOrder.RANDOM:
            return self._serve_at_random(node)
        for app in self.queues.in_serving_order():
            done = self._serve(app, node)
            if done is not None:
                return done
        return False

    def _serve(self, app: Application, node: int) -> bool | None:
        """Serve one application on this node: ``True`` if it got a grant, ``False`` if the node is
        reserved for it, ``None`` if there is nothing for it here."""
        free = self.nodes.free[node]
        tried: set[tuple[LocalityLevel, Resources, str]] = set()
        for ask in app.asks.values():
            target = ask.target
            key = (target.level, target.resources, target.service)
            if key in tried:
                continue
            tried.add(key)
            if not self.accepts(target, node) or not app.queue.has_quota_for(target.resources):
                continue
            if target.resources.fits_in(free):
                self._grant(app, ask, node)
                return True
            is_strict = target.level is LocalityLevel.NODE
            if not is_strict and len(app.reserved) >= self._most_reserved:
                continue
            if target.resources.fits_in(self.nodes.totals[node]):
                self.reserve(node, app, ask.ask)
                return False
        return None

    def _serve_at_random(self, node: int) -> bool:
        free = self.nodes.free[node]
        found = [
            (app, ask)
            for queue in self.queues.leaves.values()
            for app in queue.pending.values()
            for ask in app.asks.values()
            if ask.target.resources.fits_in(free)
            and self.accepts(ask.target, node)
            and queue.has_quota_for(ask.target.resources)
        ]
        if not found:
            return False
        app, ask = self._dice.choice(found)
        self._grant(app, ask, node)
        return True

    def accepts(self, target: Target, node: int) -> bool:
        """Whether what is asked for there may run on this node."""
        if target.level is LocalityLevel.ANY:
            return True
        return target.accepts(self.nodes.names[node], self.nodes.racks[node])

    def _grant(self, app: Application, ask: Ask, node: int) -> None:
        del app.asks[ask.ask]
        self._forget(app, ask.ask)
        resources = ask.target.resources
        self.nodes.take(node, resources)
        app.used = app.used.plus(resources)
        app.queue.take(resources)
        container = Container(
            number=self._grants,
            job=app.number,
            ask=ask.ask,
            node=node,
            resources=resources,
            granted_s=self._timeline.now_s,
        )
        self._grants += 1
        if self._keeps_past:
            self.containers.append(container)
        app.containers[ask.ask] = container
        self._timeline.at(self._next(app), lambda: app.listener.granted(container))


def _tick(now_s: float, phase_s: float, period_s: float) -> float:
    """The first time after now in the rhythm of ``period_s`` from ``phase_s`` on."""
    beats = math.floor((now_s - phase_s) / period_s) + 1
    at_s = phase_s + beats * period_s
    return at_s if at_s > now_s else at_s + period_s
