"""Find the members that may start now, if roles start after others (``after``).

Order applies to processes. The containers of the whole gang stand at the barrier before any process
starts; then those of a role start when the roles that it names have come far enough. A task that
has ended does not hold others back: if its end were wrong, it would have stopped the gang.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from yarnam.core.gang.policy import GangPolicy
from yarnam.core.gang.state import Gang, Member, MemberState
from yarnam.core.model.job_spec import After, StartCondition


def with_waiting(gang: Gang, policy: GangPolicy) -> Gang:
    """The gang with ``is_waiting`` as it is now, of those that have not been ordered to start."""
    members = tuple(
        replace(
            member,
            is_waiting=any(
                not _is_fulfilled(after, gang.members)
                for after in policy.rules_of(member.target.role).after
            ),
        )
        if member.is_to_start
        else member
        for member in gang.members
    )
    return replace(gang, members=members)


def waits_for(role: str, members: Iterable[Member], policy: GangPolicy) -> tuple[After, ...]:
    """The conditions that are still missing before the role's processes start."""
    own = tuple(members)
    return tuple(one for one in policy.rules_of(role).after if not _is_fulfilled(one, own))


def unready(gang: Gang, policy: GangPolicy) -> tuple[Member, ...]:
    """The started members that others wait for until they are ready."""
    awaited = {
        after.role
        for member in gang.members
        if member.is_to_start
        for after in policy.rules_of(member.target.role).after
        if after.until is StartCondition.READY
    }
    return tuple(
        member
        for member in gang.members
        if member.target.role in awaited
        and member.state is MemberState.STARTED
        and not member.is_serving
    )


def _is_fulfilled(after: After, members: Iterable[Member]) -> bool:
    return all(
        _has_come(member, after.until) for member in members if member.target.role == after.role
    )


def _has_come(member: Member, until: StartCondition) -> bool:
    if member.has_ended or until is StartCondition.ENDED:
        return member.has_ended
    return member.state is MemberState.STARTED and (
        member.is_serving or until is StartCondition.STARTED
    )
