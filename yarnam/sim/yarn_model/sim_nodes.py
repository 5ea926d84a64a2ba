"""The model cluster's nodes: their used resources, and snapshots, built again only after a
change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Node


class SimNodes:
    """All nodes, by index. ``version`` grows with every change of what is used, ``freed`` when
    something comes free."""

    __slots__ = (
        "_fitting",
        "_fitting_at",
        "_taken",
        "_view",
        "by_free_gpus",
        "free",
        "freed",
        "names",
        "racks",
        "totals",
        "version",
        "views",
    )

    def __init__(self, nodes: Sequence[Node]) -> None:
        """``nodes`` are those of the cluster; their present use does not count."""
        self.names = [node.node_id for node in nodes]
        self.racks = [node.rack for node in nodes]
        self.totals = [node.total for node in nodes]
        self.free = list(self.totals)
        most = max((total.gpus for total in self.totals), default=0)
        self.by_free_gpus = [0] * (most + 1)
        """How many nodes have 0, 1, 2, ... free GPUs."""
        for total in self.totals:
            self.by_free_gpus[total.gpus] += 1
        self.views = [replace(node, used=Resources()) for node in nodes]
        self.version = self.freed = 0
        self._taken = self._fitting_at = -1
        self._fitting: dict[int, int] = {}
        """The number of containers of this many GPUs that fit."""
        self._view: tuple[Node, ...] = ()

    @property
    def size(self) -> Resources:
        """All nodes together."""
        whole = Resources()
        for total in self.totals:
            whole = whole.plus(total)
        return whole

    def take(self, index: int, amount: Resources) -> None:
        free = self.free[index]
        if not amount.fits_in(free):
            raise AssertionError(f"{self.names[index]} has {free}, not {amount}")
        self._set(index, free.minus(amount))

    def give(self, index: int, amount: Resources) -> None:
        free = self.free[index].plus(amount)
        if not free.fits_in(self.totals[index]):
            raise AssertionError(f"{self.names[index]} would have more free than it has: {free}")
        self._set(index, free)
        self.freed += 1

    def view(self) -> tuple[Node, ...]:
        if self._taken != self.version:
            self._view = tuple(self.views)
            self._taken = self.version
        return self._view

    def could_hold(self, count: int, gpus: int) -> bool:
        """Whether this many containers of this many GPUs could fit, going by GPUs alone."""
        if self._fitting_at != self.version:
            self._fitting_at = self.version
            self._fitting.clear()
        room = self._fitting.get(gpus)
        if room is None:
            nodes = enumerate(self.by_free_gpus)
            room = self._fitting[gpus] = sum(many * (free // gpus) for free, many in nodes)
        return room >= count

    def _set(self, index: int, free: Resources) -> None:
        self.by_free_gpus[self.free[index].gpus] -= 1
        self.by_free_gpus[free.gpus] += 1
        self.free[index] = free
        old = self.views[index]
        self.views[index] = Node(
            old.node_id,
            old.rack,
            old.state,
            old.total,
            old.total.minus(free),
            old.http_address,
            old.gpu_model,
        )
        self.version += 1
