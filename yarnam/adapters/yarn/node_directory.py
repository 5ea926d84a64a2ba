"""Which node and rack a NodeManager's HTTP address belongs to: the join that Skein leaves to us."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection

from yarnam.core.model import gpu_names
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.snapshot import Closures, ClusterSnapshot, in_partitions, with_closures
from yarnam.errors import YarnamError
from yarnam.ports import ClusterView

REFRESH_S = 2.0
"""An address that is not known (a node that has just joined) asks the RM this often at most."""


class NodeDirectory:
    """A ``ports.ClusterView`` that remembers the nodes of the snapshots taken through it, adds the
    GPU models that administrators (``rules``) and agents (``learnt``) have reported, what
    administrators keep closed (``closures``), and shows the nodes of these partitions
    (``node_labels``; empty means without a label)."""

    def __init__(
        self,
        view: ClusterView,
        queue: str,
        *,
        rules: gpu_names.GpuModelRules = gpu_names.NO_RULES,
        learnt: Callable[[], gpu_names.Inventory] = lambda: gpu_names.NOTHING_LEARNT,
        refresh_s: float = REFRESH_S,
        node_labels: Collection[str] = ("",),
        closures: Callable[[], Closures | None] = Closures,
    ) -> None:
        self._view = view
        self._queue = queue
        self._rules = rules
        self._learnt = learnt
        self._node_labels = node_labels
        self._closures = closures
        self._lock = threading.Lock()
        self._nodes: dict[str, tuple[NodeId, RackId]] = {}
        self._refresh_s = refresh_s
        self._asked_at = -refresh_s

    def snapshot(self, queue: str, *, max_age_s: float | None = None) -> ClusterSnapshot:
        """Raises Unavailable, as the view behind it."""
        found = self._view.snapshot(queue, max_age_s=max_age_s)
        taken = gpu_names.with_gpu_models(found, self._rules, self._learnt())
        with self._lock:
            for node in taken.nodes:
                self._nodes[node.http_address] = (node.node_id, node.rack)
        closures = self._closures() or Closures()
        return in_partitions(with_closures(taken, closures), self._node_labels)

    def nodes(self) -> frozenset[NodeId]:
        """All that there have been so far."""
        with self._lock:
            return frozenset(node for node, _ in self._nodes.values())

    def find(self, http_address: str) -> tuple[NodeId, RackId] | None:
        """``None`` means not known now; worth asking again."""
        with self._lock:
            found = self._nodes.get(http_address)
            now = time.monotonic()
            if found is not None or now - self._asked_at < self._refresh_s:
                return found
            self._asked_at = now
        try:
            self.snapshot(self._queue)
        except YarnamError:
            return None
        with self._lock:
            return self._nodes.get(http_address)
