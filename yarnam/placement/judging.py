"""What a candidate is worth: its locality level, its place in the ladder, its fit now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from yarnam.model.ids import NodeId
from yarnam.model.job import JobSpec, PackOrSpread, PlacementWish, TopologyWish
from yarnam.model.placement import LocalityLevel, Rung, TargetAsk
from yarnam.placement.packing import hosts, pack
from yarnam.placement.places import Candidate
from yarnam.placement.rooms import Room, by_rack
from yarnam.placement.search import Packing, PackRules
from yarnam.placement.shapes import Shape, tasks_of

REQUIRED, UNCONSTRAINED = TopologyWish.REQUIRED, TopologyWish.UNCONSTRAINED


@dataclass(frozen=True, slots=True)
class Fewest:
    """The fewest nodes that the gang could ever stand on."""

    nodes: int | None
    """None: it never fits."""
    has_rack: bool
    """Whether some rack could ever hold it; if so, ``nodes`` is within one rack (unless the wish
    for a rack is unconstrained)."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate with its level, and where its tasks would go now if it fits now."""

    candidate: Candidate
    fewest: Fewest
    level: LocalityLevel
    node_limit: int | None
    now: Packing | None
    could: Packing | None
    """Where its tasks could go if nothing else ran; None: never."""
    hosts_now: int
    is_sure: bool
    """Whether every way to fill the place keeps the node limit; else grants that break it are
    given back."""
    number: int = 0
    """Step of the ladder: candidates of one shape and level share it."""

    @property
    def gpus_per_task(self) -> int:
        """Of the largest containers."""
        return max(group.resources.gpus for group in self.candidate.shape)

    @property
    def packing(self) -> Packing | None:
        return self.now or self.could


def fewest_nodes(shape: Shape, wish: PlacementWish, rooms: Sequence[Room]) -> Fewest:
    """On rooms as if nothing ran on them."""
    rules = PackRules(one_task_per_node=wish.strategy is PackOrSpread.SPREAD)
    counts = [
        len(packing.nodes)
        for members in by_rack(rooms).values()
        if (packing := pack(members, shape, rules)) is not None
    ]
    if counts and wish.rack is not UNCONSTRAINED:
        return Fewest(min(counts), has_rack=True)
    packing = pack(rooms, shape, rules)
    return Fewest(len(packing.nodes) if packing else None, has_rack=bool(counts))


def judge(
    job: JobSpec,
    candidate: Candidate,
    fewest: Fewest,
    total: Sequence[Room],
    free: Sequence[Room],
) -> Judged:
    """Level and fit of one candidate. ``total`` and ``free`` are all usable rooms."""
    wish = job.placement
    there = candidate.place.rooms(total)
    level = _level(wish, candidate, fewest, there)
    node_limit = wish.max_nodes
    if fewest.nodes is not None and (wish.node is REQUIRED or level is LocalityLevel.NODE):
        node_limit = fewest.nodes if node_limit is None else min(node_limit, fewest.nodes)
    rules = PackRules(
        node_limit=node_limit,
        one_task_per_node=wish.strategy is PackOrSpread.SPREAD,
        is_loose=wish.node is UNCONSTRAINED and wish.rack is UNCONSTRAINED and node_limit is None,
    )
    free_there = candidate.place.rooms(free)
    return Judged(
        candidate=candidate,
        fewest=fewest,
        level=level,
        node_limit=node_limit,
        now=pack(free_there, candidate.shape, rules),
        could=pack(there, candidate.shape, rules),
        hosts_now=hosts(free_there, candidate.shape),
        is_sure=node_limit is None or _most_nodes(candidate, there) <= node_limit,
    )


def _level(
    wish: PlacementWish, candidate: Candidate, fewest: Fewest, there: Sequence[Room]
) -> LocalityLevel:
    """What the gang is sure to get in this place: NODE is the fewest nodes that it can ever have,
    in one rack where one can hold it; RACK is one rack."""
    is_one_rack = len({room.rack for room in there}) == 1
    is_few = fewest.nodes is not None and (
        wish.node is REQUIRED or _most_nodes(candidate, there) <= fewest.nodes
    )
    needs_rack = fewest.has_rack and wish.rack is not UNCONSTRAINED
    if wish.node is not UNCONSTRAINED and is_few and (is_one_rack or not needs_rack):
        return LocalityLevel.NODE
    if is_one_rack and wish.rack is not UNCONSTRAINED:
        return LocalityLevel.RACK
    return LocalityLevel.ANY


def _most_nodes(candidate: Candidate, there: Sequence[Room]) -> int:
    """On how many nodes the gang could end up in this place."""
    return min(tasks_of(candidate.shape), len(there))


def order(judged: Judged) -> tuple[int, int, bool, bool, int, int, str]:
    """Tightest first: the largest containers, the closest level; then what fits now, a place that
    cannot break the node limit, the place with the most nodes able to host a task, the fewest
    nodes, the name."""
    packing = judged.packing
    return (
        -judged.gpus_per_task,
        int(judged.level),
        judged.now is None,
        not judged.is_sure,
        -judged.hosts_now,
        len(packing.nodes) if packing else 1 << 30,
        judged.candidate.targets[0].service,
    )


def score(judged: Judged, largest: int) -> float:
    """In [0, 1]: two thirds for the level, one third for few nodes; less for containers smaller
    than the ``largest`` of the ladder, and half while it does not fit."""
    packing, fewest = judged.packing, judged.fewest.nodes
    few = fewest / len(packing.nodes) if packing and fewest else 0.0
    value = (2 - int(judged.level)) / 3 + min(1.0, few) / 3
    if largest:
        value *= 0.5 + 0.5 * judged.gpus_per_task / largest
    return round(value if judged.now else value / 2, 4)


def rung_of(job: JobSpec, judged: Judged, value: float) -> Rung:
    """The candidate as a step of the ladder."""
    packing = judged.packing
    groups = packing.groups if packing else tuple(() for _ in judged.candidate.shape)
    wish = job.placement
    return Rung(
        number=judged.number,
        level=judged.level,
        asks=tuple(
            TargetAsk(target, group.count, nodes)
            for target, group, nodes in zip(
                judged.candidate.targets, judged.candidate.shape, groups, strict=True
            )
        ),
        score=value,
        reason=_reason(judged, packing.nodes if packing else ()),
        node_limit=judged.node_limit,
        one_task_per_node=wish.strategy is PackOrSpread.SPREAD,
        same_rack=wish.rack is REQUIRED,
    )


def _reason(judged: Judged, nodes: tuple[NodeId, ...]) -> str:
    place = judged.candidate.place
    where = {
        LocalityLevel.NODE: "on the fewest nodes possible",
        LocalityLevel.RACK: "in one rack",
        LocalityLevel.ANY: "anywhere",
    }[judged.level]
    if place.racks:
        where += f" ({', '.join(place.racks)})"
    names = ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more" if len(nodes) > 4 else "")
    count = f"{len(nodes)} node{'s' if len(nodes) != 1 else ''}"
    fit = "fits now" if judged.now else "does not fit now; could"
    return f"{where}: {fit} on {count}: {names}"
