"""Hadoop's access control lists."""

from __future__ import annotations

from collections.abc import Collection

EVERYBODY = "*"


def is_in(acl: str, user: str, groups: Collection[str]) -> bool:
    """Whether an access control list of Hadoop's, ``users groups``, has this user."""
    if acl.strip() == EVERYBODY:
        return True
    users, _, names = acl.partition(" ")
    return user in _names(users) or not _names(names).isdisjoint(groups)


def _names(text: str) -> frozenset[str]:
    return frozenset(filter(None, (name.strip() for name in text.split(","))))
