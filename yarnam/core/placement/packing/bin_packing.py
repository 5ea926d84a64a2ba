"""Which tasks on which nodes: the fewest nodes first, best fit among equals.

For equal tasks (one role) the result is optimal. Each node can host a number c of tasks; k, the
fewest nodes, follows from the largest c. Then, one node after another, the smallest c is taken
that still lets the rest fit on the largest others: so used nodes are filled first and whole
nodes stay whole. Kueue's BestFit example (7 tasks, nodes that fit 3, 3, 2, 1) gives 3 + 3 + 1.

With several roles the biggest tasks go first, each role onto nodes already in use where it fits
(placing small ones first can block a solution that exists: Volcano issue 1297). That greedy order
misses some solutions, so on few nodes an exhaustive search looks for a better one, unless a bound
shows that there is none on fewer nodes. The search goes depth first, the biggest tasks and the
nodes in use first. Equal tasks go to nodes in order, and of equal nodes it tries only the first, so
that it meets no arrangement twice under other names. Beyond its bounds the greedy answer counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from yarnam.core.model.ids import NodeId
from yarnam.core.placement.gang_shape import Group, Shape, size_key, tasks_of, total_of
from yarnam.core.placement.packing.node_capacity import (
    NO_TIE_BREAK,
    NodeCapacity,
    TaskCounts,
    TieBreak,
    count_in,
    may_host,
    reserve,
)

MOST_NODES = 16
MOST_TASKS = 16
MOST_STEPS = 3000
"""Bounds of one search: 3,000 steps over 16 nodes take about 20 ms."""


@dataclass(frozen=True)
class Packing:
    """A node for every task: one tuple per group of the shape, in the shape's order."""

    groups: tuple[tuple[NodeId, ...], ...]

    @cached_property
    def nodes(self) -> tuple[NodeId, ...]:
        """The nodes used, by name."""
        return tuple(sorted({node for group in self.groups for node in group}))


class PackRules(NamedTuple):
    """How tasks may share nodes. A named tuple: it is a key of many answers."""

    node_limit: int | None = None
    one_task_per_node: bool = False
    is_loose: bool = False
    """Fill the nodes with the least capacity first instead of taking the fewest (Kueue's
    LeastFreeCapacity)."""
    anti_affinity: tuple[tuple[str, str], ...] = ()
    """Pairs of roles that share no node; a role with itself: its tasks share none."""

    def must_separate(self, role: str, other: str) -> bool:
        """Whether a task of one may not share a node with a task of the other."""
        if self.one_task_per_node:
            return True
        return (role, other) in self.anti_affinity or (other, role) in self.anti_affinity

    def is_alone(self, role: str) -> bool:
        """Whether at most one task of this role may be on a node."""
        return self.must_separate(role, role)

    def most_per_node(self, group: Group) -> int:
        """How many tasks of the group may share a node."""
        return 1 if self.is_alone(group.role) else group.count


NO_RULES = PackRules()


Pick = tuple[NodeCapacity, int]
"""A node and how many tasks go there."""

Host = tuple[int, int, int, int, int, int, NodeCapacity]
"""Tasks it can host; then what breaks ties, the smaller the better: GPUs left over, bytes
of input there (negative), memory and vcores left over, the job's own order; the node. Sorted, the
tightest fit comes first."""


def pack(
    capacities: Sequence[NodeCapacity],
    shape: Shape,
    rules: PackRules = NO_RULES,
    tie_break: TieBreak = NO_TIE_BREAK,
) -> Packing | None:
    """A node for every task, or None."""
    if len(shape) == 1:
        group = shape[0]
        hosts = hosts_of(capacities, group, rules.most_per_node(group), tie_break)
        return pack_one(hosts, group, rules)
    packing = _greedy(capacities, shape, rules, tie_break)
    if not rules.is_loose and _may_be_better(capacities, shape, packing):
        packing = _improved(capacities, shape, rules, packing, tie_break)
    return _limited(packing, rules)


def pack_one(hosts: Sequence[Host], group: Group, rules: PackRules) -> Packing | None:
    """A gang of equal tasks on these sorted hosts, which it does not change."""
    choose = _least_free_first if rules.is_loose and not rules.is_alone(group.role) else _fewest
    picks = choose(list(hosts), group.count)
    if picks is None:
        return None
    packing = Packing((tuple(capacity.node for capacity, count in picks for _ in range(count)),))
    return _limited(packing, rules)


