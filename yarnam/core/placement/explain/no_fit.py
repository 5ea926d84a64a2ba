"""Why there is no plan, never or not now: what is missing, and the smallest change that helps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from yarnam.core.model.job_spec import PackOrSpread, TopologyConstraint
from yarnam.core.model.plans import Change, ChangeKind, NoFit, Reason
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, QueueView
from yarnam.core.placement.candidates import RankedCandidate, can_hold
from yarnam.core.placement.explain.suggested_changes import (
    changes_for,
    describe_amount,
    describe_changes,
)
from yarnam.core.placement.gang_shape import (
    Shape,
    biggest,
    size_key,
    tasks_of,
    total_of,
    with_gpu_models,
)
from yarnam.core.placement.gpu_model_choice import (
    GpuModelChoice,
    describe_gpu_models,
    gpus_by_model,
)
from yarnam.core.placement.job_view import JobView
from yarnam.core.placement.packing.node_capacity import NodeCapacity, may_host, sum_of

REQUIRED = TopologyConstraint.REQUIRED


def never_fits(
    view: JobView, sizes: Sequence[Shape], choices: Sequence[GpuModelChoice]
) -> NoFit | None:
    """Why this cluster, as configured and with the nodes it has, could not even hold the gang if
    nothing else ran; None if it could. ``sizes`` are the shapes of the job, ``choices`` the GPU
    models that it may get."""
    smallest = sizes[-1]
    return (
        _no_nodes(view)
        or exceeds_container(view.snapshot, smallest)
        or _exceeds_node(view, [with_gpu_models(smallest, choice) for choice in choices])
        or next(
            filter(
                None,
                (_exceeds_queue(*one) for one in _by_partition(view.snapshot, smallest, view.am)),
            ),
            None,
        )
        or _exceeds_cluster(view, sizes, choices)
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
                return _never(
                    Reason.TASK_EXCEEDS_MAX_CONTAINER,
                    f"a {group.role} task needs {group.resources}; the largest container that "
                    f"{owner} grants has {limit}",
                    f"Ask for at most that per {group.role} task.",
                )
    return None


def exceeds_queue_headroom(
    snapshot: ClusterSnapshot, shape: Shape, am: Resources, user: str = ""
) -> NoFit | None:
    """The maximum of the queue, or of one above it, or what one user may have of it, does not leave
    enough for the gang now."""
    refusals = (
        _exceeds_headroom(queue, part, am_there, user)
        for queue, part, am_there in _by_partition(snapshot, shape, am)
    )
    return next(filter(None, refusals), None)


def _by_partition(
    snapshot: ClusterSnapshot, shape: Shape, am: Resources
) -> Iterable[tuple[QueueView, Shape, Resources]]:
    """The queue's part of each partition, with what the gang needs there. The ApplicationMaster,
    whose partition is the queue's own affair, counts in the first one."""
    for label in dict.fromkeys(group.label for group in shape):
        part = tuple(group for group in shape if group.label == label)
        yield snapshot.queue_in(label), part, am
        am = Resources()


def _exceeds_headroom(queue: QueueView, shape: Shape, am: Resources, user: str) -> NoFit | None:
    left = queue.headroom
    if left is None:
        if queue.maximum is None:
            return _user_limit_reached(queue, shape, am, user)
        left = queue.maximum.minus(queue.used)
    need = total_of(shape).plus(am)
    if need.fits_in(left):
        return _user_limit_reached(queue, shape, am, user)
    missing = describe_amount(need.minus(left))
    text = f"needs {missing} more, held by other jobs of queue {queue.name}"
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
        hint=f"{text}: fits when they end",
        changes=(Change(ChangeKind.QUEUE, text),),
    )


def _only_scarce(amount: Resources, *, need: Resources, left: Resources) -> str:
    """The amounts that are too small; the others may be unlimited."""
    parts = [
        (amount.gpus, "GPUs", need.gpus > left.gpus),
        (amount.memory_mib, "MiB", need.memory_mib > left.memory_mib),
        (amount.vcores, "vcores", need.vcores > left.vcores),
    ]
    return ", ".join(f"{count} {unit}" for count, unit, is_scarce in parts if is_scarce)


def no_capacity_for_am(view: JobView) -> NoFit | None:
    """Before submit: no node can hold the ApplicationMaster now."""
    if view.has_capacity_for_am:
        return None
    return NoFit(
        Reason.TOO_FEW_FREE_RESOURCES,
        is_never=False,
        message=f"no node can hold the ApplicationMaster ({view.am}) now",
        hint="It waits in the queue until one has; the gang is requested after it starts.",
    )


def no_fit_now(view: JobView, ranked: Sequence[RankedCandidate], *, explain: bool = True) -> NoFit:
    """Waiting can help: the resource that is short, and the smallest changes that would help."""
    if not ranked:
        return NoFit(
            Reason.NO_NODES,
            is_never=False,
            message="this job can use none of the targets that were declared at submit",
            hint="Submit the job again.",
        )
    changes = changes_for(view, ranked) if explain else ()
    reason, text = _blocking(view, _nearest(view, ranked))
    return NoFit(
        reason,
        is_never=False,
        message=text + _not_running_text(view.snapshot),
        hint=describe_changes(changes),
        changes=changes,
    )


