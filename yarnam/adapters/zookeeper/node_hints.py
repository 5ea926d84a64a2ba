"""What jobs tell one another about nodes, in ZooKeeper.

::

    <root>/hints/<node>@<job>    a strike of this job against this node; its content is the reason

The nodes outlive the job that made them and count for ``HINT_LIFE_S`` after they were last written;
whoever shares a strike clears away what is older. Best effort: nothing here raises.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.recipe.cache import TreeCache, TreeEvent

from yarnam.adapters.zookeeper.lazy_session import LazySession
from yarnam.adapters.zookeeper.session import Entry, ZooKeeper, entry_of
from yarnam.core.model.events import NodesSuspected
from yarnam.core.model.ids import NodeId
from yarnam.errors import YarnamError
from yarnam.ports import Inbox

log = logging.getLogger("yarnam.am")

HINTS = "hints"

HINT_LIFE_S = 1800.0
"""How long a strike is shared with other jobs. Half of what a job's own strike counts
(``BlacklistSpec.expiry_s``): it may be that job's own fault."""

GATHER_S = 0.5
"""Strikes that come together (a rack fails) are reported in one event."""


class ZooKeeperHints:
    """One job's side; ``job`` is its application."""

    def __init__(
        self, session: LazySession, job: str, *, now_s: Callable[[], float] = time.time
    ) -> None:
        self._session = session
        self._job = job
        self._now_s = now_s
        self._inbox: Inbox = lambda event: None
        self._lock = threading.Lock()
        self._news: set[NodeId] = set()
        self._timer: threading.Timer | None = None
        self._is_closed = False
        self._close_cache: Callable[[], None] = lambda: None

    def start(self, inbox: Inbox) -> None:
        self._inbox = inbox
        threading.Thread(target=self._follow, name="hints", daemon=True).start()

    def share(self, node: NodeId, reason: str) -> None:
        try:
            zookeeper = self._session.connected()
            self._write(zookeeper, zookeeper.path(HINTS, f"{node}@{self._job}"), reason)
            self._clear_old(zookeeper)
        except YarnamError as error:
            log.info("could not report the strike against %s to other jobs: %s", node, error)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._timer is not None:
                self._timer.cancel()
        self._close_cache()

    # ---- inside ------------------------------------------------------------------------------

    def _write(self, zookeeper: ZooKeeper, path: str, reason: str) -> None:
        try:
            zookeeper.create(path, reason.encode())
        except NodeExistsError:
            try:
                zookeeper.set(path, reason.encode())
            except NoNodeError:
                pass  # Cleared away as too old, in this very moment.

    def _clear_old(self, zookeeper: ZooKeeper) -> None:
        folder = zookeeper.path(HINTS)
        paths = [f"{folder}/{name}" for name in zookeeper.children(folder)]
        for path, entry in zip(paths, zookeeper.read(*paths), strict=True):
            if entry is not None and not self._counts(entry):
                try:
                    zookeeper.delete(path)
                except NoNodeError:
                    pass

    def _follow(self) -> None:
        """In a thread of its own: loads kazoo, waits for the connection."""
        try:
            zookeeper = self._session.connected()
        except YarnamError as error:
            log.info("other jobs' strikes are not known: %s", error)
            return

        def on_event(event: TreeEvent) -> None:
            if event.event_type in (TreeEvent.NODE_ADDED, TreeEvent.NODE_UPDATED):
                data = event.event_data
                self._notice(data.path, entry_of(data.data, data.stat))

        cache = TreeCache(zookeeper.kazoo, zookeeper.path(HINTS))
        cache.listen(on_event)
        cache.listen_fault(lambda error: log.debug("following the strikes: %r", error))
        with self._lock:
            if self._is_closed:
                return
            self._close_cache = cache.close
        cache.start()

    def _notice(self, path: str, entry: Entry) -> None:
        node, _, job = path.rpartition("/")[2].rpartition("@")
        if not node or job == self._job or not self._counts(entry):
            return
        with self._lock:
            self._news.add(NodeId(node))
            if self._timer is None and not self._is_closed:
                self._timer = threading.Timer(GATHER_S, self._report)
                self._timer.daemon = True
                self._timer.start()

    def _report(self) -> None:
        with self._lock:
            self._timer = None
            nodes, self._news = tuple(sorted(self._news)), set()
            if self._is_closed:
                return
        self._inbox(NodesSuspected(self._now_s(), nodes))

    def _counts(self, entry: Entry) -> bool:
        return self._now_s() - entry.written_at_s < HINT_LIFE_S
