"""Rungs that cannot land on kept nodes."""

from __future__ import annotations

from yarnam.core.admission.decision import clear_rungs
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.plans import LocalityLevel, PlacementPlan, Rung, Target, TargetAsk
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, Node, NodeState, QueueView

SNAPSHOT = ClusterSnapshot(
    0.0,
    tuple(
        Node(NodeId(f"n{i}"), RackId(f"/r{i // 2}"), NodeState.RUNNING, Resources(), Resources())
        for i in range(4)
    ),
    QueueView("q"),
)


def rung(number: int, level: LocalityLevel, nodes: str = "", racks: str = "") -> Rung:
    target = Target(
        f"s{number}", "worker", level, Resources(gpus=1),
        nodes=tuple(NodeId(n) for n in nodes.split()),
        racks=tuple(RackId(r) for r in racks.split()),
    )  # fmt: skip
    return Rung(number, level, (TargetAsk(target, 1),), 1.0, "")


PLAN = PlacementPlan(
    (
        rung(0, LocalityLevel.NODE, nodes="n0 n2"),
        rung(1, LocalityLevel.RACK, racks="/r0"),
        rung(2, LocalityLevel.RACK, racks="/r1"),
        rung(3, LocalityLevel.ANY),
    )
)


def kept(avoid: str) -> list[int] | None:
    left = clear_rungs(PLAN, tuple(NodeId(n) for n in avoid.split()), SNAPSHOT)
    return left and [one.number for one in left.rungs]


def test_without_kept_nodes_every_rung_will_do() -> None:
    assert kept("") == [0, 1, 2, 3]


def test_a_rack_with_a_kept_node_is_out_and_so_is_anywhere() -> None:
    assert kept("n1") == [0, 2]
    assert kept("n2") == [1]


def test_nothing_may_be_left() -> None:
    assert kept("n0 n3") is None
