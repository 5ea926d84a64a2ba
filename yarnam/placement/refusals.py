"""Why there is no plan: never, or not now; what is missing, and the smallest change that helps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from yarnam.model.ids import NodeId
from yarnam.model.job import JobSpec, PackOrSpread, TopologyWish
from yarnam.model.placement import NoFit, Reason
from yarnam.model.resources import Resources
from yarnam.model.snapshot import ClusterSnapshot, QueueView
from yarnam.placement.judging import Judged
from yarnam.placement.ladder import is_able
from yarnam.placement.packing import pack
from yarnam.placement.rooms import (
    Room,
    by_rack,
    count_in,
    sum_of,
    total_rooms,
    with_am_placed,
)
from yarnam.placement.search import PackRules
from yarnam.placement.shapes import Group, Shape, biggest, tasks_of, total_of

REQUIRED = TopologyWish.REQUIRED


@dataclass(frozen=True, slots=True)
class Shortage:
    """What a refusal is made from."""

    snapshot: ClusterSnapshot
    job: JobSpec
    total: Sequence[Room]
    free: Sequence[Room]
    judged: tuple[Judged, ...]


def never(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    barred: Collection[NodeId],
    shapes: Sequence[Shape],
) -> NoFit | None:
    """Why no state of this cluster, as it is configured and with the nodes it has, could hold the
    gang; None if one could."""
    smallest = shapes[-1]
    rooms = total_rooms(snapshot.nodes, barred)
    return (
        _no_nodes(snapshot, barred, rooms)
        or exceeds_container(snapshot, smallest)
        or _exceeds_node(snapshot, smallest, rooms)
        or _exceeds_queue(snapshot.queue, smallest, job.am.resources)
        or _exceeds_cluster(job, shapes, rooms)
    )


def exceeds_container(snapshot: ClusterSnapshot, shape: Shape) -> NoFit | None:
    """A container larger than YARN grants kills the whole application (skein-on-yarn.md, 1)."""
    limits = (
        ("this cluster", snapshot.max_container),
        (f"queue {snapshot.queue.name}", snapshot.queue.max_container),
    )
    for owner, limit in limits:
        for group in shape:
            if limit is not None and not group.resources.fits_in(limit):
                return NoFit(
                    Reason.TASK_EXCEEDS_MAX_CONTAINER,
                    is_never=True,
                    message=f"a {group.role} task needs {group.resources}; the largest container "
                    f"that {owner} grants has {limit}",
                    hint=f"Ask for at most that per {group.role} task.",
                )
    return None


def queue_full(queue: QueueView, shape: Shape, am: Resources) -> NoFit | None:
    """The queue's maximum leaves no room now."""
    if queue.maximum is None:
        return None
    left = queue.maximum.minus(queue.used)
    need = total_of(shape).plus(am)
    if need.fits_in(left):
        return None
    return NoFit(
        Reason.QUEUE_FULL,
        is_never=False,
        message=f"queue {queue.name} has {left} left of its maximum of {queue.maximum}; "
        f"the gang needs {need}",
        hint="It fits when other jobs of the queue end.",
    )


def not_now(shortage: Shortage) -> NoFit:
    """Waiting can help: the blocking resource, and the smallest change that would make it fit."""
    job = shortage.job
    if not shortage.judged:
        return NoFit(
            Reason.NO_NODES,
            is_never=False,
            message="none of the places declared at submit can be used by this job",
            hint="Submit the job again.",
        )
    shape = shortage.judged[-1].candidate.shape
    free, need = sum_of(shortage.free), total_of(shape)
    hint = _hint(shortage, shape)
    away = _away(shortage.snapshot)
    if free.gpus < need.gpus:
        text = f"{free.gpus} GPUs are free on usable nodes, the gang needs {need.gpus}{away}"
        return NoFit(Reason.TOO_FEW_FREE_GPUS, is_never=False, message=text, hint=hint)
    if not need.fits_in(free):
        text = f"free on usable nodes: {free}; the gang needs {need}{away}"
        return NoFit(Reason.TOO_FEW_FREE_RESOURCES, is_never=False, message=text, hint=hint)
    fits_anywhere = _pack_anywhere(job, shortage.free, shape, limit=None)
    if fits_anywhere and job.placement.rack is REQUIRED:
        text = f"no rack has room for all {tasks_of(shape)} tasks now, the cluster as a whole has"
        return NoFit(Reason.NO_RACK_HAS_ROOM, is_never=False, message=text + away, hint=hint)
    group = biggest(shape)
    found = sum(min(group.count, count_in(room, group.resources)) for room in shortage.free)
    text = (
        f"{free.gpus} GPUs are free but scattered: there is room for "
        f"{min(found, group.count)} of {group.count} {group.role} tasks of {group.resources}"
    )
    if fits_anywhere:
        text = f"the free room for {tasks_of(shape)} tasks is spread over too many nodes"
    return NoFit(Reason.FRAGMENTED, is_never=False, message=text + away, hint=hint)


def _no_nodes(
    snapshot: ClusterSnapshot, barred: Collection[NodeId], rooms: Sequence[Room]
) -> NoFit | None:
    if rooms:
        return None
    usable = [node for node in snapshot.nodes if node.is_usable]
    if usable:
        return NoFit(
            Reason.EVERY_NODE_EXCLUDED,
            is_never=True,
            message=f"all {len(usable)} usable nodes are excluded",
            hint="Exclude fewer nodes (placement.exclude_nodes).",
        )
    return NoFit(
        Reason.NO_NODES,
        is_never=True,
        message=f"none of the cluster's {len(snapshot.nodes)} nodes is running",
        hint="Ask the administrators, or see the ResourceManager's page of nodes.",
    )


