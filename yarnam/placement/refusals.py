"""Why there is no plan: never, or not now; what is missing, and the smallest change that helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from yarnam.model.job import PackOrSpread, TopologyWish
from yarnam.model.placement import Change, ChangeKind, NoFit, Reason
from yarnam.model.resources import Resources
from yarnam.model.snapshot import ClusterSnapshot, QueueView
from yarnam.placement.changes import changes_for, in_one_sentence, in_words
from yarnam.placement.judging import Judged
from yarnam.placement.ladder import is_able
from yarnam.placement.models import Choice, gpus_by_model, models_in_words
from yarnam.placement.rooms import Room, may_stand, sum_of
from yarnam.placement.shapes import Shape, biggest, of_models, tasks_of, total_of
from yarnam.placement.view import View

REQUIRED = TopologyWish.REQUIRED


def never(view: View, cuts: Sequence[Shape], choices: Sequence[Choice]) -> NoFit | None:
    """Why no state of this cluster, as it is configured and with the nodes it has, could hold the
    gang; None if one could."""
    smallest = cuts[-1]
    return (
        _no_nodes(view)
        or exceeds_container(view.snapshot, smallest)
        or _exceeds_node(view, [of_models(smallest, choice) for choice in choices])
        or _exceeds_queue(view.snapshot.queue, smallest, view.am)
        or _exceeds_cluster(view, cuts, choices)
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
    """The maximum of the queue, or of one above it, leaves no room now."""
    left = queue.headroom
    if left is None:
        if queue.maximum is None:
            return None
        left = queue.maximum.minus(queue.used)
    need = total_of(shape).plus(am)
    if need.fits_in(left):
        return None
    missing = in_words(need.minus(left))
    text = f"needs {missing} more of what others of queue {queue.name} hold"
    scarce = partial(_only_scarce, need=need, left=left)
    limit = (
        f"its maximum of {scarce(queue.maximum)}"
        if queue.maximum
        else "the limits of the queues above"
    )
    return NoFit(
        Reason.QUEUE_FULL,
        is_never=False,
        message=f"queue {queue.name} has {scarce(left)} left of {limit}; "
        f"the gang needs {scarce(need)}",
        hint=f"{text}: it fits when other jobs of the queue end",
        changes=(Change(ChangeKind.QUEUE, text),),
    )


def _only_scarce(amount: Resources, *, need: Resources, left: Resources) -> str:
    """The amounts of what there is too little of; the others may be without limit."""
    parts = [
        (amount.gpus, "GPUs", need.gpus > left.gpus),
        (amount.memory_mib, "MiB", need.memory_mib > left.memory_mib),
        (amount.vcores, "vcores", need.vcores > left.vcores),
    ]
    return ", ".join(f"{count} {unit}" for count, unit, is_scarce in parts if is_scarce)


def no_room_for_am(view: View) -> NoFit | None:
    """Before submit: no node has room for the ApplicationMaster now."""
    if view.has_room_for_am:
        return None
    return NoFit(
        Reason.TOO_FEW_FREE_RESOURCES,
        is_never=False,
        message=f"no node has room for the ApplicationMaster ({view.am}) now",
        hint="It waits in the queue until one has; the gang is asked for afterwards.",
    )


def not_now(view: View, judged: Sequence[Judged], *, explain: bool = True) -> NoFit:
    """Waiting can help: the blocking resource, and the smallest change that would make it fit."""
    if not judged:
        return NoFit(
            Reason.NO_NODES,
            is_never=False,
            message="none of the places declared at submit can be used by this job",
            hint="Submit the job again.",
        )
    changes = changes_for(view, judged) if explain else ()
    reason, text = _blocking(view, _nearest(view, judged))
    return NoFit(
        reason,
        is_never=False,
        message=text + _away(view.snapshot),
        hint=in_one_sentence(changes),
        changes=changes,
    )


def _nearest(view: View, judged: Sequence[Judged]) -> Shape:
    """Of the last step's shapes, which differ in the models of their GPUs, the one that most of
    the tasks have room for. Names decide between equals, not the job's own order of places."""
    last = [one.candidate.shape for one in judged if one.number == judged[-1].number]

    def key(shape: Shape) -> tuple[int, int, list[str]]:
        placed = sum(min(group.count, sum(view.free.counts(group, group.count))) for group in shape)
        free = sum_of(_usable_by(shape, view.free.rooms))
        return placed, free.gpus, [group.model for group in shape]

    return max(dict.fromkeys(last), key=key)