def hosts_of(
    capacities: Iterable[NodeCapacity],
    group: Group,
    most: int,
    tie_break: TieBreak = NO_TIE_BREAK,
    excluded: Collection[NodeId] = (),
    fits: TaskCounts | None = None,
) -> list[Host]:
    """The nodes that can host one task of the group or more (counted up to ``most``), sorted.
    ``fits`` is for the group's size."""
    want = group.resources
    fits = TaskCounts(want) if fits is None else fits
    is_choosy = group.is_choosy
    local, salt, order = tie_break.local, tie_break.salt, tie_break.order
    found: list[Host] = []
    for capacity in capacities:
        count = fits[capacity[2:5]]
        if count < 1 or (excluded and capacity.node in excluded):
            continue
        if is_choosy and not may_host(group, capacity):
            continue
        fitting = min(count, most)
        found.append(
            (
                fitting,
                capacity.gpus - fitting * want.gpus,
                -local.get(capacity.node, 0) if local else 0,
                capacity.memory_mib - fitting * want.memory_mib,
                capacity.vcores - fitting * want.vcores,
                order(capacity.node) if salt else 0,
                capacity,
            )
        )
    found.sort()
    return found


def _limited(packing: Packing | None, rules: PackRules) -> Packing | None:
    if packing is None or rules.node_limit is None or len(packing.nodes) <= rules.node_limit:
        return packing
    return None


def _may_be_better(capacities: Sequence[NodeCapacity], shape: Shape, known: Packing | None) -> bool:
    """Whether the nodes' amounts, summed up, could hold the gang on fewer nodes than known."""
    if known is None and not all(_has_capacity(capacities, group) for group in shape):
        return False
    need = total_of(shape)
    least = 1
    for amount, have in (
        (need.gpus, [capacity.gpus for capacity in capacities]),
        (need.memory_mib, [capacity.memory_mib for capacity in capacities]),
        (need.vcores, [capacity.vcores for capacity in capacities]),
    ):
        if amount <= 0:
            continue
        have.sort(reverse=True)
        reach = list(accumulate(have))
        if not reach or max(reach) < amount:
            return False
        least = max(least, 1 + next(i for i, sum_ in enumerate(reach) if sum_ >= amount))
    return known is None or len(known.nodes) > least


def _has_capacity(capacities: Sequence[NodeCapacity], group: Group) -> bool:
    return group.count <= sum(
        count_in(capacity, group.resources) for capacity in capacities if may_host(group, capacity)
    )


def _greedy(
    capacities: Sequence[NodeCapacity], shape: Shape, rules: PackRules, tie_break: TieBreak
) -> Packing | None:
    left = {capacity.node: capacity for capacity in capacities}
    roles_on: dict[NodeId, set[str]] = {}
    placed: dict[int, tuple[NodeId, ...]] = {}
    order = sorted(range(len(shape)), key=lambda i: size_key(shape[i].resources), reverse=True)
    for index in order:
        group = shape[index]
        excluded = {
            node
            for node, roles in roles_on.items()
            if any(rules.must_separate(group.role, role) for role in roles)
        }
        most = rules.most_per_node(group)
        if rules.is_loose and not rules.one_task_per_node:
            hosts = hosts_of(left.values(), group, most, tie_break, excluded)
            # Among equals a node already in use comes first: so names decide nothing.
            hosts.sort(key=lambda host: (host[:5], host[6].node not in roles_on))
            picks = _least_free_first(hosts, group.count)
        else:
            picks = _used_first(left, set(roles_on), group, most, tie_break, excluded)
        if picks is None:
            return None
        for capacity, count in picks:
            left[capacity.node] = reserve(left[capacity.node], group.resources, count)
            roles_on.setdefault(capacity.node, set()).add(group.role)
        placed[index] = tuple(capacity.node for capacity, count in picks for _ in range(count))
    return Packing(tuple(placed[index] for index in range(len(shape))))


def _fewest(found: list[Host], count: int) -> list[Pick] | None:
    """The fewest nodes, and among those the tightest fit. ``found`` is sorted; it is consumed."""
    k, reach = 0, [0]
    while reach[-1] < count:
        k += 1
        if k > len(found):
            return None
        reach.append(reach[-1] + found[-k][0])
    picks: list[Pick] = []
    missing = count
    for others in range(k - 1, -1, -1):
        # The chosen host lies below the largest ``others``, so their sum stays the same.
        host = found.pop(bisect_left(found, missing - reach[others], key=_fitting))
        take = min(host[0], missing)
        picks.append((host[6], take))
        missing -= take
    return picks


def _fitting(host: Host) -> int:
    return host[0]


def _least_free_first(found: list[Host], count: int) -> list[Pick] | None:
    picks, missing = _filled(found, count)
    return None if missing else picks


