"""A snapshot as one job sees it: the nodes it may use, with all and with free capacity."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import attrgetter

from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_spec import JobSpec, PackOrSpread
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import BytesByNode, ClusterSnapshot
from yarnam.core.placement.gang_shape import biggest, shapes_of
from yarnam.core.placement.packing.bin_packing import PackRules
from yarnam.core.placement.packing.capacity_index import CapacityIndex
from yarnam.core.placement.packing.index_memory import IndexMemory
from yarnam.core.placement.packing.node_capacity import (
    NO_TIE_BREAK,
    TieBreak,
    free_capacity,
    salt_of,
    total_capacity,
)


@dataclass(frozen=True, slots=True)
class JobView:
    """The cluster as this job sees it. ``total`` and ``free`` leave out the resources of the
    ApplicationMaster if it is still to be placed."""

    snapshot: ClusterSnapshot
    job: JobSpec
    excluded: frozenset[NodeId]
    """Nodes that the job must not use."""
    idle: CapacityIndex
    """All usable nodes as if nothing ran on them."""
    total: CapacityIndex
    """The same, beside the ApplicationMaster."""
    free: CapacityIndex
    """The resources that are free on them now, beside the ApplicationMaster."""
    am: Resources
    """The resources of the ApplicationMaster; nothing once it runs."""
    data: BytesByNode
    tie_break: TieBreak
    could_hold_am: bool = True
    """Whether some node could ever hold it."""
    has_capacity_for_am: bool = True
    """Whether some node can hold it now."""
    am_node: NodeId | None = None
    """The node on which ``free`` assumes the ApplicationMaster."""

    @property
    def rules(self) -> PackRules:
        """The rules that every packing of the job must keep."""
        return self.rules_within(self.job.placement.max_nodes)

    def rules_within(self, node_limit: int | None, *, is_loose: bool = False) -> PackRules:
        """The same with another limit of nodes."""
        placement = self.job.placement
        return PackRules(
            node_limit=node_limit,
            one_task_per_node=placement.strategy is PackOrSpread.SPREAD,
            is_loose=is_loose,
            anti_affinity=placement.anti_affinity,
        )

    def with_placement(self, **changes: object) -> JobView:
        """The view of the same job with other constraints, on the same nodes."""
        placement = replace(self.job.placement, **changes)  # type: ignore[arg-type]
        return replace(self, job=replace(self.job, placement=placement))


def excluded_nodes(
    snapshot: ClusterSnapshot, job: JobSpec, excluded: Iterable[NodeId]
) -> frozenset[NodeId]:
    """Nodes that the job must not use: by its own constraints, and ``excluded``."""
    placement = job.placement
    excluded = frozenset(excluded) | {NodeId(node) for node in placement.exclude_nodes}
    if placement.include_nodes:
        included = frozenset(placement.include_nodes)
        excluded |= {n.node_id for n in snapshot.nodes if n.node_id not in included}
    return excluded


def view_of(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    excluded: Iterable[NodeId],
    *,
    blind: bool,
    has_am: bool,
    data: BytesByNode,
    seed: str,
    memory: IndexMemory | None = None,
) -> JobView:
    """The view of ``job``. ``blind``: all usable capacity counts as free. ``has_am``: the job's
    ApplicationMaster runs already. ``data``, ``seed`` and ``memory`` as for ``plan``."""
    excluded = excluded_nodes(snapshot, job, excluded)
    tie_break = TieBreak(dict(data.nodes) if job.placement.near_data else {}, salt_of(seed))
    if memory is not None and tie_break == NO_TIE_BREAK:
        idle, now = memory.indexes(snapshot.nodes, excluded)
        free = idle if blind else now
    else:
        # Sort by name, so that the order of the snapshot decides nothing.
        nodes = sorted(snapshot.nodes, key=attrgetter("node_id"))
        idle = CapacityIndex(total_capacity(nodes, excluded), tie_break)
        free = idle if blind else CapacityIndex(free_capacity(nodes, excluded), tie_break)
    if has_am:
        return JobView(snapshot, job, excluded, idle, idle, free, Resources(), data, tie_break)
    am = snapshot.steps.rounded(job.am.resources)
    task = biggest(shapes_of(job, snapshot.steps)[-1]).resources
    total, _ = idle.after_am(am, task)
    free_now, am_node = (total, None) if blind else free.after_am(am, task)
    return JobView(
        snapshot,
        job,
        excluded,
        idle,
        total or idle,
        free_now or free,
        am,
        data,
        tie_break,
        could_hold_am=total is not None,
        has_capacity_for_am=blind or free_now is not None,
        am_node=am_node,
    )
