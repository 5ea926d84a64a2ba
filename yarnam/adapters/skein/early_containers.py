"""Containers that Skein asks YARN for on its own, as soon as its Java half has registered.

A job whose gang fits with capacity to spare when it is submitted declares the instances of its
first rung with its services (``JobRecord.prelaunched``). They are granted, and their agents start,
while the ApplicationMaster's Python does. The gang machine asks as always; an ask that matches such
a container takes it over instead of asking YARN. What no ask has taken after a short while is given
back: the job waits for its turn, the cluster has changed, or it is a later AM attempt.

An early container's agent does not know its ask, nor where the AM listens: it waits for both under
its own name in Skein's key-value store (``wire.protocol.assignment_key``).
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from yarnam.adapters.skein.am_client import ContainerKey
from yarnam.core.model.ids import AskId, NodeId
from yarnam.core.model.plans import PrelaunchedService, Target
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.errors import YarnamError
from yarnam.ports import ClusterView

log = logging.getLogger("yarnam.am")

UNCLAIMED_LIMIT_S = 4.0
"""From the broker's start: the first snapshot of the cluster, the claim in the ticket queue and the
asks that follow come within one second; a job that is not ready by then holds nothing."""


def assignment(ask: AskId, env: Mapping[str, str]) -> bytes:
    """The answer to an early agent: its ask, and the variables that others start with."""
    return json.dumps({"ask": str(ask), "env": dict(env)}).encode()


@dataclass(frozen=True, slots=True)
class EarlyContainer:
    """An early container that nobody has taken over, and where it is expected to be."""

    service: str
    node: NodeId


class EarlyContainers:
    """Those that are still to be had. Thread-safe."""

    def __init__(
        self, prelaunched: Iterable[PrelaunchedService] = (), *, limit_s: float = UNCLAIMED_LIMIT_S
    ) -> None:
        """``limit_s`` 0: they are not wanted at all (a later AM attempt's; Skein asks again)."""
        # Skein numbers the instances of a service from 0, in the order in which it makes them.
        self._left: dict[ContainerKey, NodeId] = {
            ContainerKey(ask.service, number): node
            for ask in prelaunched
            for number, node in enumerate(ask.nodes)
        }
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self.start()

    def start(self) -> None:
        """The limit counts from here."""
        self._until = time.monotonic() + self._limit_s

    def __bool__(self) -> bool:
        with self._lock:
            return bool(self._left)

    def __contains__(self, key: ContainerKey) -> bool:
        with self._lock:
            return key in self._left

    def claim(self, service: str) -> ContainerKey | None:
        """The first one of this service; it is the caller's from now on."""
        with self._lock:
            if time.monotonic() >= self._until:
                return None
            keys = sorted(key for key in self._left if key.service == service)
            if not keys:
                return None
            del self._left[keys[0]]
            return keys[0]

    def drop(self, *, only_if_due: bool = False) -> Sequence[ContainerKey]:
        """All that are left; the caller gives them back."""
        with self._lock:
            if only_if_due and time.monotonic() < self._until:
                return ()
            keys = sorted(self._left)
            self._left.clear()
            return keys

    def unclaimed(self) -> Sequence[EarlyContainer]:
        with self._lock:
            return [EarlyContainer(key.service, node) for key, node in sorted(self._left.items())]


class ViewWithoutEarly:
    """A ``ports.ClusterView`` of the cluster as if this job had no early containers: they may be
    granted before the AM's first snapshot, and must not count as somebody else's. ``unclaimed``
    tells what is ours and not yet taken over, ``granted`` how many of it are on each node by the
    ResourceManager's own books. Where it does not tell, none is."""

    def __init__(
        self,
        view: ClusterView,
        targets: Iterable[Target],
        unclaimed: Callable[[], Sequence[EarlyContainer]],
        granted: Callable[[], Mapping[NodeId, int]],
    ) -> None:
        self._view = view
        self._sizes = {target.service: target.resources for target in targets}
        self._unclaimed = unclaimed
        self._granted = granted

    def snapshot(self, queue: str, *, max_age_s: float | None = None) -> ClusterSnapshot:
        snapshot = self._view.snapshot(queue, max_age_s=max_age_s)
        unclaimed = self._unclaimed()
        if not unclaimed:
            return snapshot
        # Asked after the snapshot: what has been granted since is ours too, so it does no harm.
        try:
            granted = self._granted()
        except YarnamError as error:
            log.info("where early containers are is not known: %s", error.message)
            return snapshot
        ours = where_granted(unclaimed, granted)
        return without_containers(snapshot, ours, self._sizes) if ours else snapshot


def where_granted(
    unclaimed: Iterable[EarlyContainer], granted: Mapping[NodeId, int]
) -> Sequence[EarlyContainer]:
    """The unclaimed containers that YARN has granted, placed on the nodes of its grants. The
    others hold no room: another job may have taken it since the submit."""
    left, found = list(unclaimed), []
    for node, count in sorted(granted.items()):
        for one in sorted(left, key=lambda container: container.node != node)[:count]:
            left.remove(one)
            found.append(replace(one, node=node))
    return found


def without_containers(
    snapshot: ClusterSnapshot, ours: Iterable[EarlyContainer], sizes: Mapping[str, Resources]
) -> ClusterSnapshot:
    """The snapshot with these containers' resources free. Never more than a node has."""
    mine = Counter((container.node, sizes[container.service]) for container in ours)
    nodes, sum_back = [], Resources()
    for node in snapshot.nodes:
        used = node.used
        for (name, size), count in mine.items():
            if name == node.node_id:
                used = used.minus(size.times(count))
        back = node.used.minus(used)
        sum_back = sum_back.plus(back)
        nodes.append(node if used == node.used else replace(node, used=used))
    queue = replace(snapshot.queue, used=snapshot.queue.used.minus(sum_back))
    return replace(snapshot, nodes=tuple(nodes), queue=queue)