def _blocking(view: View, shape: Shape) -> tuple[Reason, str]:
    """What is in the way, and how much of it there is."""
    rooms = _usable_by(shape, view.free.rooms)
    free, need = sum_of(rooms), total_of(shape)
    models = " and ".join(sorted({group.model for group in shape if group.model}))
    of_model = f" of {models}" if models else ""
    rules = replace(view.rules, node_limit=None)
    if models and view.free.pack(of_any_model(shape), rules) and not view.free.pack(shape, rules):
        text = f"no model of GPU has room for all {tasks_of(shape)} tasks now, together they have"
        return Reason.NO_GPU_MODEL_HAS_ROOM, text
    if free.gpus < need.gpus:
        text = f"{free.gpus} GPUs{of_model} are free on usable nodes, the gang needs {need.gpus}"
        return Reason.TOO_FEW_FREE_GPUS, text
    if not need.fits_in(free):
        text = f"free on usable nodes: {free}; the gang needs {need}"
        return Reason.TOO_FEW_FREE_RESOURCES, text
    fits_anywhere = view.free.pack(shape, rules) is not None
    if fits_anywhere and view.job.placement.rack is REQUIRED:
        text = f"no rack has room for all {tasks_of(shape)} tasks now, the cluster as a whole has"
        return Reason.NO_RACK_HAS_ROOM, text
    if fits_anywhere:
        text = f"the free room for {tasks_of(shape)} tasks is spread over too many nodes"
        return Reason.FRAGMENTED, text
    group = biggest(shape)
    most = 1 if view.rules.is_alone(group.role) else group.count
    found = sum(view.free.counts(group, most))
    text = (
        f"{free.gpus} GPUs{of_model} are free but scattered: there is room for "
        f"{min(found, group.count)} of {group.count} {group.role} tasks of {group.resources}"
    )
    return Reason.FRAGMENTED, text


def of_any_model(shape: Shape) -> Shape:
    return tuple(replace(group, model="") for group in shape)


def _usable_by(shape: Shape, rooms: Sequence[Room]) -> Sequence[Room]:
    if not any(group.is_choosy for group in shape):
        return rooms
    return [room for room in rooms if any(may_stand(group, room) for group in shape)]


def _no_nodes(view: View) -> NoFit | None:
    if view.bare.rooms:
        return None
    usable = [node for node in view.snapshot.nodes if node.is_usable]
    wish = view.job.placement
    if usable and wish.include_nodes:
        names = {node.node_id for node in view.snapshot.nodes}
        missing = [name for name in wish.include_nodes if name not in names]
        told = f" ({', '.join(missing[:3])}: no such node)" if missing else ""
        return NoFit(
            Reason.EVERY_NODE_EXCLUDED,
            is_never=True,
            message=f"none of the nodes in placement.include_nodes can be used{told}",
            hint="Name nodes as YARN does: `yarnam nodes` lists them.",
        )
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
        message=f"none of the cluster's {len(view.snapshot.nodes)} nodes is running",
        hint="Ask the administrators, or see the ResourceManager's page of nodes.",
    )


