"""What a candidate is worth: its locality level, its place in the ladder, its fit now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from yarnam.model.ids import NodeId
from yarnam.model.job import PackOrSpread, TopologyWish
from yarnam.model.placement import LocalityLevel, Rung, TargetAsk
from yarnam.placement.ground import Ground
from yarnam.placement.places import Candidate
from yarnam.placement.rooms import may_stand
from yarnam.placement.search import Packing, PackRules
from yarnam.placement.shapes import Shape, tasks_of
from yarnam.placement.view import View

REQUIRED, UNCONSTRAINED = TopologyWish.REQUIRED, TopologyWish.UNCONSTRAINED


@dataclass(frozen=True, slots=True)
class Fewest:
    """The fewest nodes that the gang could ever stand on."""

    nodes: int | None
    """None: it never fits."""
    has_rack: bool
    """Whether some rack could ever hold it; if so, ``nodes`` is within one rack (unless the wish
    for a rack is unconstrained)."""


NEVER = Fewest(None, has_rack=False)


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate with its level, and where its tasks would go now if it fits now."""

    candidate: Candidate
    fewest: Fewest
    level: LocalityLevel
    rules: PackRules
    now: Packing | None
    could: Packing | None
    """Where its tasks could go if nothing else ran; None: never."""
    hosts_now: int
    racks: int
    """Over how many racks the gang may come to lie there."""
    is_sure: bool
    """Whether every way to fill the place keeps the node limit; else grants that break it are
    given back."""
    room_taken: int
    """Free GPUs of the nodes that it would take: the fewer, the more whole nodes stay whole."""
    tie: tuple[int, int]
    """Bytes of input in the place (negative), and the job's own order."""
    number: int = 0
    """Step of the ladder: candidates of one shape and level share it."""

    @property
    def packing(self) -> Packing | None:
        return self.now or self.could

    @property
    def is_able(self) -> bool:
        """Whether it could ever fit."""
        return self.packing is not None


def judge_all(view: View, candidates: Iterable[Candidate]) -> list[Judged]:
    """All candidates in the order of the ladder, numbered by step."""
    candidates = list(candidates)
    by_cut: dict[object, list[Fewest]] = {}
    for shape in {candidate.shape: None for candidate in candidates}:
        by_cut.setdefault(_cut(shape), []).append(fewest_nodes(view, shape))
    fewest = {cut: _least(found) for cut, found in by_cut.items()}
    judged = [judge(view, one, fewest[_cut(one.shape)]) for one in candidates]
    judged.sort(key=order)
    steps = list(dict.fromkeys(order(one)[:2] for one in judged))
    return [replace(one, number=steps.index(order(one)[:2])) for one in judged]


def _cut(shape: Shape) -> object:
    """What is left of a shape when models and places do not matter."""
    return tuple((group.role, group.count, group.resources) for group in shape)


def _least(found: Sequence[Fewest]) -> Fewest:
    """The fewest over all models."""
    has_rack = any(one.has_rack for one in found)
    nodes = [one.nodes for one in found if one.nodes is not None and one.has_rack == has_rack]
    return Fewest(min(nodes, default=None), has_rack)


def fewest_nodes(view: View, shape: Shape) -> Fewest:
    """On nodes as if nothing ran on them. Racks whose rooms look alike are packed once."""
    rules = replace(view.rules, node_limit=None)
    if view.job.placement.rack is not UNCONSTRAINED:
        known: dict[object, int | None] = {}
        for rack in view.total.racks.values():
            look = _look(rack, shape, rules)
            if look not in known:
                known[look] = rack.fewest(shape, rules)
        counts = [count for count in known.values() if count is not None]
        if counts:
            return Fewest(min(counts), has_rack=True)
    return Fewest(view.total.fewest(shape, rules), has_rack=False)


def _look(rack: Ground, shape: Shape, rules: PackRules) -> object:
    """What decides how many nodes a gang needs in a rack."""
    if len(shape) == 1:
        most = 1 if rules.is_alone(shape[0].role) else shape[0].count
        return tuple(rack.counts(shape[0], most))
    if any(group.is_choosy for group in shape):
        return id(rack)
    return tuple(sorted((room.gpus, room.memory_mib, room.vcores) for room in rack.rooms))


