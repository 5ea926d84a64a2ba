"""Takes nodes and queues out of use by gangs, and back, by the rights of administrators.

It changes nothing in YARN: other applications use the nodes and the queue as before.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from yarnam._light_imports import on_first_use
from yarnam.adapters.yarn.addresses import secret_file, zookeeper_credentials
from yarnam.client.queues.chosen_policies import ADMIN_VARIABLE
from yarnam.client.queues.queue_rights import must_administer
from yarnam.client.site import Site
from yarnam.client.submit.waiting_jobs import read_closures
from yarnam.core.model.snapshot import Closure, Closures
from yarnam.errors import UsageError

if TYPE_CHECKING:
    from yarnam.adapters.zookeeper.closed_places import ClosedPlaces

with on_first_use():
    from yarnam.adapters.zookeeper import closed_places, lazy_session

ROOT = "root"
"""Who administers this queue may cordon nodes."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """An order that was given or taken back."""

    name: str
    closure: Closure | None
    """``None`` means that the place is open."""
    is_protected: bool
    """Whether ZooKeeper keeps others from changing it."""


class Maintenance:
    """The orders of one cluster. All calls raise Unavailable, UsageError (there is no such node or
    queue), and those that change something NoPermission."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def closures(self) -> Closures:
        """All orders; none without a ZooKeeper, or where it cannot be reached from here."""
        return read_closures(self._site)

    def cordon(self, node: str, reason: str = "") -> Ordered:
        """Keep gangs off the node; those that run there run on."""
        self._check_node(node)
        return self._close("node", node, ROOT, reason, None)

    def drain(self, node: str, deadline_s: float, reason: str = "") -> Ordered:
        """Cordon the node, and have the gangs on it save and leave by then, in seconds from now."""
        self._check_node(node)
        return self._close("node", node, ROOT, reason, time.time() + deadline_s)

    def uncordon(self, node: str) -> Ordered:
        """Let gangs use the node again, whether it was cordoned or drained."""
        return self._open("node", node, ROOT, of_drain=False)

    def undrain(self, node: str) -> Ordered:
        """Take back a drain. A node that was cordoned before stays cordoned."""
        return self._open("node", node, ROOT, of_drain=True)

    def stop(self, queue: str, reason: str = "", drain_s: float | None = None) -> Ordered:
        """Let no gang of the queue, and of those below it, begin. ``drain_s``: those that run save
        and leave by then, in seconds from now, and wait."""
        self._check_queue(queue)
        limit_s = None if drain_s is None else time.time() + drain_s
        return self._close("queue", queue, queue, reason, limit_s)

    def resume(self, queue: str) -> Ordered:
        """Let gangs of the queue begin again."""
        return self._open("queue", queue, queue, of_drain=False)

    # ---- inside ------------------------------------------------------------------------------

    def _close(
        self, kind: str, name: str, rights_in: str, reason: str, drain_by_s: float | None
    ) -> Ordered:
        most = closed_places.MAX_REASON
        if len(reason) > most:
            raise UsageError(f"the reason has {len(reason)} characters; at most {most}")
        _must_have_zookeeper(self._site)
        must_administer(self._site, rights_in)
        admin = secret_file(self._site.environ, ADMIN_VARIABLE)
        with _opened(self._site) as places:
            before = places.of(kind, name)
            was_closed = before is not None and (before.drain_by_s is None or before.was_closed)
            if before is not None and not reason:
                reason = before.reason
            if drain_by_s is None and before is not None and before.drain_by_s is not None:
                # Such a drain continues, and leaves the place closed when it is undone.
                drain_by_s, was_closed = before.drain_by_s, True
            closure = Closure(
                self._site.user,
                time.time(),
                reason,
                drain_by_s,
                was_closed=was_closed and drain_by_s is not None,
            )
            places.close(kind, name, closure, admin=admin)
            return Ordered(name, closure, places.is_protected())

    def _open(self, kind: str, name: str, rights_in: str, *, of_drain: bool) -> Ordered:
        _must_have_zookeeper(self._site)
        must_administer(self._site, rights_in)
        admin = secret_file(self._site.environ, ADMIN_VARIABLE)
        with _opened(self._site) as places:
            before = places.of(kind, name)
            if before is None or (of_drain and before.drain_by_s is None):
                state = {"node": "cordoned", "queue": "stopped"}[kind]
                what = "drained" if of_drain else state
                raise UsageError(f"{name[:100]!a} is not {what}", hint=_hint(kind))
            if of_drain and before.was_closed:
                left = replace(before, drain_by_s=None, was_closed=False)
                places.close(kind, name, left, admin=admin)
                return Ordered(name, left, places.is_protected())
            places.open(kind, name, admin=admin)
            return Ordered(name, None, places.is_protected())

    def _check_node(self, node: str) -> None:
        nodes = [one.node_id for one in self._site.rm.snapshot(ROOT).nodes]
        _check_name(node, nodes, "node", "To list the nodes: yarnam nodes")

    def _check_queue(self, queue: str) -> None:
        report = self._site.rm.queue_report("")
        if report is None:
            names = [one.name for one in self._site.rm.queues()]
        else:
            names = [one.name for one in report.root.walk()]
        _check_name(queue, names, "queue", "To list the queues: yarnam queues show")


def _hint(kind: str) -> str:
    return f"To see what is: {'yarnam nodes' if kind == 'node' else 'yarnam queues show'}"


def _check_name(name: str, names: Collection[str], kind: str, hint: str) -> None:
    if name in names:
        return
    close = difflib.get_close_matches(name, names, n=1)
    raise UsageError(
        f"the cluster has no {kind} {name[:100]!a}",
        hint=f"Did you mean {close[0]}?" if close else hint,
    )


def _must_have_zookeeper(site: Site) -> None:
    """Raises UsageError, NotThroughGateway."""
    if not site.zookeeper:
        raise UsageError(
            "cordons and stopped queues are kept in ZooKeeper, and none is configured",
            hint="yarnam docs zookeeper tells how. Without it: yarn.resourcemanager.nodes."
            "exclude-path, or state STOPPED of a queue (Capacity Scheduler).",
        )
    site.must_reach("ZooKeeper, which keeps cordons and stopped queues,")


@contextmanager
def _opened(site: Site) -> Iterator[ClosedPlaces]:
    session = lazy_session.LazySession(site.zookeeper, zookeeper_credentials(site.environ))
    try:
        yield closed_places.ClosedPlaces(session.connected())
    finally:
        session.close()
