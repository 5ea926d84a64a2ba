"""Whether a user administers a queue, as the site's own settings have it."""

from __future__ import annotations

from yarnam.adapters.http_identity import groups_of
from yarnam.client.site import Site
from yarnam.core.queues.access_lists import EVERYBODY, is_in
from yarnam.errors import NoPermission, YarnamError

CLUSTER_ADMINS = "yarn.admin.acl"


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


def _cluster_admins(site: Site) -> str | None:
    """``None`` means the ResourceManager does not show its settings to this user."""
    try:
        return site.rm.settings().get(CLUSTER_ADMINS, EVERYBODY)
    except YarnamError:
        return None
