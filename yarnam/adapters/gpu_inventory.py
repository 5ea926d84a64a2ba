"""Where the GPU models that agents have seen are kept: in ZooKeeper for everybody, else in the
user's own directory on HDFS."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from hdfs_utils import FileSystem
from hdfs_utils.errors import HdfsError, MalformedData, NotFound
from hdfs_utils.protocols.rejections import Rejections
from yarnam.core.model.gpu_names import NOTHING_LEARNT, Inventory
from yarnam.core.model.ids import NodeId
from yarnam.errors import WireMismatch, YarnamError
from yarnam.wire.shared.inventory import decode_inventory, encode_inventory

log = logging.getLogger("yarnam.am")

FILE = "gpu-models"

MAX_BYTES = 1 << 20
"""The limit of one node in ZooKeeper."""

FRESH_S = 60.0
"""How long what was read counts as fresh: models change when a machine is rebuilt."""


class InventoryStore(Protocol):
    """Keeps one record. Both calls may raise YarnamError, HdfsError.

    Attributes:
        path: where, to be shown.
    """

    @property
    def path(self) -> str: ...

    def read(self) -> bytes:
        """Empty means there is none."""

    def write(self, change: Callable[[bytes], bytes]) -> None:
        """Replace it by what ``change`` makes of it."""


class GpuInventory:
    """The GPU models of nodes, from a store to which jobs add what they see. Raises nothing: a
    model may be unknown. Thread-safe; ``known`` asks the store at most once a minute."""

    def __init__(
        self, store: InventoryStore, *, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._now_s = now_s
        self._lock = threading.Lock()
        self._inventory = NOTHING_LEARNT
        self._read_at_s: float | None = None
        self._rejections = Rejections(
            log,
            "is taken for empty and will be replaced",
            "If it comes again, find out who writes there: yarnam docs zookeeper.",
        )

    def known(self) -> Inventory:
        with self._lock:
            now_s = self._now_s()
            if self._read_at_s is None or now_s - self._read_at_s >= FRESH_S:
                self._read_at_s = now_s
                try:
                    self._inventory = self._decoded(self._store.read())
                except (YarnamError, HdfsError) as error:
                    log.info("the learnt GPU models are not known: %s", error)
            return self._inventory

    def learn(self, node: NodeId, model: str) -> None:
        """An agent on ``node`` has seen this model. Writes only what is new."""
        if not model or self.known().models.get(node) == model:
            return

        def change(data: bytes) -> bytes:
            return encode_inventory(self._decoded(data).seen(node, model))

        try:
            self._store.write(change)
        except (YarnamError, HdfsError) as error:
            log.info("the GPU model of %s is not kept: %s", node, error)
            return
        with self._lock:
            self._inventory = self._inventory.seen(node, model)

    def _decoded(self, data: bytes) -> Inventory:
        """Nothing learnt where it cannot be read: it is learnt again."""
        if not data:
            return NOTHING_LEARNT
        try:
            return decode_inventory(data)
        except WireMismatch as error:
            self._rejections.add(self._store.path, error)
            return NOTHING_LEARNT


class FileInventoryStore:
    """A file of the user. When two jobs write it simultaneously, one may lose its models and
    learns them again."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        self._files = files
        self._path = f"{directory.rstrip('/')}/{FILE}"

    @property
    def path(self) -> str:
        return self._path

    def read(self) -> bytes:
        try:
            return self._files.read_bytes(self._path, max_bytes=MAX_BYTES)
        except NotFound:
            return b""

    def write(self, change: Callable[[bytes], bytes]) -> None:
        try:
            data = self.read()
        except MalformedData:
            data = b""
        self._files.write_bytes(self._path, change(data), overwrite=True)
