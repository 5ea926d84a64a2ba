"""The cluster as it would be without this job's own early containers.

They may be granted before the AM's first look, and the planner must not take its own job's
containers for somebody else's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from yarnam.adapters.early_containers import Seat
from yarnam.model.placement import Target
from yarnam.model.resources import Resources
from yarnam.model.snapshot import ClusterSnapshot
from yarnam.ports import ClusterView


class WithoutEarly:
    """``ports.ClusterView``. ``seats`` tells what is ours and not yet taken over."""

    def __init__(
        self, view: ClusterView, targets: Iterable[Target], seats: Callable[[], Sequence[Seat]]
    ) -> None:
        self._view = view
        self._sizes = {target.service: target.resources for target in targets}
        self._seats = seats

    def snapshot(self, queue: str) -> ClusterSnapshot:
        snapshot = self._view.snapshot(queue)
        seats = self._seats()
        return given_back(snapshot, seats, self._sizes) if seats else snapshot


def given_back(
    snapshot: ClusterSnapshot, seats: Iterable[Seat], sizes: Mapping[str, Resources]
) -> ClusterSnapshot:
    """The snapshot with these containers' resources free. One that YARN has not granted yet counts
    as well: its room was free at submit and is asked for already. Never more than a node has."""
    mine = Counter((seat.node, sizes[seat.service]) for seat in seats)
    nodes, sum_back = [], Resources()
    for node in snapshot.nodes:
        used = node.used
        for (name, size), count in mine.items():
            if name == node.node_id:
                used = used.minus(size.times(count))
        back = node.used.minus(used)
        sum_back = sum_back.plus(back)
        nodes.append(node if used == node.used else replace(node, used=used))
    queue = replace(snapshot.queue, used=snapshot.queue.used.minus(sum_back))
    return replace(snapshot, nodes=tuple(nodes), queue=queue)
