"""The way to ZooKeeper for those who need it now and then: loaded and connected on first use.

Does not import kazoo itself, so that a job without ZooKeeper never loads it, and one with it loads
it beside the rest of its start.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from yarnam._light_imports import on_first_use
from yarnam.errors import Unavailable

if TYPE_CHECKING:
    from yarnam.adapters.zookeeper.session import ZooKeeper

with on_first_use():
    from yarnam.adapters.zookeeper import session


CONNECT_LIMIT_S = 2.0
"""For the first connection: a healthy ensemble takes some milliseconds."""


class LazySession:
    """One session, shared. Thread-safe."""

    def __init__(self, address: str, credentials: str = "") -> None:
        self._address = address
        self._credentials = credentials
        self._lock = threading.Lock()
        self._zookeeper: ZooKeeper | None = None
        self._connected = threading.Event()
        self._is_closed = False
        self._opened_at_s = 0.0

    def open(self) -> session.ZooKeeper:
        """Begin to connect, once; returns without waiting for it. Raises BadConfig, Unavailable."""
        with self._lock:
            if self._is_closed:
                raise Unavailable("the session with ZooKeeper has been closed")
            if self._zookeeper is None:
                self._zookeeper = session.ZooKeeper(self._address, self._credentials)
                self._opened_at_s = time.monotonic()
                self._zookeeper.start(lambda is_new: self._connected.set())
            return self._zookeeper

    def connected(self) -> ZooKeeper:
        """Connected, at most 2 s after the first try: nobody waits again for one that is away.
        Raises BadConfig, Unavailable."""
        zookeeper = self.open()
        patience_s = self._opened_at_s + CONNECT_LIMIT_S - time.monotonic()
        if not self._connected.wait(max(0.0, patience_s)):
            raise Unavailable(f"ZooKeeper at {zookeeper.hosts} does not answer")
        return zookeeper

    def close(self) -> None:
        """Idempotent, at most 2 s."""
        with self._lock:
            self._is_closed = True
            zookeeper, self._zookeeper = self._zookeeper, None
        if zookeeper is not None:
            zookeeper.close()
