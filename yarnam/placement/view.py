"""A snapshot through the eyes of one job: the nodes it may use, with all and with free room."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from yarnam.model.ids import NodeId
from yarnam.model.job import JobSpec, PackOrSpread
from yarnam.model.locality import BytesByNode
from yarnam.model.resources import Resources
from yarnam.model.snapshot import ClusterSnapshot
from yarnam.placement.ground import Ground
from yarnam.placement.rooms import (
    Room,
    Taste,
    free_rooms,
    place_for_am,
    salt_of,
    total_rooms,
    without,
)
from yarnam.placement.search import PackRules
from yarnam.placement.shapes import biggest, shapes_of


@dataclass(frozen=True, slots=True)
class View:
    """``total`` and ``free`` are beside the ApplicationMaster where that has still to be placed."""

    snapshot: ClusterSnapshot
    job: JobSpec
    barred: frozenset[NodeId]
    """Nodes that the job must not use."""
    bare: Ground
    """All usable nodes as if nothing ran on them."""
    total: Ground
    free: Ground
    am: Resources
    """Still to be placed for the ApplicationMaster: nothing once it runs."""
    data: BytesByNode
    taste: Taste
    could_hold_am: bool = True
    """Whether some node could ever have room for it."""
    has_room_for_am: bool = True
    """Whether some node has room for it now."""
    am_node: NodeId | None = None
    """Where ``free`` has it."""

    @property
    def rules(self) -> PackRules:
        """What the job wants of every packing, but for the number of nodes."""
        wish = self.job.placement
        return PackRules(
            node_limit=wish.max_nodes,
            one_task_per_node=wish.strategy is PackOrSpread.SPREAD,
            apart=wish.anti_affinity,
        )


def barred_nodes(
    snapshot: ClusterSnapshot, job: JobSpec, excluded: Iterable[NodeId]
) -> frozenset[NodeId]:
    """Nodes that the job must not use: its own wishes and ``excluded``."""
    wish = job.placement
    barred = frozenset(excluded) | {NodeId(node) for node in wish.exclude_nodes}
    if wish.include_nodes:
        included = frozenset(wish.include_nodes)
        barred |= {n.node_id for n in snapshot.nodes if n.node_id not in included}
    return barred


def view_of(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    excluded: Iterable[NodeId],
    *,
    blind: bool,
    has_am: bool,
    data: BytesByNode,
    seed: str,
) -> View:
    """``has_am``: the job's ApplicationMaster runs already."""
    barred = barred_nodes(snapshot, job, excluded)
    taste = Taste(dict(data.nodes) if job.placement.near_data else {}, salt_of(seed))
    # By name, so that the order in which the nodes come decides nothing.
    nodes = sorted(snapshot.nodes, key=attrgetter("node_id"))
    bare = Ground(total_rooms(nodes, barred), taste)
    free = bare if blind else Ground(free_rooms(nodes, barred), taste)
    if has_am:
        return View(snapshot, job, barred, bare, bare, free, Resources(), data, taste)
    am = snapshot.steps.rounded(job.am.resources)
    task = biggest(shapes_of(job, snapshot.steps)[-1]).resources
    beside, _ = _beside_am(bare, am, task)
    free_beside, am_node = (beside, None) if blind else _beside_am(free, am, task)
    return View(
        snapshot,
        job,
        barred,
        bare,
        beside or bare,
        free_beside or free,
        am,
        data,
        taste,
        could_hold_am=beside is not None,
        has_room_for_am=blind or free_beside is not None,
        am_node=am_node,
    )


def _beside_am(
    ground: Ground, am: Resources, task: Resources
) -> tuple[Ground | None, NodeId | None]:
    """The ground beside an ApplicationMaster, and where that is; None: no node has room for it."""
    rooms = ground.rooms
    place = place_for_am(rooms, am, task)
    if place is None:
        return None, None
    room = rooms[place]
    left: list[Room] = [*rooms[:place], without(room, am), *rooms[place + 1 :]]
    return Ground(left, ground.taste), room.node
