"""The changes after which a gang that does not fit now would fit: each is tried before it is
suggested."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_spec import ANY_GPU_MODEL, PackOrSpread, TopologyConstraint
from yarnam.core.model.plans import Change, ChangeKind
from yarnam.core.model.resources import Resources
from yarnam.core.placement.candidates import RankedCandidate, can_hold, fewest_nodes
from yarnam.core.placement.explain.minimal_release import Release, minimal_release, release_order
from yarnam.core.placement.gang_shape import Shape, only_group, total_of
from yarnam.core.placement.job_view import JobView, view_of
from yarnam.core.placement.packing.capacity_index import CapacityIndex
from yarnam.core.placement.packing.node_capacity import NodeCapacity, reserve

REQUIRED, PREFERRED = TopologyConstraint.REQUIRED, TopologyConstraint.PREFERRED
MOST_DOMAINS = 12
"""Domains for which the smallest release is computed, the loosest first: they need the least."""
MOST_CLOSEST = 3
"""Nodes that a message names."""


def changes_for(view: JobView, ranked: Sequence[RankedCandidate]) -> tuple[Change, ...]:
    """Suggest resources for others to release, constraints to relax, and the largest gang that fits
    now."""
    shapes = list(dict.fromkeys(one.candidate.shape for one in ranked))
    found = [
        _release_change(view, ranked),
        *_relax_changes(view, shapes),
        _smaller_change(view, shapes),
    ]
    return tuple(change for change in found if change is not None)


def describe_changes(changes: Iterable[Change]) -> str:
    """Phrase the shortage as in ``needs 1 more node with 4 free GPUs (closest: n1 has 2); or ask
    for 2 tasks: …``."""
    return "; or ".join(change.text for change in changes)


def _release_change(view: JobView, ranked: Sequence[RankedCandidate]) -> Change | None:
    """The least that would have to become free in any of the domains."""
    idle = _idle_capacity(view)
    best: tuple[Release, Shape] | None = None
    kinds = ((one.candidate.shape, one.candidate.domain, one.rules) for one in reversed(ranked))
    for shape, domain, rules in list(dict.fromkeys(kinds))[:MOST_DOMAINS]:
        release = minimal_release(idle.within(domain), view.free.within(domain), shape, rules)
        if release and (best is None or release_order(release) < release_order(best[0])):
            best = release, shape
    if best is None:
        return None
    release, shape = best
    return Change(ChangeKind.FREE, _release_text(view, release, shape), tuple(release.items()))


def _idle_capacity(view: JobView) -> CapacityIndex:
    """The view as if nothing ran but the ApplicationMaster, on the node where ``view.free`` assumes
    it."""
    if view.am_node is None:
        return view.idle
    capacities = [
        reserve(capacity, view.am) if capacity.node == view.am_node else capacity
        for capacity in view.idle.capacities
    ]
    return CapacityIndex(capacities, view.tie_break)


def _release_text(view: JobView, release: Release, shape: Shape) -> str:
    capacities = view.free.by_node
    needs: dict[Resources, list[str]] = {}
    for node, more in release.items():
        need = capacities[node].resources.plus(more)
        needs.setdefault(_shown_need(need, more, shape), []).append(node)
    parts: list[str] = []
    for need, nodes in sorted(needs.items(), key=lambda item: -item[0].gpus):
        each = " each" if len(nodes) > 1 else ""
        more_nodes = f"{len(nodes)} more node{'s' if len(nodes) > 1 else ''}"
        parts.append(f"{more_nodes} with {_amount(need)}{each}")
    where = ""
    if view.job.placement.rack is REQUIRED and len(view.total.racks) > 1:
        racks = sorted({capacities[node].rack for node in release})
        where = f" in rack {racks[0]}" if len(racks) == 1 else ""
    closest = [f"{node} has {_have(capacities[node], more)}" for node, more in release.items()]
    shown = ", ".join(closest[:MOST_CLOSEST]) + (", …" if len(closest) > MOST_CLOSEST else "")
    return f"needs {' and '.join(parts)}{where} (closest: {shown})"


def _shown_need(need: Resources, more: Resources, shape: Shape) -> Resources:
    """Only the resources that are short; only GPUs where those are all that is short."""
    has_gpus = total_of(shape).gpus > 0
    if has_gpus and more.gpus and not more.memory_mib and not more.vcores:
        return Resources(0, 0, need.gpus)
    return Resources(
        need.memory_mib if more.memory_mib else 0,
        need.vcores if more.vcores else 0,
        need.gpus if more.gpus else 0,
    )


def describe_amount(amount: Resources) -> str:
    """The amounts that are not 0, as in ``2 GPUs, 512 MiB``."""
    parts = [f"{amount.gpus} GPU{'s' if amount.gpus != 1 else ''}"] if amount.gpus else []
    if amount.memory_mib:
        parts.append(f"{amount.memory_mib} MiB")
    if amount.vcores:
        parts.append(f"{amount.vcores} vcore{'s' if amount.vcores != 1 else ''}")
    return ", ".join(parts)


def _amount(need: Resources) -> str:
    words = describe_amount(need)
    return words.replace(" GPU", " free GPU", 1) if need.gpus else f"{words} free"


def _have(capacity: NodeCapacity, more: Resources) -> str:
    """Show the node's amount of the resource that is short."""
    have = capacity.resources
    if more.gpus:
        return str(have.gpus)
    return f"{have.memory_mib} MiB" if more.memory_mib else f"{have.vcores} vcores"


