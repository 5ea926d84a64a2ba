"""Where the GPU models that agents have seen are kept: in ZooKeeper for everybody, else in the
user's own directory on HDFS."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from hdfs_utils import FileSystem
from hdfs_utils.errors import HdfsError, NotFound
from yarnam.core.model.gpu_names import NOTHING_LEARNT, Inventory
from yarnam.core.model.ids import NodeId
from yarnam.errors import YarnamError
from yarnam.wire.inventory import decode_inventory, encode_inventory

log = logging.getLogger("yarnam.am")

FILE = "gpu-models"

FRESH_S = 60.0
"""How long what was read counts as fresh: models change when a machine is rebuilt."""


class InventoryStore(Protocol):
    """Keeps one record. Both calls may raise YarnamError, HdfsError."""

    def read(self) -> bytes:
        """Empty: there is none."""

    def write(self, change: Callable[[bytes], bytes]) -> None:
        """Replace it by what ``change`` makes of it."""


class GpuInventory:
    """What is known, and what is learnt. Raises nothing: a model that is not known is no error.
    Thread-safe; ``known`` asks the store at most once a minute."""

    def __init__(
        self, store: InventoryStore, *, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._now_s = now_s
        self._lock = threading.Lock()
        self._inventory = NOTHING_LEARNT
        self._read_at_s: float | None = None

    def known(self) -> Inventory:
        with self._lock:
            now_s = self._now_s()
            if self._read_at_s is None or now_s - self._read_at_s >= FRESH_S:
                self._read_at_s = now_s
                try:
                    data = self._store.read()
                    self._inventory = decode_inventory(data) if data else NOTHING_LEARNT
                except (YarnamError, HdfsError) as error:
                    log.info("the learnt GPU models are not known: %s", error)
            return self._inventory

    def learn(self, node: NodeId, model: str) -> None:
        """An agent on ``node`` has seen this model. Writes only what is new."""
        if not model or self.known().models.get(node) == model:
            return

        def change(data: bytes) -> bytes:
            return encode_inventory(decode_inventory(data).seen(node, model))

        try:
            self._store.write(change)
        except (YarnamError, HdfsError) as error:
            log.info("the GPU model of %s is not kept: %s", node, error)
            return
        with self._lock:
            self._inventory = self._inventory.seen(node, model)


class FileInventoryStore:
    """A file of the user's own. Of two jobs that write at once one may be lost, and is learnt
    again."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        self._files = files
        self._path = f"{directory.rstrip('/')}/{FILE}"

    def read(self) -> bytes:
        try:
            return self._files.read_bytes(self._path)
        except NotFound:
            return b""

    def write(self, change: Callable[[bytes], bytes]) -> None:
        self._files.write_bytes(self._path, change(self.read()), overwrite=True)
