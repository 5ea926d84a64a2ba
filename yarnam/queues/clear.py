"""Which rungs of a plan keep clear of nodes that are kept for others, however YARN places them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from yarnam.model.ids import NodeId
from yarnam.model.placement import LocalityLevel, PlacementPlan, Rung, Target
from yarnam.model.snapshot import ClusterSnapshot


def clear_of(
    plan: PlacementPlan, avoid: Collection[NodeId], snapshot: ClusterSnapshot
) -> PlacementPlan | None:
    """The plan with only those rungs whose targets cannot land on any of these nodes; None when
    there is no such rung. A rack is named to YARN as a whole, so a rack with one of them is out."""
    if not avoid:
        return plan
    racks = {str(node.rack) for node in snapshot.nodes if node.node_id in avoid}

    def is_clear(target: Target) -> bool:
        if target.level is LocalityLevel.NODE:
            return not any(node in avoid for node in target.nodes)
        if target.level is LocalityLevel.RACK:
            return not any(str(rack) in racks for rack in target.racks)
        return False

    def keeps_clear(rung: Rung) -> bool:
        return all(is_clear(ask.target) for ask in rung.asks)

    rungs = tuple(rung for rung in plan.rungs if keeps_clear(rung))
    return replace(plan, rungs=rungs) if rungs else None
