"""Whether a user administers a queue, as the site's own settings have it."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Collection
from contextlib import suppress

from yarnam.client.site import Site
from yarnam.errors import NoPermission, YarnamError

CLUSTER_ADMINS = "yarn.admin.acl"
EVERYBODY = "*"


def must_administer(site: Site, queue: str) -> None:
    """Raises NoPermission if the ResourceManager reports that this user does not administer the
    queue, and ``yarn.admin.acl`` does not name him. Where it does not report this (before 3.1),
    nobody is refused; neither is anybody where the site has no such lists, since all are
    administrators then. The check does not lock anything: ZooKeeper's lists do."""
    if site.rm.administers(queue, site.user) is not False:
        return
    admins = _cluster_admins(site)
    if admins is not None and is_in(admins, site.user, groups_of(site.user)):
        return
    shown = "which it does not show" if admins is None else f"now {admins[:200].strip()!a}"
    raise NoPermission(
        f"{site.user} does not administer {queue}: the ResourceManager says so",
        hint="Those who do are in aclAdministerApps of the queue or of one above it (Fair "
        f"Scheduler), acl_administer_queue (Capacity Scheduler), or {CLUSTER_ADMINS} ({shown}).",
    )


def is_in(acl: str, user: str, groups: Collection[str]) -> bool:
    """Whether an access control list of Hadoop's, ``users groups``, has this user."""
    if acl.strip() == EVERYBODY:
        return True
    users, _, names = acl.partition(" ")
    return user in _names(users) or not _names(names).isdisjoint(groups)


def groups_of(user: str) -> frozenset[str]:
    """On this machine, which may know others than the ResourceManager's."""
    found: set[str] = set()
    with suppress(KeyError, OSError):
        for number in os.getgrouplist(user, pwd.getpwnam(user).pw_gid):
            with suppress(KeyError):
                found.add(grp.getgrgid(number).gr_name)
    return frozenset(found)


def _names(text: str) -> frozenset[str]:
    return frozenset(filter(None, (name.strip() for name in text.split(","))))


def _cluster_admins(site: Site) -> str | None:
    """``None`` means the ResourceManager does not show its settings to this user."""
    try:
        return site.rm.settings().get(CLUSTER_ADMINS, EVERYBODY)
    except YarnamError:
        return None
