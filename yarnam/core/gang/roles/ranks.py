"""Who is who in a complete gang.

Members are ordered by role (chief first, services and roles that may fail last, the others as the
spec has them), and within a role by (rack, node, GPU): so a ring over the ranks of a role crosses
each rack boundary and each node boundary once. A task's index counts within its role; its global
ranks follow those of the members before it.
"""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.gang.policy import GangPolicy
from yarnam.core.gang.state import Member
from yarnam.core.model.ids import AskId, TaskId

GpuKey = tuple[tuple[int, str], ...]


def in_rank_order(members: tuple[Member, ...], policy: GangPolicy) -> tuple[Member, ...]:
    """The members in rank order, with their task ids and first ranks filled in."""
    order = {role: place for place, role in enumerate(policy.tasks_order)}

    def key(member: Member) -> tuple[int, str, str, GpuKey, AskId]:
        assert member.grant is not None
        gpu_ids = member.agent.gpu_ids if member.agent else ()
        place = order.get(member.target.role, len(order))
        return place, member.grant.rack, member.grant.node, gpu_key(gpu_ids), member.ask

    counts: dict[str, int] = {}
    first_rank = 0
    ordered: list[Member] = []
    for member in sorted(members, key=key):
        role = member.target.role
        index = counts.get(role, 0)
        counts[role] = index + 1
        ordered.append(replace(member, task=TaskId(role, index), first_rank=first_rank))
        first_rank += member.target.processes_per_task
    return tuple(ordered)


def gpu_key(gpu_ids: tuple[str, ...]) -> GpuKey:
    """Numbers in the order of numbers ("2" before "10"), UUIDs in the order of text."""
    return tuple((int(i), "") if i.isdecimal() else (1 << 31, i) for i in gpu_ids)
