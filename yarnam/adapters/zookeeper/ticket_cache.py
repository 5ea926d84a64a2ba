"""Names of the ticket queue's nodes in ZooKeeper, and a copy of them that follows the changes."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from kazoo.recipe.cache import TreeCache, TreeEvent

from yarnam.adapters.zookeeper.session import Entry, ZooKeeper, entry_of

log = logging.getLogger("yarnam.zookeeper")

QUEUE = "queue"
TICKETS = "tickets"
RUNNING = "running"
CLAIM = "claim"

_NAME = re.compile(
    r"(?:.*/)?(?P<job>[^/@]{1,64})@(?P<attempt>[0-9]{1,9})(?:-(?P<number>[0-9]{10}))?"
)


def job_of(path: str) -> str:
    """Whose node it is; empty: none of ours."""
    match = _NAME.fullmatch(path)
    return match["job"] if match else ""


def am_attempt_of(path: str) -> int:
    """Of the AM that made the node; 0: none of ours."""
    match = _NAME.fullmatch(path)
    return int(match["attempt"]) if match else 0


def number_of(path: str) -> int:
    """The number of a ticket's node: 1 for ZooKeeper's 0, since 0 means none."""
    match = _NAME.fullmatch(path)
    return int(match["number"]) + 1 if match and match["number"] else 0


class TicketCache:
    """A copy of the queue's nodes that follows changes (kazoo's TreeCache)."""

    def __init__(self, zookeeper: ZooKeeper, job: str, changed: Callable[[], None]) -> None:
        self._zk = zookeeper
        self._job = job
        self._changed = changed
        self._cache: TreeCache | None = None
        self._is_ready = False
        self._last: dict[str, bytes] = {}

    def start(self) -> None:
        """Begin to follow; returns at once. Again: nothing."""
        if self._cache is None:
            self._cache = TreeCache(self._zk.kazoo, self._zk.path(QUEUE))
            self._cache.listen(self._on_event)
            self._cache.listen_fault(lambda error: log.debug("following the tickets: %r", error))
            # It makes sure of its root before it begins, for as long as that takes.
            self._zk.spawn(self._cache.start)

    def nodes(self) -> tuple[dict[str, Entry], dict[str, Entry]] | None:
        """Tickets and running gangs by path; None: the copy is not complete."""
        if self._cache is None or not self._is_ready:
            return None
        return self._below(TICKETS), self._below(RUNNING)

    def close(self) -> None:
        if self._cache is not None:
            self._cache.close()

    def _below(self, name: str) -> dict[str, Entry]:
        assert self._cache is not None
        parent = self._zk.path(QUEUE, name)
        found = {}
        for child in filter(job_of, self._cache.get_children(parent, ())):
            node = self._cache.get_data(f"{parent}/{child}")
            if node is not None:
                found[f"{parent}/{child}"] = entry_of(node.data, node.stat)
        return found

    def _on_event(self, event: TreeEvent) -> None:
        """In the cache's own thread. Signs of life change nothing, nor do our own nodes."""
        if event.event_type == TreeEvent.INITIALIZED:
            self._is_ready = True
            self._changed()
        elif event.event_type == TreeEvent.CONNECTION_LOST:
            self._is_ready = False
        elif event.event_data is not None:
            path, data = event.event_data.path, event.event_data.data
            is_same = event.event_type == TreeEvent.NODE_UPDATED and self._last.get(path) == data
            if event.event_type == TreeEvent.NODE_REMOVED:
                self._last.pop(path, None)
            else:
                self._last[path] = data
            if not is_same and not self._is_own(path):
                self._changed()

    def _is_own(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        return name == CLAIM or job_of(name) == self._job
