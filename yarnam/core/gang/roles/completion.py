"""When a gang is complete, and which failures leave that possible.

A gang is complete when each role that has to end is: the rule of the role (``completion``) is met,
or the role is optional and all of its tasks have ended. Services end with the others. A task that
fails, or is lost, is tolerated where the role is optional or its rule can still be met; any other
failure stops the gang.

``members`` are those of one attempt in each function, as they are after the event in question. They
are looked at only as far as needed: a large gang has as many ends as members.
"""

from __future__ import annotations

from collections.abc import Iterable

from yarnam.core.gang.policy import GangPolicy, RolePolicy
from yarnam.core.gang.state import Member
from yarnam.core.model.ids import CHIEF_ROLE
from yarnam.core.model.job_spec import CompletionRule, EarlyExit

Members = Iterable[Member]


def is_complete(members: Members, policy: GangPolicy) -> bool:
    """Whether every role that has to end meets its completion rule."""
    if not policy.rules:
        return all(member.is_ok for member in members)
    members = tuple(members)
    return all(
        _is_role_complete(own, policy.rules_of(role), members)
        for role, own in _by_role(members).items()
        if has_to_end(role, members, policy)
    )


def has_to_end(role: str, members: Members, policy: GangPolicy) -> bool:
    """Whether the gang is not complete without this role."""
    rules = policy.rules_of(role)
    if rules.completion.waits_for_all:
        return not rules.is_service
    return not (rules.is_service or _follows_chief(role, rules, members))


def is_tolerable(member: Member, members: Members, policy: GangPolicy) -> bool:
    """Whether the gang continues without this one, which has failed or is lost."""
    role = member.target.role
    rules = policy.rules_of(role)
    if rules.is_optional:
        return True
    if rules.is_service or rules.completion.rule is CompletionRule.ALL:
        return False
    members = tuple(members)
    if _follows_chief(role, rules, members):
        return True
    if rules.completion.rule is CompletionRule.CHIEF:
        return not _is_first(member)
    return sum(one.is_ok or not one.has_ended for one in members if _is_of(one, role)) >= (
        _least(rules)
    )


def is_early_exit(member: Member, members: Members, policy: GangPolicy) -> bool:
    """Whether a service has ended well that must run until the others are complete."""
    rules = policy.rules_of(member.target.role)
    is_wrong = rules.early_exit is EarlyExit.FAIL and not rules.is_optional
    return member.is_ok and rules.is_service and is_wrong and not is_complete(members, policy)


def is_optional(member: Member, policy: GangPolicy) -> bool:
    """Whether it may fail, however many others have."""
    return policy.rules_of(member.target.role).is_optional


def _is_role_complete(own: list[Member], rules: RolePolicy, members: Members) -> bool:
    rule = rules.completion.rule
    have_ended = all(member.has_ended for member in own)
    if rules.completion.waits_for_all and not have_ended:
        return False
    if rule is CompletionRule.ALL:
        is_met = all(member.is_ok for member in own)
    elif rule is CompletionRule.CHIEF:
        # That of a role ``chief`` is waited for as a role of its own.
        is_met = _follows_chief(own[0].target.role, rules, members) or any(
            member.is_ok and _is_first(member) for member in own
        )
    else:
        is_met = sum(member.is_ok for member in own) >= _least(rules)
    return is_met or (rules.is_optional and have_ended)


def _least(rules: RolePolicy) -> int:
    is_any = rules.completion.rule is CompletionRule.ANY
    return 1 if is_any else rules.completion.at_least


def _follows_chief(role: str, rules: RolePolicy, members: Members) -> bool:
    """Whether the role ``chief`` decides about this one."""
    is_by_chief = rules.completion.rule is CompletionRule.CHIEF and role != CHIEF_ROLE
    return is_by_chief and any(_is_of(member, CHIEF_ROLE) for member in members)


def _is_first(member: Member) -> bool:
    return member.task is not None and member.task.index == 0


def _is_of(member: Member, role: str) -> bool:
    return member.target.role == role


def _by_role(members: Members) -> dict[str, list[Member]]:
    found: dict[str, list[Member]] = {}
    for member in members:
        found.setdefault(member.target.role, []).append(member)
    return found
