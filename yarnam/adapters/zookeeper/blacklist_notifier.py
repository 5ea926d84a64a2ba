"""The notifier in ZooKeeper: one node for each place of blacklist entries, made when it is rung.

::

    <root>/blacklist/<hash of the place>     its content is the place's path

The node is removed as soon as it has been made: who listens watches for that, and nothing stays of
places that nobody uses any more.

Anybody who may write to ZooKeeper may notify: the entries themselves are on HDFS, which knows who
may say what (docs/adr).
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from kazoo.exceptions import KazooException, NoAuthError, NodeExistsError, NoNodeError

from yarnam.adapters.zookeeper.session import ZooKeeper
from yarnam.errors import Unavailable
from yarnam.ports.input_blacklist import Subscription

log = logging.getLogger("yarnam.zookeeper")

BLACKLIST = "blacklist"

RING_TRIES = 10
"""Between finding the node and writing to it, another ringer may remove it. Its removal is heard as
well."""

CONNECT_LIMIT_S = 5.0
"""For the first connection of a notify: a healthy ensemble takes some milliseconds."""


class ZooKeeperBlacklistNotifier:
    """See :class:`yarnam.ports.input_blacklist.BlacklistNotifier`. ``zookeeper`` is this object's
    to close, unless others have it too (``is_shared``). Connects when it is first rung or listened
    to: most who look at the blacklist do neither."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        *,
        is_shared: bool = False,
        connect_limit_s: float = CONNECT_LIMIT_S,
    ) -> None:
        self._zookeeper = zookeeper
        self._is_shared = is_shared
        self._connect_limit_s = connect_limit_s
        self._connected = threading.Event()
        self._lock = threading.Lock()
        self._listeners: list[_Subscription] = []
        self._is_started = False

    def _start(self) -> None:
        with self._lock:
            if self._is_started:
                return
            self._is_started = True
        self._zookeeper.start(self._on_connection)
        if self._zookeeper.is_connected:  # before this object came to it
            self._connected.set()

    def notify(self, locations: Iterable[str]) -> None:
        self._start()
        if not self._connected.wait(self._connect_limit_s):
            raise Unavailable(f"ZooKeeper at {self._zookeeper.hosts} does not answer")
        for location in locations:
            node = self._node(location)
            try:
                self._write(node, location)
            except KazooException as error:
                raise Unavailable(f"ZooKeeper: ringing for {location}: {error!r}") from error

    def _write(self, node: str, location: str) -> None:
        """Raises KazooException. Others may ring for the same place at the same time."""
        for _ in range(RING_TRIES):
            try:
                self._zookeeper.create(node, location.encode())
                break
            except NodeExistsError:
                with suppress(NoNodeError):
                    self._zookeeper.set(node, location.encode())
                    break
        with suppress(NoNodeError, NoAuthError):
            self._zookeeper.delete(node)

    def subscribe(self, locations: Iterable[str], on_change: Callable[[], None]) -> Subscription:
        listener = _Subscription(self, [self._node(location) for location in locations], on_change)
        with self._lock:
            self._listeners.append(listener)
        self._start()
        if self._zookeeper.is_connected:
            self._zookeeper.spawn(listener.arm)
        return listener

    def close(self) -> None:
        with self._lock:
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.stop()
        if not self._is_shared:
            self._zookeeper.close()

    def forget(self, listener: _Subscription) -> None:
        """Called by a listener that has stopped."""
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    @property
    def zookeeper(self) -> ZooKeeper:
        """For listeners."""
        return self._zookeeper

    def _node(self, location: str) -> str:
        name = hashlib.sha256(location.encode()).hexdigest()[:32]
        return self._zookeeper.path(BLACKLIST, name)

    def _on_connection(self, _is_new: bool) -> None:
        """In kazoo's thread. Watches may be gone, and rings missed, whatever has happened."""
        if not self._zookeeper.is_connected:
            self._connected.clear()
            return
        self._connected.set()
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            self._zookeeper.spawn(listener.arm)


class _Subscription:
    """One watch for each node; ZooKeeper's watches fire once, so each is set again."""

    def __init__(
        self, notifier: ZooKeeperBlacklistNotifier, nodes: list[str], on_change: Callable[[], None]
    ) -> None:
        self._notifier = notifier
        self._nodes = nodes
        self._on_change = on_change
        self._is_stopped = False

    def arm(self) -> None:
        """Watch all nodes, then say that something may have been missed."""
        for node in self._nodes:
            self._watch(node)
        if not self._is_stopped:
            self._on_change()

    def _watch(self, node: str) -> None:
        # Not waited for: the watch stands, or the connection breaks and all is done again.
        self._notifier.zookeeper.kazoo.exists_async(node, watch=self._fired)

    def _fired(self, event: Any) -> None:
        """In kazoo's thread."""
        if self._is_stopped:
            return
        if event.path and event.type in ("CREATED", "CHANGED", "DELETED"):
            self._watch(event.path)
            self._on_change()

    def stop(self) -> None:
        self._is_stopped = True
        self._notifier.forget(self)
