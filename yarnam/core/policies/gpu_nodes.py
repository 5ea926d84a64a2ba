"""Capacity node by node: a gang fits if each of its tasks does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from yarnam.core.model.tickets import PolicyTicket

Piece = tuple[int, int, int]
"""A node, and what the gang has there: GPUs and cores."""


class Packing(Enum):
    """Which of the nodes that fit a task gets it."""

    FIRST = "first"
    """The first, by number."""
    PACK = "pack"
    """The fullest."""
    SPREAD = "spread"
    """The emptiest."""


Shape = Sequence[tuple[int, int]]
"""Tasks of one gang, as GPUs and cores of each, the largest first."""


def even_shape(gpus: int, tasks: int, vcores: int) -> Shape:
    """The shape of a gang whose tasks differ by one GPU at most."""
    each, rest = divmod(gpus, tasks)
    return [(each + (number < rest), vcores // tasks) for number in range(tasks)]


class NodeCapacity:
    """Nodes with GPUs and, if jobs state them, cores. ``shapes`` has the tasks of the jobs with
    several; the gang of any other job goes onto one node with room for it, or, if it is larger than
    a node, onto whole free nodes and one with room for the rest."""

    __slots__ = (
        "_starts",
        "barred",
        "free",
        "free_gpus",
        "largest",
        "moves",
        "packing",
        "pieces",
        "shapes",
        "sizes",
        "total_gpus",
    )

    def __init__(
        self,
        nodes: list[tuple[int, int]],
        shapes: Mapping[str, Shape],
        packing: Packing = Packing.FIRST,
        *,
        moves: bool = False,
        barred: Mapping[str, frozenset[int]] | None = None,
    ) -> None:
        """``nodes`` has the GPUs and cores of each node, and ``barred`` the nodes that some jobs
        may not use. With ``moves`` a running gang moves for free, so its nodes count for no more
        than others (as in Muri's simulator)."""
        self.sizes = nodes
        self.free = list(nodes)
        self.largest = max((gpus for gpus, _ in nodes), default=0)
        self.shapes = shapes
        self.packing = packing
        self.moves = moves
        self.barred = barred or {}
        self.total_gpus = sum(gpus for gpus, _ in nodes)
        self.free_gpus = self.total_gpus
        self.pieces: dict[str, tuple[Piece, ...]] = {}
        """The nodes of each gang; of an emptied one, its former nodes."""
        self._starts: dict[int, int] = {}
        # By GPUs: no node before this one has this many free. Free GPUs only shrink, except in
        # ``give``.

    def copy(self) -> NodeCapacity:
        twin = NodeCapacity.__new__(NodeCapacity)
        twin.sizes, twin.free = self.sizes, list(self.free)
        twin.largest, twin.shapes = self.largest, self.shapes
        twin.packing, twin.moves, twin.barred = self.packing, self.moves, self.barred
        twin.total_gpus, twin.free_gpus = self.total_gpus, self.free_gpus
        twin.pieces = dict(self.pieces)
        twin._starts = dict(self._starts)  # noqa: SLF001 - of the same class
        return twin

    def emptied(self) -> NodeCapacity:
        twin = self.copy()
        twin.free = list(self.sizes)
        twin.free_gpus = self.total_gpus
        twin._starts = {}  # noqa: SLF001 - of the same class
        return twin

    def take(self, ticket: PolicyTicket, gpus: int) -> bool:
        if gpus > self.free_gpus:
            return False
        had = self.pieces.get(ticket.job) if ticket.is_running and not self.moves else None
        kept = _first_of(had, gpus) if had else ()
        found = kept if kept and self._has(kept) else self.placement(ticket, gpus)
        if found is None:
            return False
        self._put(ticket.job, found, gpus)
        return True

    def _put(self, job: str, pieces: tuple[Piece, ...], gpus: int) -> None:
        for node, taken, cores in pieces:
            left, left_cores = self.free[node]
            self.free[node] = (left - taken, left_cores - cores)
        self.free_gpus -= gpus
        self.pieces[job] = pieces

    def overlap(self, later: NodeCapacity) -> NodeCapacity:
        both = self.copy()
        both.free = [
            (min(gpus, then), min(cores, cores_then))
            for (gpus, cores), (then, cores_then) in zip(self.free, later.free, strict=True)
        ]
        free = sum(gpus for gpus, _ in both.free)
        both.free_gpus = min(free, self.free_gpus, later.free_gpus)
        both._starts = {}  # noqa: SLF001 - of the same class
        return both

    def take_as(self, other: NodeCapacity, ticket: PolicyTicket, gpus: int) -> None:
        self._put(ticket.job, other.pieces[ticket.job], gpus)

    def out_of_reach(self, ticket: PolicyTicket) -> NodeCapacity:
        twin, barred = self.copy(), self.barred.get(ticket.job, frozenset())
        is_limited = self.free_gpus < sum(gpus for gpus, _ in self.free)
        twin.free = [
            one if node in barred and not is_limited else (0, 0)
            for node, one in enumerate(self.free)
        ]
        twin.free_gpus = sum(gpus for gpus, _ in twin.free)
        twin._starts = {}  # noqa: SLF001 - of the same class
        return twin

    def give(self, ticket: PolicyTicket) -> None:
        self._starts = {}
        for node, gpus, cores in self.pieces.pop(ticket.job, ()):
            free, free_cores = self.free[node]
            self.free[node] = (free + gpus, free_cores + cores)
            self.free_gpus += gpus

    def least_nodes(self, ticket: PolicyTicket) -> int:
        trial = self.copy()
        trial.give(ticket)
        found = trial.placement(ticket, ticket.gpus)
        return len(found) if found is not None else 0

    def _has(self, pieces: tuple[Piece, ...]) -> bool:
        for node, taken, cores in pieces:
            free, free_cores = self.free[node]
            if free < taken or free_cores < cores:
                return False
        return True

    def placement(self, ticket: PolicyTicket, gpus: int) -> tuple[Piece, ...] | None:
        shape = self.shapes.get(ticket.job)
        if shape is not None and gpus == ticket.gpus:
            return self._by_tasks(shape, self.barred.get(ticket.job))
        largest = max(1, self.largest)
        whole, rest = divmod(gpus, largest)
        tasks = [(largest, 0)] * whole + ([(rest, 0)] if rest else [])
        return self._by_tasks(tasks, self.barred.get(ticket.job))

    def _by_tasks(self, tasks: Shape, barred: frozenset[int] | None) -> tuple[Piece, ...] | None:
        if len(tasks) == 1:
            node = self._node_for(*tasks[0], {}, barred)
            return None if node is None else ((node, *tasks[0]),)
        used: dict[int, tuple[int, int]] = {}
        for gpus, cores in tasks:
            node = self._node_for(gpus, cores, used, barred)
            if node is None:
                return None
            had = used.get(node, (0, 0))
            used[node] = (had[0] + gpus, had[1] + cores)
        return tuple((node, gpus, cores) for node, (gpus, cores) in used.items())

    def _node_for(
        self,
        gpus: int,
        cores: int,
        used: dict[int, tuple[int, int]],
        barred: frozenset[int] | None,
    ) -> int | None:
        best: tuple[int, int] | None = None
        start, all_free = self._starts.get(gpus, 0), self.free
        has_room = False
        for node in range(start, len(all_free)):
            free, free_cores = all_free[node]
            if free < gpus:
                continue
            if not has_room:
                has_room = True
                self._starts[gpus] = node
            if used and node in used:
                taken, taken_cores = used[node]
                free, free_cores = free - taken, free_cores - taken_cores
            if free < gpus or free_cores < cores or (barred and node in barred):
                continue
            if self.packing is Packing.FIRST:
                return node
            key = (free, node) if self.packing is Packing.PACK else (-free, node)
            if best is None or key < best:
                best = key
        if not has_room:
            self._starts[gpus] = len(all_free)
        return None if best is None else best[1]


def _first_of(pieces: tuple[Piece, ...], gpus: int) -> tuple[Piece, ...]:
    """So many GPUs of them: a gang that shrinks stays on its nodes. Empty means it has fewer."""
    held = pieces[0][1] if len(pieces) == 1 else sum(taken for _, taken, _ in pieces)
    if held <= gpus:
        return pieces if held == gpus else ()
    found: list[Piece] = []
    for node, taken, cores in pieces:
        kept = min(taken, gpus)
        if kept:
            found.append((node, kept, cores * kept // taken))
        gpus -= kept
    return tuple(found)
