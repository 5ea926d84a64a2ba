"""The model cluster's nodes: what is used on each, and snapshots of it, made anew only where
something has changed."""

from __future__ import annotations

from collections.abc import Sequence

from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Node, NodeState
from yarnam.sim.sim_settings import RmSettings


class SimNodes:
    """All nodes, by index. ``version`` grows with every change of what is used."""

    __slots__ = (
        "_taken",
        "_view",
        "by_free_gpus",
        "free",
        "names",
        "racks",
        "total",
        "version",
        "views",
    )

    def __init__(self, settings: RmSettings) -> None:
        gpus = settings.gpus_per_node
        self.total = Resources(
            settings.memory_mib_per_gpu * gpus, settings.vcores_per_gpu * gpus, gpus
        )
        width = len(str(settings.nodes - 1))
        self.names = [NodeId(f"n{i:0{width}d}") for i in range(settings.nodes)]
        self.racks = [RackId(f"/r{i // settings.nodes_per_rack}") for i in range(settings.nodes)]
        self.free = [self.total] * settings.nodes
        self.by_free_gpus = [0] * gpus + [settings.nodes]
        """How many nodes have 0, 1, 2, ... free GPUs."""
        self.views = [
            Node(name, rack, NodeState.RUNNING, self.total, Resources(), f"{name}:8042")
            for name, rack in zip(self.names, self.racks, strict=True)
        ]
        self.version = 0
        self._taken = -1
        self._view: tuple[Node, ...] = ()

    def take(self, index: int, amount: Resources) -> None:
        free = self.free[index]
        if not amount.fits_in(free):
            raise AssertionError(f"{self.names[index]} has {free}, not {amount}")
        self._set(index, free.minus(amount))

    def give(self, index: int, amount: Resources) -> None:
        free = self.free[index].plus(amount)
        if not free.fits_in(self.total):
            raise AssertionError(f"{self.names[index]} would have more free than it has: {free}")
        self._set(index, free)

    def view(self) -> tuple[Node, ...]:
        if self._taken != self.version:
            self._view = tuple(self.views)
            self._taken = self.version
        return self._view

    def could_hold(self, count: int, gpus: int) -> bool:
        """Whether so many containers of so many GPUs could fit, going by GPUs alone."""
        found = sum(nodes * (free // gpus) for free, nodes in enumerate(self.by_free_gpus) if nodes)
        return found >= count

    def _set(self, index: int, free: Resources) -> None:
        self.by_free_gpus[self.free[index].gpus] -= 1
        self.by_free_gpus[free.gpus] += 1
        self.free[index] = free
        old = self.views[index]
        self.views[index] = Node(
            old.node_id, old.rack, old.state, old.total, self.total.minus(free), old.http_address
        )
        self.version += 1


def fair_shares(
    total: float, wanting: Sequence[tuple[str, float, float | None]]
) -> dict[str, float]:
    """Weighted max-min shares of ``total``: (name, weight, maximum) of each queue that is active.
    What a maximum leaves unused goes to the others by weight (Fair Scheduler's ComputeFairShares,
    without minimum shares)."""
    shares: dict[str, float] = {}
    left, open_queues = total, list(wanting)
    while open_queues:
        weights = sum(weight for _, weight, _ in open_queues)
        capped = [
            (name, maximum)
            for name, weight, maximum in open_queues
            if maximum is not None and left * weight / weights >= maximum
        ]
        if not capped:
            shares.update((name, left * weight / weights) for name, weight, _ in open_queues)
            break
        for name, maximum in capped:
            shares[name] = maximum
            left -= maximum
        names = {name for name, _ in capped}
        open_queues = [queue for queue in open_queues if queue[0] not in names]
    return shares
