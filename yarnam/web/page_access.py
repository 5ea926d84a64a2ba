"""Decides who may read a job's page, if YARN enforces ACLs on applications.

YARN's proxy names the reader in a cookie of its own, and passes none of the reader's on
(WebAppProxyServlet). So its word counts where only the proxy can connect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from urllib.parse import unquote_plus

from yarnam.core.queues.access_lists import is_in

PROXY_COOKIE = "proxy-user"
"""WebAppProxyServlet.PROXY_USER_COOKIE_NAME."""


@dataclass(frozen=True, slots=True)
class PageAccess:
    """``acls`` are Hadoop's: the job's own for viewing, and that of YARN's administrators.
    ``groups_of`` finds a user's groups."""

    owner: str
    acls: tuple[str, ...]
    groups_of: Callable[[str], Collection[str]]
    is_checked: bool
    """Whether YARN checks ACLs (``yarn.acl.enable``)."""

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
        # A lookup of groups may ask a directory service: only if the name alone is not enough.
        if user == self.owner or any(is_in(acl, user, ()) for acl in self.acls):
            return ""
        groups = self.groups_of(user)
        if any(is_in(acl, user, groups) for acl in self.acls):
            return ""
        return f"{user} may not see this job: its owner can add you by acls.view of the spec"


def proxy_user(cookie: str) -> str:
    """The user whom YARN's proxy names in a Cookie header; empty if it names none."""
    for part in cookie.split(";"):
        name, _, value = part.strip().partition("=")
        if name == PROXY_COOKIE:
            return unquote_plus(value.strip('"'))
    return ""