def _nearest(view: JobView, ranked: Sequence[RankedCandidate]) -> Shape:
    """Choose the shape of which the most tasks fit among the last step's shapes, which differ in
    their GPU models. Between equals names decide, not the job's own order."""
    last = [item.candidate.shape for item in ranked if item.number == ranked[-1].number]

    def key(shape: Shape) -> tuple[int, int, list[str]]:
        placed = sum(min(group.count, sum(view.free.counts(group, group.count))) for group in shape)
        free = sum_of(_usable_by(shape, view.free.capacities))
        return placed, free.gpus, [group.model for group in shape]

    return max(dict.fromkeys(last), key=key)


def _blocking(view: JobView, shape: Shape) -> tuple[Reason, str]:
    """Name the resource that blocks the gang, and its amount."""
    capacities = _usable_by(shape, view.free.capacities)
    free, need = sum_of(capacities), total_of(shape)
    models = " and ".join(sorted({group.model for group in shape if group.model}))
    of_model = f" of {models}" if models else ""
    rules = view.rules_within(None)
    any_model = tuple(replace(group, model="") for group in shape)
    if models and view.free.pack(any_model, rules) and not view.free.pack(shape, rules):
        text = f"no single GPU model can hold all {tasks_of(shape)} tasks now; all together could"
        return Reason.NO_GPU_MODEL_FITS, text
    if free.gpus < need.gpus:
        text = f"{free.gpus} GPUs{of_model} are free on usable nodes; the gang needs {need.gpus}"
        return Reason.TOO_FEW_FREE_GPUS, text
    if not need.fits_in(free):
        text = f"free on usable nodes: {free}; the gang needs {need}"
        return Reason.TOO_FEW_FREE_RESOURCES, text
    fits_anywhere = view.free.pack(shape, rules) is not None
    if fits_anywhere and view.job.placement.rack is REQUIRED:
        text = f"no single rack can hold all {tasks_of(shape)} tasks now; the whole cluster could"
        return Reason.NO_RACK_FITS, text
    if fits_anywhere:
        text = f"{tasks_of(shape)} tasks would fit now, but only on more nodes than allowed"
        return Reason.FRAGMENTED, text
    group = biggest(shape)
    found = sum(view.free.counts(group, view.rules.most_per_node(group)))
    text = (
        f"{free.gpus} GPUs{of_model} are free, but fragmented: only "
        f"{min(found, group.count)} of {group.count} {group.role} tasks of {group.resources} fit"
    )
    return Reason.FRAGMENTED, text


def _usable_by(shape: Shape, capacities: Sequence[NodeCapacity]) -> Sequence[NodeCapacity]:
    if not any(group.is_choosy for group in shape):
        return capacities
    return [
        capacity for capacity in capacities if any(may_host(group, capacity) for group in shape)
    ]


def _no_nodes(view: JobView) -> NoFit | None:
    if view.idle.capacities:
        return None
    usable = [node for node in view.snapshot.nodes if node.is_usable]
    placement = view.job.placement
    if usable and placement.include_nodes:
        names = {node.node_id for node in view.snapshot.nodes}
        missing = [name for name in placement.include_nodes if name not in names]
        unknown = f" ({', '.join(missing[:3])}: no such node)" if missing else ""
        return _never(
            Reason.EVERY_NODE_EXCLUDED,
            f"none of the nodes in placement.include_nodes can be used{unknown}",
            "Use YARN's names of nodes: `yarnam nodes` lists them.",
        )
    if usable:
        return _never(
            Reason.EVERY_NODE_EXCLUDED,
            f"all {len(usable)} usable nodes are excluded",
            "Exclude fewer nodes (placement.exclude_nodes).",
        )
    return _never(
        Reason.NO_NODES,
        f"none of the cluster's {len(view.snapshot.nodes)} nodes is running",
        "Ask the administrators, or see the ResourceManager's page of nodes.",
    )


def _exceeds_node(view: JobView, shapes: Sequence[Shape]) -> NoFit | None:
    """Some task is larger than every node that it may use, whatever the choice of models."""
    for shape in shapes:
        if all(view.idle.counts(group, 1) for group in shape):
            return None
    group = next(group for group in shapes[0] if not view.idle.counts(group, 1))
    usable = _usable_by((group,), view.idle.capacities) or view.idle.capacities
    of_model = f" with {group.model}" if group.model else ""
    best = max(usable, key=lambda capacity: (size_key(capacity.resources), capacity.node))
    return _never(
        Reason.TASK_EXCEEDS_LARGEST_NODE,
        f"a {group.role} task needs {group.resources}; the largest node{of_model}, {best.node}, "
        f"has {best.resources}{_not_running_text(view.snapshot)}",
        f"Ask for at most that per {group.role} task, and for more tasks.",
    )