def _exceeds_node(snapshot: ClusterSnapshot, shape: Shape, rooms: Sequence[Room]) -> NoFit | None:
    for group in shape:
        if any(count_in(room, group.resources) for room in rooms):
            continue
        best = max(rooms, key=lambda room: (room.gpus, room.memory_mib, room.vcores, room.node))
        largest = Resources(best.memory_mib, best.vcores, best.gpus)
        return NoFit(
            Reason.TASK_EXCEEDS_LARGEST_NODE,
            is_never=True,
            message=f"a {group.role} task needs {group.resources}; the largest node, {best.node}, "
            f"has {largest}{_away(snapshot)}",
            hint=f"Ask for at most that per {group.role} task, in more tasks.",
        )
    return None


def _exceeds_queue(queue: QueueView, shape: Shape, am: Resources) -> NoFit | None:
    need = total_of(shape).plus(am)
    if queue.maximum is None or need.fits_in(queue.maximum):
        return None
    return NoFit(
        Reason.GANG_EXCEEDS_QUEUE,
        is_never=True,
        message=f"the gang and its ApplicationMaster need {need}; queue {queue.name} may use at "
        f"most {queue.maximum}",
        hint="Ask for less, or use another queue.",
    )


def _exceeds_cluster(job: JobSpec, shapes: Sequence[Shape], rooms: Sequence[Room]) -> NoFit | None:
    task = biggest(shapes[-1]).resources
    beside_am = with_am_placed(rooms, job.am.resources, task)
    if beside_am is not None and any(is_able(job, shape, beside_am) for shape in shapes):
        return None
    shape = shapes[-1]
    need, have = total_of(shape).plus(job.am.resources), sum_of(rooms)
    what = f"{tasks_of(shape)} tasks ({need} with the ApplicationMaster)"
    wish = job.placement
    free_of_racks = replace(job, placement=replace(wish, rack=TopologyWish.PREFERRED))
    if beside_am is not None and any(is_able(free_of_racks, s, beside_am) for s in shapes):
        return NoFit(
            Reason.GANG_EXCEEDS_RACK,
            is_never=True,
            message=f"no single rack can hold the gang: {what}",
            hint="Relax placement.locality.rack to preferred: the cluster as a whole can.",
        )
    free_of_nodes = replace(
        job, placement=replace(wish, max_nodes=None, strategy=PackOrSpread.PACK)
    )
    if beside_am is not None and any(is_able(free_of_nodes, s, beside_am) for s in shapes):
        limit = f"at most {wish.max_nodes} nodes" if wish.max_nodes else "a node for every task"
        return NoFit(
            Reason.GANG_EXCEEDS_NODE_LIMIT,
            is_never=True,
            message=f"the gang does not fit with {limit}: {what}",
            hint="Allow more placement.max_nodes, or pack instead of spread.",
        )
    return NoFit(
        Reason.GANG_EXCEEDS_CLUSTER,
        is_never=True,
        message=f"{len(rooms)} usable nodes with {have} cannot hold {what}, even if nothing else "
        "ran",
        hint="Ask for fewer GPUs, or for less memory and fewer vcores per GPU.",
    )


def _hint(shortage: Shortage, shape: Shape) -> str:
    """The smallest change that would make it fit."""
    wish = shortage.job.placement
    parts: list[str] = []
    group = biggest(shape)
    in_rack = wish.rack is REQUIRED
    pools = list(by_rack(shortage.free).values()) if in_rack else [list(shortage.free)]
    capacity = max((count_in(room, group.resources) for room in shortage.total), default=0)
    found = max((_room_for(pool, group) for pool in pools), default=0)
    missing = group.count - found
    if wish.strategy is PackOrSpread.SPREAD:
        capacity = min(capacity, 1)
    if missing > 0 and capacity > 0:
        nodes = -(-missing // capacity)
        each = group.resources.times(min(missing, capacity))
        amount = f"{each.gpus} free GPUs" if each.gpus else f"{each} free"
        plural = "s" if nodes != 1 else ""
        where = " in one rack" if in_rack else ""
        parts.append(f"needs {nodes} more node{plural} with {amount}{where}")
    if in_rack and _pack_anywhere(shortage.job, shortage.free, shape, limit=wish.max_nodes):
        parts.append("or relax placement.locality.rack: fits now")
    elif wish.node is REQUIRED and _pack_anywhere(
        shortage.job, shortage.free, shape, limit=wish.max_nodes
    ):
        parts.append("or relax placement.locality.node: fits now")
    return "; ".join(parts)


def _room_for(rooms: Sequence[Room], group: Group) -> int:
    return sum(min(group.count, count_in(room, group.resources)) for room in rooms)


def _pack_anywhere(job: JobSpec, rooms: Sequence[Room], shape: Shape, *, limit: int | None) -> bool:
    is_spread = job.placement.strategy is PackOrSpread.SPREAD
    return pack(rooms, shape, PackRules(limit, is_spread)) is not None


def _away(snapshot: ClusterSnapshot) -> str:
    """Nodes that are not running are worth a word: they may be what is missing."""
    away = [node for node in snapshot.nodes if not node.is_usable]
    if not away:
        return ""
    names = ", ".join(f"{node.node_id} {node.state.value}" for node in away[:3])
    more = f" and {len(away) - 3} more" if len(away) > 3 else ""
    return f" (not counted: {names}{more})"