def judge(view: View, candidate: Candidate, fewest: Fewest) -> Judged:
    """Level and fit of one candidate."""
    wish, place = view.job.placement, candidate.place
    there, free_there = _ground(view.total, candidate), _ground(view.free, candidate)
    most_nodes = min(tasks_of(candidate.shape), _able(there, candidate.shape))
    racks = len(place.racks) if place.racks and not place.nodes else len(there.racks)
    level = _level(view, fewest, racks, most_nodes)
    node_limit = wish.max_nodes
    if fewest.nodes is not None and (wish.node is REQUIRED or level is LocalityLevel.NODE):
        node_limit = fewest.nodes if node_limit is None else min(node_limit, fewest.nodes)
    rules = replace(
        view.rules,
        node_limit=node_limit,
        is_loose=wish.node is UNCONSTRAINED and wish.rack is UNCONSTRAINED and node_limit is None,
    )
    now = free_there.pack(candidate.shape, rules)
    return Judged(
        candidate=candidate,
        fewest=fewest,
        level=level,
        rules=rules,
        now=now,
        could=now or there.pack(candidate.shape, rules),
        hosts_now=free_there.able(candidate.shape),
        racks=racks,
        is_sure=node_limit is None or most_nodes <= node_limit,
        room_taken=_room_taken(free_there, now),
        tie=(-_local_bytes(view, there), view.taste.order(candidate.targets[0].service)),
    )


def _ground(ground: Ground, candidate: Candidate) -> Ground:
    """Where some task of the candidate may stand. Its place alone does not tell when its roles are
    asked for in different bounds."""
    there = ground.at(candidate.place)
    if not any(group.is_bounded for group in candidate.shape):
        return there
    rooms = [room for room in there.rooms if any(may_stand(g, room) for g in candidate.shape)]
    return Ground(rooms, ground.taste)


def _room_taken(free: Ground, now: Packing | None) -> int:
    return sum(free.by_node[node].gpus for node in now.nodes) if now else 0


def _able(ground: Ground, shape: Shape) -> int:
    """On how many nodes tasks of the gang may come to stand."""
    if len(shape) == 1:
        return ground.able(shape)
    return len(ground.rooms)


def _level(view: View, fewest: Fewest, racks: int, most_nodes: int) -> LocalityLevel:
    """What the gang is sure to get in a place: NODE is the fewest nodes that it can ever have, in
    one rack where one can hold it; RACK is one rack."""
    wish = view.job.placement
    is_few = fewest.nodes is not None and (wish.node is REQUIRED or most_nodes <= fewest.nodes)
    needs_rack = fewest.has_rack and wish.rack is not UNCONSTRAINED
    if wish.node is not UNCONSTRAINED and is_few and (racks == 1 or not needs_rack):
        return LocalityLevel.NODE
    if racks == 1 and wish.rack is not UNCONSTRAINED:
        return LocalityLevel.RACK
    return LocalityLevel.ANY


def _local_bytes(view: View, ground: Ground) -> int:
    """Bytes of input in a place, as far as they tell places apart: none anywhere."""
    if not view.taste.local or ground is view.total:
        return 0
    by_rack = dict(view.data.racks)
    if by_rack and all(len(ground.rooms) == len(view.total.racks[r].rooms) for r in ground.racks):
        return sum(by_rack.get(rack, 0) for rack in ground.racks)
    return sum(view.taste.local.get(room.node, 0) for room in ground.rooms)


Rank = tuple[int, int, bool, bool, int, int, int, int, tuple[int, int], str]


