"""Queues that starve take containers from those above their share.

After ``FSLeafQueue.updateStarvedApps``, ``FSAppAttempt`` and ``FSPreemptionThread`` of Hadoop 3.4:
an application starves that asks and has less than the defended part of its fair share, for longer
than its queue's ``fairSharePreemptionTimeout``; so does a queue below its minimum share, for longer
than ``minSharePreemptionTimeout``. For each container that it is short of, the first node is taken
on which enough can be freed by preempting containers of applications that stay at or above their
own fair share; they are killed after ``waitTimeBeforeKill``, and the node is kept for who starves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from yarnam.core.model.ids import AskId
from yarnam.core.model.outcomes import ContainerEnd
from yarnam.core.model.plans import Target
from yarnam.core.model.resources import Resources
from yarnam.core.queues.fair_share import starved_of
from yarnam.core.queues.serving_order import is_below, serving_key
from yarnam.sim.sim_settings import PreemptionSettings, RmSettings
from yarnam.sim.timeline import Timeline
from yarnam.sim.yarn_model.containers import Container
from yarnam.sim.yarn_model.sim_nodes import SimNodes
from yarnam.sim.yarn_model.sim_queues import NOTHING, Application, SimQueue, SimQueues

GRANT_HEARTBEATS = 4
"""How many node heartbeats YARN gives the starved one to get what was freed."""


@dataclass(frozen=True, slots=True)
class Preempted:
    """One container that was taken."""

    at_s: float
    job: int
    """Whose it was."""
    queue: str
    taker: str
    """The queue that starved."""
    gpus: int


_OnNode = dict[int, list[tuple[Application, Container]]]


class PreemptableRm(Protocol):
    """The ResourceManager as preemption needs it."""

    nodes: SimNodes
    queues: SimQueues

    def running(self) -> Iterable[Application]: ...
    def accepts(self, target: Target, node: int) -> bool: ...
    def end(self, app: Application, container: Container, end: ContainerEnd) -> None: ...
    def reserve(self, node: int, app: Application, ask: AskId) -> None: ...


@dataclass(frozen=True, slots=True)
class _Starved:
    app: Application
    short_of: Resources


class Preemption:
    """Checks while anything is asked for; ``taken`` is what was preempted."""

    def __init__(self, settings: RmSettings, rm: PreemptableRm, timeline: Timeline) -> None:
        self._settings = settings.preemption or PreemptionSettings()
        self._pause_s = (
            self._settings.wait_before_kill_s
            + GRANT_HEARTBEATS * settings.node_heartbeat_s
            + self._settings.wait_before_check_s
        )
        self._rm = rm
        self._timeline = timeline
        self._is_checking = False
        self.taken: list[Preempted] = []

    def watch(self, app: Application) -> None:
        """Something has been asked for."""
        queue = app.queue
        if len(queue.pending) == 1:
            # Who asks for nothing lacks nothing: until now it had its minimum.
            queue.at_minimum_s = self._timeline.now_s
        if not self._is_checking:
            self._is_checking = True
            self._timeline.after(self._settings.update_s, self._check)

    def _check(self) -> None:
        queues = self._rm.queues
        self._is_checking = bool(queues.root.pending)
        if not self._is_checking:
            return
        if self._is_used_enough():
            for queue in queues.leaves.values():
                if queue.pending:
                    for starved in self._starved(queue):
                        self._take_for(starved)
        self._timeline.after(self._settings.update_s, self._check)

    def _is_used_enough(self) -> bool:
        """``FairScheduler.shouldAttemptPreemption``: it does not see GPUs."""
        used, size = self._rm.queues.root.used, self._rm.queues.cluster
        return (
            max(
                used.memory_mib / max(1, size.memory_mib),
                used.vcores / max(1, size.vcores),
            )
            > self._settings.threshold
        )

    # ---- who starves -------------------------------------------------------------------------

    def _starved(self, queue: SimQueue) -> list[_Starved]:
        now_s, policy = self._timeline.now_s, queue.config.policy
        cluster = self._rm.queues.cluster
        asking = sorted(
            (app for app in queue.pending.values() if now_s >= app.next_check_s),
            key=lambda app: (serving_key(policy, app.used, cluster), app.number),
        )
        short: dict[int, Resources] = {}
        whole = NOTHING
        for app in asking:
            lacks = self._lacks_fair_share(app)
            if lacks == NOTHING:
                break
            short[app.number] = lacks
            whole = whole.plus(lacks)
        left = self._lacks_minimum(queue).minus(whole)
        for app in asking:
            if left == NOTHING:
                break
            more = _asked(app).minus(short.get(app.number, NOTHING))
            if is_below(policy, left, more, cluster):
                # As in YARN: add the excess of the request over the rest, not the rest
                # (FSLeafQueue).
                more, left = more.minus(left), NOTHING
            else:
                left = left.minus(more)
            short[app.number] = short.get(app.number, NOTHING).plus(more)
        return [_Starved(app, short[app.number]) for app in asking if app.number in short]

    def _lacks_fair_share(self, app: Application) -> Resources:
        """``FSAppAttempt.fairShareStarvation``: the clock runs from the last check that found it at
        its share, which may be its beginning."""
        now_s, queue = self._timeline.now_s, app.queue
        policy, cluster = queue.config.policy, self._rm.queues.cluster
        share = self._rm.queues.app_shares(queue)[app.number]
        part = queue.config.fair_share_threshold
        defended = Resources(
            int(share.memory_mib * part), int(share.vcores * part), int(share.gpus * part)
        )
        demand = app.used.plus(_asked(app))
        wanted = Resources(
            min(defended.memory_mib, demand.memory_mib),
            min(defended.vcores, demand.vcores),
            min(defended.gpus, demand.gpus),
        )
        if not is_below(policy, app.used, wanted, cluster):
            app.at_share_s = now_s
            return NOTHING
        timeout_s = queue.config.fair_share_timeout_s
        if timeout_s is None or now_s - app.at_share_s < timeout_s:
            return NOTHING
        return wanted.minus(app.used)

    def _lacks_minimum(self, queue: SimQueue) -> Resources:
        now_s, timeout_s = self._timeline.now_s, queue.config.min_share_timeout_s
        demand = queue.used
        for app in queue.pending.values():
            demand = demand.plus(_asked(app))
        lacks = starved_of(queue.minimum, demand, queue.used)
        if lacks == NOTHING:
            queue.at_minimum_s = now_s
        is_long = timeout_s is not None and now_s - queue.at_minimum_s >= timeout_s
        return lacks if is_long else NOTHING

    # ---- what is taken -----------------------------------------------------------------------

    def _take_for(self, starved: _Starved) -> None:
        app = starved.app
        found: list[tuple[Application, Container]] = []
        left, on_node = starved.short_of, self._preemptable()
        for target, count in _kinds(app):
            if left == NOTHING:
                break
            each = target.resources
            # Compare memory alone, as FSAppAttempt.getStarvedResourceRequests does.
            fitting = left.memory_mib // each.memory_mib if each.memory_mib else count
            for _ in range(min(count, fitting)):
                found += self._find(target, on_node)
            left = left.minus(each.times(min(count, fitting)))
        app.next_check_s = self._timeline.now_s + self._pause_s
        if found:
            wait_s = self._settings.wait_before_kill_s
            self._timeline.after(wait_s, self._kill(found, app))

    def _preemptable(self) -> _OnNode:
        on_node: _OnNode = {}
        for app in self._rm.running():
            if app.queue.config.is_preemptable:
                for container in app.containers.values():
                    on_node.setdefault(container.node, []).append((app, container))
        return on_node

    def _find(self, target: Target, on_node: _OnNode) -> list[tuple[Application, Container]]:
        """Containers of one node that are to go, flagged as such; empty if no node has enough."""
        for node in sorted(on_node):
            if not self._rm.accepts(target, node):
                continue
            found = self._enough_on(node, target.resources, on_node[node])
            if found:
                for app, container in found:
                    app.flagged[container.ask] = container
                return found
        return []

    def _enough_on(
        self, node: int, wanted: Resources, held: list[tuple[Application, Container]]
    ) -> list[tuple[Application, Container]]:
        free = self._rm.nodes.free[node]
        found: list[tuple[Application, Container]] = []
        for app, container in reversed(held):
            if container.ask not in app.flagged and self._may_lose(app, container, found):
                found.append((app, container))
                free = free.plus(container.resources)
            if wanted.fits_in(free):
                return found
        return []

    def _may_lose(
        self, app: Application, container: Container, found: list[tuple[Application, Container]]
    ) -> bool:
        """It has its fair share without all that it is to lose."""
        rest = app.used.minus(container.resources)
        for ask, one in app.flagged.items():
            if ask in app.containers:
                rest = rest.minus(one.resources)
        for other, one in found:
            if other is app:
                rest = rest.minus(one.resources)
        queues = self._rm.queues
        share = queues.app_shares(app.queue)[app.number]
        return not is_below(app.queue.config.policy, rest, share, queues.cluster)

    def _kill(
        self, found: list[tuple[Application, Container]], taker: Application
    ) -> Callable[[], None]:
        def kill() -> None:
            for app, container in found:
                app.flagged.pop(container.ask, None)
                if app.containers.get(container.ask) is not container:
                    continue
                self.taken.append(
                    Preempted(
                        self._timeline.now_s,
                        app.number,
                        app.queue.name,
                        taker.queue.name,
                        container.resources.gpus,
                    )
                )
                self._rm.end(app, container, ContainerEnd.PREEMPTED)
                self._keep(container.node, taker)

        return kill

    def _keep(self, node: int, taker: Application) -> None:
        for ask in taker.asks.values():
            if self._rm.accepts(ask.target, node):
                self._rm.reserve(node, taker, ask.ask)
                return


def _asked(app: Application) -> Resources:
    whole = NOTHING
    for ask in app.asks.values():
        whole = whole.plus(ask.target.resources)
    return whole


def _kinds(app: Application) -> list[tuple[Target, int]]:
    """The requests of the application, by target, in the order of the asks."""
    counts: dict[str, tuple[Target, int]] = {}
    for ask in app.asks.values():
        _, count = counts.get(ask.target.service, (ask.target, 0))
        counts[ask.target.service] = ask.target, count + 1
    return list(counts.values())