def _exceeds_node(view: View, shapes: Sequence[Shape]) -> NoFit | None:
    """Some task is larger than every node that it may use, whatever the choice of models."""
    for shape in shapes:
        if all(view.bare.counts(group, 1) for group in shape):
            return None
    group = next(group for group in shapes[0] if not view.bare.counts(group, 1))
    rooms = [room for room in view.bare.rooms if may_stand(group, room)] or view.bare.rooms
    of_model = f" with {group.model}" if group.model else ""
    best = max(rooms, key=lambda room: (room.gpus, room.memory_mib, room.vcores, room.node))
    largest = Resources(best.memory_mib, best.vcores, best.gpus)
    return NoFit(
        Reason.TASK_EXCEEDS_LARGEST_NODE,
        is_never=True,
        message=f"a {group.role} task needs {group.resources}; the largest node{of_model}, "
        f"{best.node}, has {largest}{_away(view.snapshot)}",
        hint=f"Ask for at most that per {group.role} task, in more tasks.",
    )


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


def _exceeds_cluster(view: View, cuts: Sequence[Shape], choices: Sequence[Choice]) -> NoFit | None:
    def can(changed: View, any_model: bool = False) -> bool:
        if not view.could_hold_am:
            return False
        some: Sequence[Choice] = [{}] if any_model else choices
        return any(is_able(changed, of_models(cut, choice)) for cut in cuts for choice in some)

    if can(view):
        return None
    shape = cuts[-1]
    need, have = total_of(shape).plus(view.am), sum_of(view.bare.rooms)
    what = f"{tasks_of(shape)} tasks ({need} with the ApplicationMaster)"
    if can(_wishing(view, rack=TopologyWish.PREFERRED)):
        return NoFit(
            Reason.GANG_EXCEEDS_RACK,
            is_never=True,
            message=f"no single rack can hold the gang: {what}",
            hint="Relax placement.locality.rack to preferred: the cluster as a whole can.",
        )
    if can(_wishing(view, max_nodes=None, strategy=PackOrSpread.PACK, anti_affinity=())):
        return _exceeds_node_limit(view, what)
    if can(view, any_model=True):
        known = models_in_words(gpus_by_model(view.snapshot.nodes))
        return NoFit(
            Reason.GANG_EXCEEDS_GPU_MODEL,
            is_never=True,
            message=f"no model of GPU can hold the gang: {what}; the cluster has {known}",
            hint="placement.gpu_model: any lets it stand on several models.",
        )
    return NoFit(
        Reason.GANG_EXCEEDS_CLUSTER,
        is_never=True,
        message=f"{len(view.bare.rooms)} usable nodes with {have} cannot hold {what}, even if "
        f"nothing else ran{_away(view.snapshot)}",
        hint="Ask for fewer GPUs, or for less memory and fewer vcores per GPU.",
    )


def _exceeds_node_limit(view: View, what: str) -> NoFit:
    wish = view.job.placement
    if wish.max_nodes:
        limit = f"at most {wish.max_nodes} nodes"
    elif wish.strategy is PackOrSpread.SPREAD:
        limit = "a node for every task"
    else:
        limit = "its roles apart (placement.anti_affinity)"
    return NoFit(
        Reason.GANG_EXCEEDS_NODE_LIMIT,
        is_never=True,
        message=f"the gang does not fit with {limit}: {what}",
        hint="Allow more placement.max_nodes, pack instead of spread, or keep fewer roles apart.",
    )


def _wishing(view: View, **changes: object) -> View:
    wish = replace(view.job.placement, **changes)  # type: ignore[arg-type]
    return replace(view, job=replace(view.job, placement=wish))


def _away(snapshot: ClusterSnapshot) -> str:
    """Nodes that are not running are worth a word: they may be what is missing."""
    away = [node for node in snapshot.nodes if not node.is_usable]
    if not away:
        return ""
    names = ", ".join(f"{node.node_id} {node.state.value}" for node in away[:3])
    more = f" and {len(away) - 3} more" if len(away) > 3 else ""
    return f" (not counted: {names}{more})"