def order(judged: Judged) -> Rank:
    """Tightest first: the largest containers, the closest level; then what fits now, a place that
    cannot break the node limit, the fewest racks, the place with the most nodes able to host a
    task, the fewest nodes, the tightest fit, the most bytes of input, the job's own order, the
    name."""
    packing = judged.packing
    return (
        -judged.candidate.gpus_per_task,
        int(judged.level),
        judged.now is None,
        not judged.is_sure,
        judged.racks if judged.level is not LocalityLevel.RACK else 1,
        -judged.hosts_now,
        len(packing.nodes) if packing else 1 << 30,
        judged.room_taken,
        judged.tie,
        judged.candidate.targets[0].service,
    )


def score(judged: Judged, largest: int) -> float:
    """In [0, 1]: two thirds for the level, one third for few nodes; less for containers smaller
    than the ``largest`` of the ladder, and half while it does not fit."""
    packing, fewest = judged.packing, judged.fewest.nodes
    few = fewest / len(packing.nodes) if packing and fewest else 0.0
    value = (2 - int(judged.level)) / 3 + min(1.0, few) / 3
    if largest:
        value *= 0.5 + 0.5 * judged.candidate.gpus_per_task / largest
    return round(value if judged.now else value / 2, 4)


def rungs_of(view: View, chosen: Sequence[Judged], judged: Sequence[Judged]) -> tuple[Rung, ...]:
    """The chosen candidates as rungs, with scores that compare within all the ``judged``."""
    largest = max(one.candidate.gpus_per_task for one in judged)
    return tuple(_rung(view, one, score(one, largest)) for one in chosen)


def _rung(view: View, judged: Judged, value: float) -> Rung:
    packing, wish = judged.packing, view.job.placement
    nodes = packing.nodes if packing else ()
    groups = packing.groups if packing else tuple(() for _ in judged.candidate.shape)
    local = sum(view.taste.local.get(node, 0) for node in nodes)
    return Rung(
        number=judged.number,
        level=judged.level,
        asks=tuple(
            TargetAsk(target, group.count, where)
            for target, group, where in zip(
                judged.candidate.targets, judged.candidate.shape, groups, strict=True
            )
        ),
        score=value,
        reason=_reason(view, judged, nodes, local),
        node_limit=judged.rules.node_limit,
        one_task_per_node=wish.strategy is PackOrSpread.SPREAD,
        same_rack=wish.rack is REQUIRED,
        apart=wish.anti_affinity,
        local_bytes=local,
    )


def _reason(view: View, judged: Judged, nodes: tuple[NodeId, ...], local: int) -> str:
    """Where, whether it fits now, and what it costs in locality."""
    place = judged.candidate.place
    where = {
        LocalityLevel.NODE: "on the fewest nodes possible",
        LocalityLevel.RACK: "in one rack",
        LocalityLevel.ANY: "anywhere",
    }[judged.level]
    if place.racks and not place.nodes:
        many = len(place.racks) > 3
        where += f" ({len(place.racks)} racks)" if many else f" ({', '.join(place.racks)})"
    models = sorted({group.model for group in judged.candidate.shape if group.model})
    if models:
        where += f" on {' and '.join(models)}"
    names = ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")
    fit = "fits now" if judged.now else "does not fit now; could"
    parts = [f"{where}: {fit} on {_counted(len(nodes), 'node')}: {names}"]
    if cost := _cost(view, judged, nodes):
        parts.append(f"costs {cost}")
    if view.data.total_bytes and view.taste.local:
        share = min(1.0, local / view.data.total_bytes)
        parts.append(f"{share:.0%} of the input's bytes are on these nodes")
    return "; ".join(parts)


def _cost(view: View, judged: Judged, nodes: tuple[NodeId, ...]) -> str:
    """What the placement costs in locality, against the tightest that the cluster could give."""
    rooms = view.total.by_node
    racks = len({rooms[node].rack for node in nodes if node in rooms})
    more = len(nodes) - (judged.fewest.nodes or 0)
    parts: list[str] = []
    if more > 0:
        parts.append(f"{_counted(more, 'node')} more than the fewest")
    if racks > 1:
        parts.append(f"{racks - 1} rack boundar{'y' if racks == 2 else 'ies'} to cross")
    return " and ".join(parts)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"
