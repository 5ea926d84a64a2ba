"""Who asks, as the web servers of Hadoop's daemons want to know it."""

from __future__ import annotations

import grp
import os
import pwd
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from hdfs_utils.config import delegation_tokens, site_authority
from hdfs_utils.protocols import gssapi
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.errors import NotThroughGateway
from yarnam.wire.http_request import MAX_REPLY_BYTES, HttpError, HttpReply, request

if TYPE_CHECKING:
    from hdfs_utils.config.gateway import Gateway

_TOKEN_HEADER = "X-Hadoop-Delegation-Token"  # noqa: S105 - a name
"""DelegationTokenAuthenticator.DELEGATION_TOKEN_HEADER."""

_RM_API = "/ws/v1/cluster/"
"""All that a gateway passes on to the ResourceManager (Knox's service RESOURCEMANAGER)."""

_MOST_SERVERS = 4
"""One after the other, for one page: a ResourceManager that stands by, the active one, a proxy, the
ApplicationMaster."""


@dataclass(frozen=True)
class HttpIdentity:
    """The identity at one site.

    Attributes:
        user: sent as ``user.name``, which simple authentication believes; empty means nobody.
        is_kerberos: the site authenticates: a delegation token of the container, else SPNEGO.
        conf_dir: of Hadoop's configuration, which names the site's authority for https.
        gateway: asks the daemons for us, and states who we are; without one we ask them ourselves.
    """

    user: str = ""
    is_kerberos: bool = False
    conf_dir: str = ""
    gateway: Gateway | None = None

    @property
    def is_simple(self) -> bool:
        """Whether daemons believe the name in a request."""
        return not self.is_kerberos and self.gateway is None

    def query(self) -> dict[str, str]:
        """The query parameters that carry the identity."""
        return {"user.name": self.user} if self.user and self.is_simple else {}

    def way_to(self, url: str) -> str:
        """Where this URL of a daemon is asked. Raises NotThroughGateway: nowhere."""
        if self.gateway is None:
            return url
        parts = urlsplit(url)
        if not parts.path.startswith(_RM_API):
            raise NotThroughGateway(
                f"{parts.netloc} cannot be reached through the gateway {self.gateway.url}",
                hint="Run the command inside the cluster, for example on an edge node.",
            )
        return f"{self.gateway.url}/resourcemanager{parts.path.removeprefix('/ws')}"

    def rm_headers(self, url: str) -> Mapping[str, str]:
        """For the ResourceManager, which takes its delegation tokens too. Good for one request.
        Raises NoPermission, BadConfig."""
        if self.gateway is not None or not self.is_kerberos:
            return self.headers(url)
        with hdfs_errors("reading the container's delegation tokens"):
            for token in delegation_tokens.load():
                if token.kind == delegation_tokens.RM_KIND:
                    return {_TOKEN_HEADER: token.for_url()}
        return self.headers(url)

    def headers(self, url: str) -> Mapping[str, str]:
        """For any other daemon: SPNEGO; or for the gateway. Good for one request. Raises
        NoPermission, BadConfig."""
        if self.gateway is not None:
            with hdfs_errors("signing in to the gateway"):
                return self.gateway.headers() if self.gateway.owns(url) else {}
        if not self.is_kerberos:
            return {}
        with hdfs_errors(f"asking for a ticket for {urlsplit(url).hostname}"):
            return {"Authorization": gssapi.negotiate_header(urlsplit(url).hostname or "")}

    def get(self, url: str, *, timeout_s: float, max_bytes: int = MAX_REPLY_BYTES) -> HttpReply:
        """A page of a daemon; ``url`` without a query. ``timeout_s`` is for the connection, and
        between bytes. Each server that it is sent to has a ticket of its own, and none asks for one
        over http that was asked over https. Raises HttpError, NoPermission, BadConfig."""
        query = urlencode(self.query())
        way = self.way_to(url)
        asked = f"{way}?{query}" if query else way
        for left in reversed(range(_MOST_SERVERS)):
            try:
                return request(
                    asked,
                    timeout_s=timeout_s,
                    tls=self.tls if asked.startswith("https:") else None,
                    max_bytes=max_bytes,
                    who=self.headers(asked),
                )
            except HttpError as error:
                if not (error.location and left) or self.gateway is not None:
                    raise
                asked = error.location
        raise AssertionError("the last one answers or raises")

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """Checks https. Raises BadConfig."""
        with hdfs_errors("reading the site's certificate authority"):
            return site_authority.tls_context(self.conf_dir or None)


def groups_of(user: str) -> frozenset[str]:
    """On this machine, which may know others than the ResourceManager's."""
    found: set[str] = set()
    with suppress(KeyError, OSError):
        for number in os.getgrouplist(user, pwd.getpwnam(user).pw_gid):
            with suppress(KeyError):
                found.add(grp.getgrgid(number).gr_name)
    return frozenset(found)
