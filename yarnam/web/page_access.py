"""Who may read a job's page, where YARN checks who may see an application.

YARN's proxy names the reader in a cookie of its own, and passes none of the reader's on
(WebAppProxyServlet). So its word counts where only the proxy can connect.
"""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from urllib.parse import unquote_plus

PROXY_COOKIE = "proxy-user"
"""WebAppProxyServlet.PROXY_USER_COOKIE_NAME."""


def groups_on_node(user: str) -> frozenset[str]:
    """The groups of a user on this node, as Hadoop's default mapping finds them on its own."""
    try:
        ids = os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
        return frozenset(grp.getgrgid(one).gr_name for one in ids)
    except (KeyError, OSError):
        return frozenset()


@dataclass(frozen=True, slots=True)
class PageAccess:
    """``acls`` are Hadoop's: the job's own for viewing, and that of YARN's administrators."""

    owner: str
    acls: tuple[str, ...] = ()
    is_checked: bool = False
    """Whether YARN checks ACLs (``yarn.acl.enable``)."""
    groups_of: Callable[[str], Collection[str]] = field(default=groups_on_node)

    def refusal(self, cookie: str) -> str:
        """Why this reader may not see the page; empty if it may."""
        if not self.is_checked:
            return ""
        user = proxy_user(cookie)
        if not user:
            return (
                "YARN's proxy did not say who you are. Where YARN's web pages do not authenticate "
                "their readers (hadoop.http.authentication.type), use: yarnam status"
            )
        if user == self.owner or any(self._has(acl, user) for acl in self.acls):
            return ""
        return f"{user} may not see this job: its owner can add you by acls.view of the spec"

    def _has(self, acl: str, user: str) -> bool:
        if acl.strip() == "*":
            return True
        users, _, groups = acl.partition(" ")
        if user in _names(users):
            return True
        return bool(groups.strip()) and not _names(groups).isdisjoint(self.groups_of(user))


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def proxy_user(cookie: str) -> str:
    """The user whom YARN's proxy names in a Cookie header; empty if it names none."""
    for part in cookie.split(";"):
        name, _, value = part.strip().partition("=")
        if name == PROXY_COOKIE:
            return unquote_plus(value.strip('"'))
    return ""
