"""Assign the shares of the inputs. Pure.

Each process of the roles that train has one share of every input with ``shard: files``. Shares
follow the numbers of the asks, not the ranks: an agent knows its ask's number from its first moment
on, so it can fetch its share while the rest of the gang is still being acquired, and a member that
is replaced leaves all other shares as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # agents load this
    from yarnam.core.model.actions import GangMember

NO_SHARE_ROLES = frozenset({"ps", "evaluator"})
"""They do not train: an evaluator reads all of an input, a parameter server none."""


def first_shares(
    members: Sequence[GangMember], auxiliary: frozenset[str] = frozenset()
) -> tuple[int | None, ...]:
    """The share of each member's first process, followed by its others; ``None`` if its role has
    none, as it is one of ``auxiliary``: services and optional roles, for whose reads no process may
    have to wait."""
    without = NO_SHARE_ROLES | auxiliary
    readers = [n for n, m in enumerate(members) if m.placed.role not in without]
    by_slot: dict[int, int] = {}
    others = []
    for number in sorted(readers, key=lambda n: (members[n].ask.attempt, members[n].ask.number)):
        slot = members[number].ask.number
        if slot < len(readers) and slot not in by_slot:
            by_slot[slot] = number
        else:
            others.append(number)
    free = (slot for slot in range(len(readers)) if slot not in by_slot)
    by_slot.update(zip(free, others, strict=False))
    first: dict[int, int] = {}
    total = 0
    for slot in sorted(by_slot):
        first[by_slot[slot]] = total
        total += members[by_slot[slot]].placed.processes
    return tuple(first.get(number) for number in range(len(members)))


def all_shares(members: Sequence[GangMember], auxiliary: frozenset[str] = frozenset()) -> int:
    """How many there are."""
    without = NO_SHARE_ROLES | auxiliary
    return sum(m.placed.processes for m in members if m.placed.role not in without)


def likely_shares(
    roles: Sequence[tuple[str, int]], role: str, number: int, processes: int
) -> tuple[range, int] | None:
    """The shares that the task of this ask will have if no member is replaced, and of how many;
    ``None`` if that is unknown. ``roles`` has names and processes of all tasks, as in the spec,
    with 0 for a service and an optional role; ``processes`` is that of the task."""
    readers = [name for name, count in roles if count and name not in NO_SHARE_ROLES]
    if readers != [role] or roles[0][0] != role:
        return None
    total = roles[0][1]
    if total % processes or number >= total // processes:
        return None
    return range(number * processes, (number + 1) * processes), total
