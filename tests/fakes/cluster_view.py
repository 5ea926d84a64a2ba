"""A ResourceManager that shows what the test wants, or does not answer."""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, Node, NodeState, QueueView
from yarnam.errors import Unavailable


class FakeView:
    """``silent`` calls from now on go unanswered."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.shown = snapshot
        self.silent = 0
        self.calls = 0

    def snapshot(self, queue: str, *, max_age_s: float | None = None) -> ClusterSnapshot:
        self.calls += 1
        if self.silent > 0:
            self.silent -= 1
            raise Unavailable("the ResourceManager does not answer")
        view = replace(self.shown.queue, name=queue)
        return replace(self.shown, queue=view, queues=self.shown.queues or (view,))


def cluster(nodes: int = 4, gpus: int = 8, used: int = 0, racks: int = 2) -> ClusterSnapshot:
    """Equal nodes n1, n2, … on ``racks`` racks, each with ``used`` of its GPUs taken."""
    return ClusterSnapshot(
        taken_at_s=0.0,
        nodes=tuple(
            Node(
                node_id=NodeId(f"n{number + 1}"),
                rack=RackId(f"/rack{number * racks // nodes + 1}"),
                state=NodeState.RUNNING,
                total=Resources(65536, 64, gpus),
                used=Resources(0, 0, used),
                http_address=f"n{number + 1}:8042",
            )
            for number in range(nodes)
        ),
        queue=QueueView("root.dl"),
    )
