"""The changes after which a gang that does not fit now would fit: each is tried, then told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from yarnam.model.job import ANY_GPU_MODEL, PackOrSpread, PlacementWish, TopologyWish
from yarnam.model.placement import Change, ChangeKind
from yarnam.model.resources import Resources
from yarnam.placement.freeing import Freed, least_to_free, order_of
from yarnam.placement.ground import Ground
from yarnam.placement.judging import Judged
from yarnam.placement.ladder import is_able
from yarnam.placement.places import Place
from yarnam.placement.rooms import without
from yarnam.placement.search import PackRules
from yarnam.placement.shapes import Shape, only, total_of
from yarnam.placement.view import View, view_of

REQUIRED, PREFERRED = TopologyWish.REQUIRED, TopologyWish.PREFERRED
MOST_PLACES = 12
"""Places that are weighed for what would have to become free there, the tightest last: they want
the most."""
MOST_NEAREST = 3
"""Nodes named."""


def changes_for(view: View, judged: Sequence[Judged]) -> tuple[Change, ...]:
    """What others would have to free, the wish that could be given up, the gang that fits now."""
    shapes = list(dict.fromkeys(one.candidate.shape for one in judged))
    found = [_free(view, judged), *_relaxed(view, shapes), _smaller(view, shapes)]
    return tuple(change for change in found if change is not None)


def in_one_sentence(changes: Iterable[Change]) -> str:
    """As in ``needs 1 more node with 4 free GPUs (nearest: n1 has 2); or ask for 2 tasks: …``."""
    return "; or ".join(change.text for change in changes)


def _free(view: View, judged: Sequence[Judged]) -> Change | None:
    """The least that would have to become free in any of the places."""
    idle = _idle(view)
    best: tuple[Freed, Shape, Place] | None = None
    seen: set[tuple[Shape, Place, PackRules]] = set()
    for one in list(judged)[::-1]:
        shape, place, rules = one.candidate.shape, one.candidate.place, one.rules
        key = (shape, place, rules)
        if key in seen or len(seen) >= MOST_PLACES:
            continue
        seen.add(key)
        freed = least_to_free(idle.at(place), view.free.at(place), shape, rules)
        if freed and (best is None or order_of(freed) < order_of(best[0])):
            best = freed, shape, place
    if best is None:
        return None
    freed, shape, place = best
    return Change(ChangeKind.FREE, _free_text(view, freed, shape, place), tuple(freed.items()))


def _idle(view: View) -> Ground:
    """As if nothing ran but the ApplicationMaster where ``view.free`` has it."""
    if view.am_node is None:
        return view.bare
    rooms = [
        without(room, view.am) if room.node == view.am_node else room for room in view.bare.rooms
    ]
    return Ground(rooms, view.taste)


def _free_text(view: View, freed: Freed, shape: Shape, place: Place) -> str:
    rooms = view.free.by_node
    needs: dict[Resources, list[str]] = {}
    for node, more in freed.items():
        room = rooms[node]
        have = Resources(max(0, room.memory_mib), max(0, room.vcores), max(0, room.gpus))
        needs.setdefault(_shown_need(have.plus(more), more, shape), []).append(node)
    parts: list[str] = []
    for need, nodes in sorted(needs.items(), key=lambda item: -item[0].gpus):
        each = " each" if len(nodes) > 1 else ""
        more_nodes = f"{len(nodes)} more node{'s' if len(nodes) > 1 else ''}"
        parts.append(f"{more_nodes} with {_amount(need)}{each}")
    where = ""
    if view.job.placement.rack is REQUIRED and len(view.total.racks) > 1:
        racks = sorted({rooms[node].rack for node in freed})
        where = f" in rack {racks[0]}" if len(racks) == 1 else ""
    near = [f"{node} has {_have(view, node, more)}" for node, more in freed.items()]
    more_near = ", …" if len(near) > MOST_NEAREST else ""
    return (
        f"needs {' and '.join(parts)}{where} (nearest: {', '.join(near[:MOST_NEAREST])}{more_near})"
    )


def _shown_need(need: Resources, more: Resources, shape: Shape) -> Resources:
    """Only the resources that are short; GPUs in any case where the gang has some."""
    has_gpus = total_of(shape).gpus > 0
    if has_gpus and more.gpus and not more.memory_mib and not more.vcores:
        return Resources(0, 0, need.gpus)
    return Resources(
        need.memory_mib if more.memory_mib else 0,
        need.vcores if more.vcores else 0,
        need.gpus if more.gpus else 0,
    )


def in_words(amount: Resources) -> str:
    """Only what there is of it, as in ``2 GPUs, 512 MiB``."""
    parts = [f"{amount.gpus} GPU{'s' if amount.gpus != 1 else ''}"] if amount.gpus else []
    if amount.memory_mib:
        parts.append(f"{amount.memory_mib} MiB")
    if amount.vcores:
        parts.append(f"{amount.vcores} vcore{'s' if amount.vcores != 1 else ''}")
    return ", ".join(parts)


def _amount(need: Resources) -> str:
    words = in_words(need)
    return words.replace(" GPU", " free GPU", 1) if need.gpus else f"{words} free"


def _have(view: View, node: str, more: Resources) -> str:
    room = view.free.by_node[node]  # type: ignore[index]
    if more.gpus:
        return str(max(0, room.gpus))
    if more.memory_mib:
        return f"{max(0, room.memory_mib)} MiB"
    return f"{max(0, room.vcores)} vcores"


def _relaxed(view: View, shapes: Sequence[Shape]) -> list[Change]:
    """Wishes of which giving up one is enough."""
    wish = view.job.placement
    found: list[Change] = []

    def offer(text: str, changed: View, some: Sequence[Shape] = shapes) -> None:
        if any(_fits(changed, shape) for shape in some):
            found.append(Change(ChangeKind.RELAX, f"{text}: fits now"))

    if wish.rack is REQUIRED:
        offer("relax placement.locality.rack", _wishing(view, replace(wish, rack=PREFERRED)))
    if wish.node is REQUIRED:
        offer("relax placement.locality.node", _wishing(view, replace(wish, node=PREFERRED)))
    if wish.max_nodes is not None:
        _offer_more_nodes(view, shapes, found)
    if wish.strategy is PackOrSpread.SPREAD:
        packed = replace(wish, strategy=PackOrSpread.PACK)
        offer("placement.strategy: pack", _wishing(view, packed))
    if wish.anti_affinity:
        offer("give up placement.anti_affinity", _wishing(view, replace(wish, anti_affinity=())))
    if any(group.model for shape in shapes for group in shape):
        free_shapes = [tuple(replace(g, model="") for g in shape) for shape in shapes]
        any_model = _wishing(view, replace(wish, gpu_model=ANY_GPU_MODEL))
        offer("placement.gpu_model: any", any_model, free_shapes)
    if wish.exclude_nodes or wish.include_nodes:
        everywhere = replace(wish, exclude_nodes=(), include_nodes=())
        wide = _wishing(view, everywhere)
        own = set(wish.exclude_nodes)
        others = [node for node in view.barred if node not in own] if not wish.include_nodes else []
        wider = view_of(
            view.snapshot,
            wide.job,
            others,
            blind=False,
            has_am=view.am == Resources(),
            data=view.data,
            seed="",
        )
        key = "exclude_nodes" if wish.exclude_nodes else "include_nodes"
        offer(f"without placement.{key}", wider)
    return found


def _offer_more_nodes(view: View, shapes: Sequence[Shape], found: list[Change]) -> None:
    free = _wishing(view, replace(view.job.placement, max_nodes=None))
    counts = [
        count
        for shape in shapes
        for ground in _grounds(free)
        if (count := ground.fewest(shape, free.rules)) is not None
    ]
    if counts:
        text = f"placement.max_nodes: {min(counts)}: fits now"
        found.append(Change(ChangeKind.RELAX, text))


def _grounds(view: View) -> list[Ground]:
    if view.job.placement.rack is REQUIRED:
        return list(view.free.racks.values())
    return [view.free]


def _wishing(view: View, wish: PlacementWish) -> View:
    return replace(view, job=replace(view.job, placement=wish))


def _fits(view: View, shape: Shape) -> bool:
    """Now, under the wishes of the view's job. A required few nodes is more than is asked here,
    so what still has that wish is not offered."""
    if view.job.placement.node is REQUIRED:
        rules = view.rules
        least = [g.fewest(shape, rules) for g in _total_grounds(view)]
        limit = min((k for k in least if k is not None), default=0)
        return any(
            (now := ground.fewest(shape, rules)) is not None and now <= limit
            for ground in _grounds(view)
        )
    return is_able(view, shape, view.free)


def _total_grounds(view: View) -> list[Ground]:
    if view.job.placement.rack is not TopologyWish.UNCONSTRAINED:
        racks = list(view.total.racks.values())
        if any(True for _ in racks):
            return racks
    return [view.total]


def _smaller(view: View, shapes: Sequence[Shape]) -> Change | None:
    """The largest gang of equal tasks that fits now."""
    best: tuple[int, int] | None = None
    for shape in shapes:
        if len(shape) > 1 or view.job.placement.node is REQUIRED:
            continue
        group = only(shape)
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