def _filled(hosts: Iterable[Host], count: int) -> tuple[list[Pick], int]:
    """The hosts filled in their order, and how many tasks are still without a node."""
    picks: list[Pick] = []
    for host in hosts:
        if not count:
            break
        take = min(host[0], count)
        picks.append((host[6], take))
        count -= take
    return picks, count


def _used_first(
    left: dict[NodeId, NodeCapacity],
    used: set[NodeId],
    group: Group,
    most: int,
    tie_break: TieBreak,
    excluded: Collection[NodeId],
) -> list[Pick] | None:
    """Fill nodes that the gang already uses, then the fewest others."""
    hosts = hosts_of((left[node] for node in sorted(used)), group, most, tie_break, excluded)
    picks, missing = _filled(hosts, group.count)
    if not missing:
        return picks
    most = min(most, missing)
    others = _fewest(hosts_of(left.values(), group, most, tie_break, {*used, *excluded}), missing)
    return None if others is None else [*picks, *others]


class _Search:
    """The state of one search, inside one call of ``_improved``."""

    def __init__(
        self,
        capacities: Sequence[NodeCapacity],
        shape: Shape,
        rules: PackRules,
        most: int,
        tie_break: TieBreak,
    ) -> None:
        self.capacities = sorted(
            capacities,
            key=lambda r: (
                r.gpus,
                -tie_break.local.get(r.node, 0),
                r.memory_mib,
                r.vcores,
                tie_break.order(r.node),
                r.node,
            ),
        )
        self.shape = shape
        order = sorted(range(len(shape)), key=lambda i: size_key(shape[i].resources), reverse=True)
        self.tasks = [index for index in order for _ in range(shape[index].count)]
        self.chosen: list[int] = []
        """The index of a node for each task so far."""
        self.most = most
        """Nodes that an answer may use; each answer found lowers it."""
        self.found: list[int] | None = None
        self.steps = 0
        self.is_choosy = any(group.is_choosy for group in shape)
        self.conflicts = [
            frozenset(
                other
                for other in range(len(shape))
                if rules.must_separate(shape[index].role, shape[other].role)
            )
            for index in range(len(shape))
        ]

    def go(self) -> None:
        depth = len(self.chosen)
        if depth == len(self.tasks):
            self.found = list(self.chosen)
            self.most = len(set(self.chosen)) - 1
            return
        used = set(self.chosen)
        task = self.tasks[depth]
        is_same = depth > 0 and task == self.tasks[depth - 1]
        first = self.chosen[-1] if is_same else 0
        want = self.shape[task].resources
        tried: set[tuple[bool, int, int, int, str]] = set()
        for node in sorted(range(first, len(self.capacities)), key=lambda p: (p not in used, p)):
            capacity = self.capacities[node]
            # Use the node's own name if nodes of equal capacity differ in the tasks that are or may
            # be on them.
            name = capacity.node if node in used or self.is_choosy else capacity.model
            alike = (node in used, capacity.memory_mib, capacity.vcores, capacity.gpus, name)
            if alike in tried or count_in(capacity, want) < 1 or not self._may_take(task, node):
                continue
            if len(used | {node}) > self.most or self.steps >= MOST_STEPS:
                continue
            tried.add(alike)
            self.steps += 1
            self.capacities[node] = reserve(capacity, want)
            self.chosen.append(node)
            self.go()
            self.chosen.pop()
            self.capacities[node] = capacity

    def result(self) -> Packing | None:
        if self.found is None:
            return None
        groups: list[list[NodeId]] = [[] for _ in self.shape]
        for task, node in zip(self.tasks, self.found, strict=True):
            groups[task].append(self.capacities[node].node)
        return Packing(tuple(tuple(group) for group in groups))

    def _may_take(self, task: int, node: int) -> bool:
        if not may_host(self.shape[task], self.capacities[node]):
            return False
        conflicts = self.conflicts[task]
        return not conflicts or not any(
            taken == node and self.tasks[depth] in conflicts
            for depth, taken in enumerate(self.chosen)
        )


def _improved(
    capacities: Sequence[NodeCapacity],
    shape: Shape,
    rules: PackRules,
    known: Packing | None,
    tie_break: TieBreak,
) -> Packing | None:
    """A packing on fewer nodes than the ``known`` one if the search finds one within its bounds,
    else the known one."""
    if len(capacities) > MOST_NODES or tasks_of(shape) > MOST_TASKS:
        return known
    most = len(capacities) if rules.node_limit is None else min(len(capacities), rules.node_limit)
    if known is not None:
        most = min(most, len(known.nodes) - 1)
    if most < 1:
        return known
    attempt = _Search(capacities, shape, rules, most, tie_break)
    attempt.go()
    return attempt.result() or known
