"""The inventory of GPU models in ZooKeeper: one node for all users.

::

    <root>/gpu-models     nodes by model (``wire.shared.inventory``)
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from yarnam.adapters.zookeeper.lazy_session import LazySession

log = logging.getLogger("yarnam.am")

NODE = "gpu-models"

TRIES = 5
"""Attempts of a write that conflicts with others. A lost model is learnt again."""


class ZooKeeperInventoryStore:
    """A ``gpu_inventory.InventoryStore``. Raises Unavailable, BadConfig."""

    def __init__(self, session: LazySession) -> None:
        self._session = session

    @property
    def path(self) -> str:
        return f"ZooKeeper's {NODE}"

    def read(self) -> bytes:
        zookeeper = self._session.connected()
        [entry] = zookeeper.read(zookeeper.path(NODE))
        return entry.data if entry else b""

    def write(self, change: Callable[[bytes], bytes]) -> None:
        zookeeper = self._session.connected()
        path = zookeeper.path(NODE)
        for _ in range(TRIES):
            [entry] = zookeeper.read(path)
            try:
                if entry is None:
                    zookeeper.create(path, change(b""))
                else:
                    zookeeper.set(path, change(entry.data), entry.version)
            except (BadVersionError, NodeExistsError, NoNodeError):
                continue
            return
        log.info("%s is written by many at once: left to them", path)