def _relax_changes(view: JobView, shapes: Sequence[Shape]) -> list[Change]:
    """Constraints of which relaxing a single one is enough."""
    placement = view.job.placement
    found: list[Change] = []

    def offer(text: str, changed: JobView, some: Sequence[Shape] = shapes) -> None:
        if any(_fits(changed, shape) for shape in some):
            found.append(Change(ChangeKind.RELAX, f"{text}: fits now"))

    if placement.rack is REQUIRED:
        offer("relax placement.locality.rack", view.with_placement(rack=PREFERRED))
    if placement.node is REQUIRED:
        offer("relax placement.locality.node", view.with_placement(node=PREFERRED))
    if placement.max_nodes is not None:
        found += _more_nodes_change(view, shapes)
    if placement.strategy is PackOrSpread.SPREAD:
        offer("placement.strategy: pack", view.with_placement(strategy=PackOrSpread.PACK))
    if placement.anti_affinity:
        offer("without placement.anti_affinity", view.with_placement(anti_affinity=()))
    if any(group.model for shape in shapes for group in shape):
        free_shapes = [tuple(replace(g, model="") for g in shape) for shape in shapes]
        any_model = view.with_placement(gpu_model=ANY_GPU_MODEL)
        offer("placement.gpu_model: any", any_model, free_shapes)
    if placement.exclude_nodes or placement.include_nodes:
        key = "exclude_nodes" if placement.exclude_nodes else "include_nodes"
        offer(f"without placement.{key}", _on_all_nodes(view))
    return found


def _on_all_nodes(view: JobView) -> JobView:
    """The view without the job's own restriction to some nodes."""
    placement = view.job.placement
    others = (
        frozenset[NodeId]()
        if placement.include_nodes
        else view.excluded - set(placement.exclude_nodes)
    )
    job = view.with_placement(exclude_nodes=(), include_nodes=()).job
    has_am = view.am == Resources()
    return view_of(view.snapshot, job, others, blind=False, has_am=has_am, data=view.data, seed="")


def _more_nodes_change(view: JobView, shapes: Sequence[Shape]) -> list[Change]:
    free = view.with_placement(max_nodes=None)
    counts = [count for shape in shapes if (count := _fewest_now(free, shape)) is not None]
    if not counts:
        return []
    return [Change(ChangeKind.RELAX, f"placement.max_nodes: {min(counts)}: fits now")]


def _fewest_now(view: JobView, shape: Shape) -> int | None:
    """The fewest nodes that hold the gang now; ``None`` if it does not fit."""
    in_rack = view.job.placement.rack is REQUIRED
    domains = view.free.racks.values() if in_rack else [view.free]
    found = [domain.fewest(shape, view.rules) for domain in domains]
    return min((count for count in found if count is not None), default=None)


def _fits(view: JobView, shape: Shape) -> bool:
    """Whether the gang fits now under the constraints of the view's job."""
    if view.job.placement.node is not REQUIRED:
        return can_hold(view, shape, view.free)
    least, now = fewest_nodes(view, shape).nodes, _fewest_now(view, shape)
    return least is not None and now is not None and now <= least


def _smaller_change(view: JobView, shapes: Sequence[Shape]) -> Change | None:
    """The largest gang of equal tasks that fits now."""
    best: tuple[int, int] | None = None
    for shape in shapes:
        if len(shape) > 1 or view.job.placement.node is REQUIRED:
            continue
        group = only_group(shape)
        low, high = 0, group.count
        while high - low > 1:
            middle = (low + high) // 2
            smaller = (replace(group, count=middle),)
            low, high = (middle, high) if _fits(view, smaller) else (low, middle)
        gpus = low * group.resources.gpus
        if low and (best is None or gpus > best[1]):
            best = low, gpus
    if best is None:
        return None
    tasks, gpus = best
    size = f"{gpus} GPU{'s' if gpus != 1 else ''}" if gpus else ""
    count = f"{tasks} task{'s' if tasks != 1 else ''}"
    text = f"ask for {size if view.job.flexible_shape and size else count}"
    if size and not view.job.flexible_shape:
        text += f" ({size})"
    return Change(ChangeKind.SMALLER, f"{text}: fits now")
