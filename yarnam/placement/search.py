"""Exhaustive packing of a few tasks of several roles on a few nodes.

Depth first, the biggest tasks first, nodes already used first; equal tasks go to nodes in order
and of equal nodes only the first is tried, so that no arrangement is tried twice under other
names. Bounded: beyond its bounds the greedy answer stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from yarnam.model.ids import NodeId
from yarnam.placement.rooms import NO_TASTE, Room, Taste, count_in, may_stand, without
from yarnam.placement.shapes import Shape, size_key, tasks_of

MOST_NODES = 16
MOST_TASKS = 16
MOST_STEPS = 3000
"""Bounds of one search: 3,000 steps over 16 nodes take about 20 ms."""


@dataclass(frozen=True, slots=True)
class Packing:
    """A node for every task: one tuple per group of the shape, in the shape's order."""

    groups: tuple[tuple[NodeId, ...], ...]

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """The nodes used, by name."""
        return tuple(sorted({node for group in self.groups for node in group}))


@dataclass(frozen=True, slots=True)
class PackRules:
    """How tasks may share nodes."""

    node_limit: int | None = None
    one_task_per_node: bool = False
    is_loose: bool = False
    """Use up the smallest rooms first instead of the fewest nodes (Kueue's LeastFreeCapacity)."""
    apart: tuple[tuple[str, str], ...] = ()
    """Pairs of roles that share no node; a role with itself: its tasks share none."""

    def keeps_apart(self, role: str, other: str) -> bool:
        """Whether a task of one may not share a node with a task of the other."""
        if self.one_task_per_node:
            return True
        return (role, other) in self.apart or (other, role) in self.apart

    def is_alone(self, role: str) -> bool:
        """Whether at most one task of this role may be on a node."""
        return self.keeps_apart(role, role)


NO_RULES = PackRules()


class _Search:
    """The state of one search; it lives inside one call of ``search``."""

    def __init__(
        self, rooms: Sequence[Room], shape: Shape, rules: PackRules, most: int, taste: Taste
    ) -> None:
        self.rooms = sorted(
            rooms,
            key=lambda r: (
                r.gpus,
                -taste.local.get(r.node, 0),
                r.memory_mib,
                r.vcores,
                taste.order(r.node),
                r.node,
            ),
        )
        self.shape = shape
        order = sorted(range(len(shape)), key=lambda i: size_key(shape[i].resources), reverse=True)
        self.tasks = [index for index in order for _ in range(shape[index].count)]
        self.places: list[int] = []
        self.most = most
        """Nodes that an answer may use; each answer found lowers it."""
        self.found: list[int] | None = None
        self.steps = 0
        self.is_choosy = any(group.is_choosy for group in shape)
        self.foes = [
            frozenset(
                other
                for other in range(len(shape))
                if rules.keeps_apart(shape[index].role, shape[other].role)
            )
            for index in range(len(shape))
        ]

    def go(self) -> None:
        depth = len(self.places)
        if depth == len(self.tasks):
            self.found = list(self.places)
            self.most = len(set(self.places)) - 1
            return
        used = set(self.places)
        task = self.tasks[depth]
        is_same = depth > 0 and task == self.tasks[depth - 1]
        first = self.places[-1] if is_same else 0
        want = self.shape[task].resources
        tried: set[tuple[bool, int, int, int, str]] = set()
        for place in sorted(range(first, len(self.rooms)), key=lambda p: (p not in used, p)):
            room = self.rooms[place]
            # Its own name where nodes of equal room differ in who is or may be on them.
            name = room.node if place in used or self.is_choosy else room.model
            look = (place in used, room.memory_mib, room.vcores, room.gpus, name)
            if look in tried or count_in(room, want) < 1 or not self._may_take(task, place):
                continue
            if len(used | {place}) > self.most or self.steps >= MOST_STEPS:
                continue
            tried.add(look)
            self.steps += 1
            self.rooms[place] = without(room, want)
            self.places.append(place)
            self.go()
            self.places.pop()
            self.rooms[place] = room

    def answer(self) -> Packing | None:
        if self.found is None:
            return None
        groups: list[list[NodeId]] = [[] for _ in self.shape]
        for task, place in zip(self.tasks, self.found, strict=True):
            groups[task].append(self.rooms[place].node)
        return Packing(tuple(tuple(group) for group in groups))

    def _may_take(self, task: int, place: int) -> bool:
        if not may_stand(self.shape[task], self.rooms[place]):
            return False
        foes = self.foes[task]
        return not foes or not any(
            taken == place and self.tasks[depth] in foes for depth, taken in enumerate(self.places)
        )


def search(
    rooms: Sequence[Room],
    shape: Shape,
    rules: PackRules,
    known: Packing | None,
    taste: Taste = NO_TASTE,
) -> Packing | None:
    """A packing on fewer nodes than the ``known`` one, if there is one within the bounds, else the
    known one."""
    if len(rooms) > MOST_NODES or tasks_of(shape) > MOST_TASKS:
        return known
    most = len(rooms) if rules.node_limit is None else min(len(rooms), rules.node_limit)
    if known is not None:
        most = min(most, len(known.nodes) - 1)
    if most < 1:
        return known
    attempt = _Search(rooms, shape, rules, most, taste)
    attempt.go()
    return attempt.answer() or known