def _exceeds_queue(queue: QueueView, shape: Shape, am: Resources) -> NoFit | None:
    need = total_of(shape).plus(am)
    if queue.maximum is None or need.fits_in(queue.maximum):
        return _exceeds_user_limit(queue, shape, need)
    return _never(
        Reason.GANG_EXCEEDS_QUEUE,
        f"the gang and its ApplicationMaster need {need}; queue {queue.name} may use at most "
        f"{queue.maximum}",
        "Ask for less, or use another queue.",
    )


def _user_limit_reached(queue: QueueView, shape: Shape, am: Resources, user: str) -> NoFit | None:
    need = total_of(shape).plus(am)
    last = max((group.resources for group in shape), key=size_key, default=Resources())
    if not user or not queue.exceeds_user_limit(user, need, last):
        return None
    text = f"your other jobs of queue {queue.name} hold what one user may have of it"
    return NoFit(
        Reason.QUEUE_FULL,
        is_never=False,
        message=f"{user} uses {queue.used_by_user(user)} of queue {queue.name}, of which one user "
        f"may have {queue.user_limit}; the gang needs {need}",
        hint=f"{text}: fits when they end",
        changes=(Change(ChangeKind.QUEUE, text),),
    )


def _exceeds_user_limit(queue: QueueView, shape: Shape, need: Resources) -> NoFit | None:
    """Check the Capacity Scheduler's user limit. It grants while the user is not above the limit,
    so the last container may exceed it (``AbstractLeafQueue.canAssignToUser``)."""
    last = max((group.resources for group in shape), key=size_key, default=Resources())
    if queue.user_limit is None or need.minus(last).fits_in(queue.user_limit):
        return None
    return _never(
        Reason.GANG_EXCEEDS_QUEUE,
        f"the gang and its ApplicationMaster need {need}; one user may use at most "
        f"{queue.user_limit} of queue {queue.name} (user-limit-factor)",
        "Ask for less, use another queue, or ask the administrators for a larger "
        "user-limit-factor.",
    )


def _exceeds_cluster(
    view: JobView, sizes: Sequence[Shape], choices: Sequence[GpuModelChoice]
) -> NoFit | None:
    """Which constraint, if any, keeps the gang from fitting if nothing else ran."""

    def can(changed: JobView, any_model: bool = False) -> bool:
        if not view.could_hold_am:
            return False
        some: Sequence[GpuModelChoice] = [{}] if any_model else choices
        return any(can_hold(changed, with_gpu_models(s, c)) for s in sizes for c in some)

    if can(view):
        return None
    shape = sizes[-1]
    need, have = total_of(shape).plus(view.am), sum_of(view.idle.capacities)
    what = f"{tasks_of(shape)} tasks ({need} with the ApplicationMaster)"
    if can(view.with_placement(rack=TopologyConstraint.PREFERRED)):
        return _never(
            Reason.GANG_EXCEEDS_RACK,
            f"no single rack can hold the gang: {what}",
            "Relax placement.locality.rack to preferred: the whole cluster can hold it.",
        )
    if can(view.with_placement(max_nodes=None, strategy=PackOrSpread.PACK, anti_affinity=())):
        return _exceeds_node_limit(view, what)
    if can(view, any_model=True):
        known = describe_gpu_models(gpus_by_model(view.snapshot.nodes))
        return _never(
            Reason.GANG_EXCEEDS_GPU_MODEL,
            f"no single GPU model can hold the gang: {what}; the cluster has {known}",
            "placement.gpu_model: any lets it use several models.",
        )
    return _never(
        Reason.GANG_EXCEEDS_CLUSTER,
        f"{len(view.idle.capacities)} usable nodes with {have} cannot hold {what}, even if "
        f"nothing else ran{_not_running_text(view.snapshot)}",
        "Ask for fewer GPUs, or for less memory and fewer vcores per GPU.",
    )


def _exceeds_node_limit(view: JobView, what: str) -> NoFit:
    placement = view.job.placement
    if placement.max_nodes:
        limit = f"at most {placement.max_nodes} nodes"
    elif placement.strategy is PackOrSpread.SPREAD:
        limit = "a node for every task"
    else:
        limit = "its roles apart (placement.anti_affinity)"
    return _never(
        Reason.GANG_EXCEEDS_NODE_LIMIT,
        f"the gang does not fit with {limit}: {what}",
        "Raise placement.max_nodes, pack instead of spread, or keep fewer roles apart.",
    )


def _never(reason: Reason, message: str, hint: str) -> NoFit:
    return NoFit(reason, is_never=True, message=message, hint=hint)


def _not_running_text(snapshot: ClusterSnapshot) -> str:
    """The nodes that are not running: they may be what is missing."""
    missing = [node for node in snapshot.nodes if not node.is_usable]
    if not missing:
        return ""
    names = ", ".join(f"{node.node_id} {node.state.value}" for node in missing[:3])
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return f" (not counted: {names}{more})"
