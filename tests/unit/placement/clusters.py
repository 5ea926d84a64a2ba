"""Small clusters and jobs in a few words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.job_spec import AmSpec, JobSpec, PlacementSpec, RoleSpec
from yarnam.core.model.plans import PlacementPlan, Rung
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, Node, NodeState, QueueView

NO_AM = AmSpec(resources=Resources())


def node(name: str, rack: str, total: int, free: int | None = None, **changes: object) -> Node:
    """``total`` and ``free`` GPUs; a GiB and a vcore go with each, twice over."""
    used = 0 if free is None else total - free
    made = Node(
        node_id=NodeId(name),
        rack=RackId(rack),
        state=NodeState.RUNNING,
        total=Resources(2048 * total, 2 * total, total),
        used=Resources(1024 * used, used, used),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def cluster(racks: dict[str, Iterable[int | tuple[int, int]]], **queue: object) -> ClusterSnapshot:
    """Racks of nodes by GPUs: 8 is an idle node of 8, (8, 3) one of 8 with 3 free. Nodes are named
    after their rack: a0, a1, b0…"""
    nodes: list[Node] = []
    for rack, sizes in racks.items():
        for number, size in enumerate(sizes):
            total, free = size if isinstance(size, tuple) else (size, size)
            nodes.append(node(f"{rack}{number}", f"/{rack}", total, free))
    view = QueueView("root.ml", **queue)  # type: ignore[arg-type]
    return ClusterSnapshot(1000.0, tuple(nodes), view)


def job(
    tasks: int,
    gpus: int,
    *,
    flexible: bool = False,
    ps: int = 0,
    am: bool = False,
    processes: int | None = None,
    **wish: object,
) -> JobSpec:
    """``tasks`` of ``gpus`` GPUs each, a GiB and a vcore for each GPU."""
    worker = RoleSpec(
        "worker",
        tasks,
        Resources(1024 * max(gpus, 1), max(gpus, 1), gpus),
        ("train",),
        max(gpus, 1) if processes is None else processes,
    )
    roles = (worker, RoleSpec("ps", ps, Resources(1024, 1, 0), ("serve",), 1)) if ps else (worker,)
    return JobSpec(
        name="j",
        queue="root.ml",
        user="u",
        framework="command",
        roles=roles,
        flexible_shape=flexible,
        placement=PlacementSpec(**wish),  # type: ignore[arg-type]
        am=AmSpec(Resources(1536, 1, 0)) if am else NO_AM,
    )


def where(rung: Rung, role: str = "worker") -> dict[str, int]:
    """How many tasks of the role the planner saw on each node."""
    found: dict[str, int] = {}
    for ask in rung.asks:
        if ask.target.role == role:
            for node_id in ask.expected_nodes:
                found[node_id] = found.get(node_id, 0) + 1
    return dict(sorted(found.items()))


def best(plan: object) -> Rung:
    assert isinstance(plan, PlacementPlan), plan
    return plan.rungs[0]
