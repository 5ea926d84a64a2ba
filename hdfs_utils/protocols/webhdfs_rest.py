"""HDFS's REST interface (WebHDFS, HttpFS): one request at a time, with keep-alive and redirects.

The ``webhdfs`` back-end is built on it, and the native one asks it what its own client cannot. Why
not the package ``hdfs``: docs/adr/0024-webhdfs-transport.md.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import ssl
import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from hdfs_utils.config import delegation_tokens
from hdfs_utils.config.delegation_tokens import DelegationToken
from hdfs_utils.errors import (
    BadConfig,
    HdfsError,
    MalformedData,
    NotAuthenticated,
    NotSupported,
    PermissionDenied,
    Unavailable,
)
from hdfs_utils.filesystem import BlockLocation, FileChecksum, FreeSpace
from hdfs_utils.protocols.java_errors import from_java
from hdfs_utils.protocols.untrusted import Record, decode_record, read_at_most

if TYPE_CHECKING:
    from hdfs_utils.config.gateway import Gateway

T = TypeVar("T")

# Of an answer that is not a file's content. HDFS allows 1,048,576 entries in a directory, of some
# 300 bytes each with short names.
MAX_ANSWER_BYTES = 512 << 20
# An error's page has a stack trace.
_MAX_ERROR_BYTES = 1 << 20
_MAX_LISTED = 1 << 24
_HEX = re.compile("[0-9a-fA-F]{8,}")
# A request for a file's bytes is redirected to one DataNode; more hops would be a loop.
_MAX_REDIRECTS = 3
_REDIRECTS = (301, 302, 307, 308)
_BODY = {"Content-Type": "application/octet-stream"}
# Idle connections to DataNodes, all DataNodes together: a cluster may have thousands of them. Their
# far ends close after a minute (hadoop.http.idle_timeout.ms) or less, and ours would stay.
MAX_IDLE_REDIRECTED = 16
MAX_IDLE_REDIRECTED_S = 30.0


class WebHdfsClient:
    """Asks the first NameNode that answers and is active. Safe to share between threads.

    Args:
        addresses: ``http://host:port`` (or https) of the NameNodes or of an HttpFS.
        user: name sent with each question (simple authentication only).
        timeout_s: limit of each wait for the network, in seconds.
        doas: act for this user; the site has to allow ``user`` to.
        token: a delegation token, sent in place of a name; empty: SPNEGO. Asked for at each
            request, because its file is replaced before the token ends. None: the site has simple
            authentication.
        tls: checks the certificates of https; by default against what this machine trusts.
        gateway: all requests go through it, and it says who asks; ``addresses`` is its URL.
    """

    def __init__(
        self,
        addresses: tuple[str, ...],
        user: str,
        timeout_s: float,
        *,
        doas: str = "",
        token: Callable[[], str] | None = None,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        gateway: Gateway | None = None,
    ) -> None:
        self._gateway = gateway
        self._addresses = tuple(a if "://" in a else f"http://{a}" for a in addresses)
        self._timeout_s = timeout_s
        self._user = user
        self._doas = doas
        self._token = token
        self._tls = tls
        self._idle = IdleConnections({_origin(address) for address in self._addresses})

    def block_locations(self, path: str) -> tuple[BlockLocation, ...]:
        return self.ask(_locations, "GET", "GETFILEBLOCKLOCATIONS", path)

    def checksum(self, path: str) -> FileChecksum:
        return self.ask(_checksum, "GET", "GETFILECHECKSUM", path)

    def free_space(self) -> FreeSpace:
        return self.ask(_free_space, "GET", "GETSTATUS", "/")

    def concat(self, target: str, sources: list[str]) -> None:
        self.request("POST", "CONCAT", target, sources=",".join(sources))

    def read(self, path: str, offset: int, length: int | None = None) -> bytes:
        """The bytes of a file from ``offset`` on, those of its open block included."""
        wanted = {} if length is None else {"length": str(length)}
        return self.request("GET", "OPEN", path, offset=str(offset), **wanted)

    def delegation_token(self, renewer: str) -> DelegationToken:
        """A new token, which ``renewer`` (a short name, or a principal) may renew. Takes a
        ticket: there is none for another token.

        Raises:
            HdfsError: what the server said.
        """
        return self.ask(_token, "GET", "GETDELEGATIONTOKEN", "/", renewer=renewer)

    def renew_delegation_token(self, token: DelegationToken) -> float:
        """Until when it lives now, in seconds since 1970. Takes the ticket of its renewer.

        Raises:
            HdfsError: what the server said.
        """
        arguments = {"token": token.for_url()}
        return self.ask(_expiry_s, "PUT", "RENEWDELEGATIONTOKEN", "/", **arguments)

    def ask(
        self, read: Callable[[Record], T], verb: str, operation: str, path: str, **arguments: str
    ) -> T:
        """What ``read`` makes of the JSON that answers a request.

        Raises:
            HdfsError: what the server said; Unavailable where none answered, or made no sense.
        """
        body = self.request(verb, operation, path, **arguments)
        try:
            return read(decode_record(body, max_bytes=MAX_ANSWER_BYTES, is_lenient=True))
        except MalformedData as error:
            # Not of the file: whoever takes it for corrupt data would accuse the file.
            message = f"the server's answer makes no sense: {error.message}"
            raise Unavailable(message, path=path, operation=operation.lower()) from error

    def request(self, verb: str, operation: str, path: str, **arguments: str) -> bytes:
        """The body of the answer.

        Raises:
            HdfsError: what the server said; Unavailable where none answered.
        """
        failure: HdfsError = NotSupported("no HTTP address to ask", path=path, operation=operation)
        for address in self._addresses:
            try:
                return self._follow(verb, self.url(address, operation, path, arguments), path)
            except Unavailable as error:
                failure = error
                if error.outcome_unknown:
                    break
        failure.operation = operation.lower()
        raise failure

    def url(self, address: str, operation: str, path: str, arguments: dict[str, str]) -> str:
        query = urlencode({"op": operation, **self._identity(), **arguments})
        return f"{address}/webhdfs/v1{quote(path)}?{query}"

    def _identity(self) -> dict[str, str]:
        who = {"doas": self._doas} if self._doas else {}
        if self._gateway is not None:
            return who
        if self._token is None:
            return {"user.name": self._user, **who}
        token = self._token()
        return {"delegation": token, **who} if token else who

    def _headers(self, base: str, query: str) -> dict[str, str]:
        """The headers that authenticate to the gateway, or by SPNEGO. A redirect's address
        contains a token."""
        if self._gateway is not None:
            return self._gateway.headers() if self._gateway.owns(base) else {}
        has_token = re.search("(^|&)delegation=", query) is not None
        if self._token is None or has_token or base not in self._addresses:
            return {}
        from hdfs_utils.protocols.gssapi import negotiate_header

        return {"Authorization": negotiate_header(urlsplit(base).hostname or "")}

    def _follow(self, verb: str, url: str, path: str) -> bytes:
        for _ in range(_MAX_REDIRECTS + 1):
            status, location, body = self._once(verb, url, path)
            if status in (200, 201):
                return body
            if status not in _REDIRECTS:
                raise self._error(status, body, path)
            url = self._redirected(url, location, path)
        raise Unavailable("too many redirects", path=path)

    def _once(self, verb: str, url: str, path: str) -> tuple[int, str, bytes]:
        parts, base = urlsplit(url), _origin(url)
        while True:
            # A ticket is good for one request: the server takes the same one for a replay.
            headers = self._headers(base, parts.query)
            connection, is_fresh = self._take(base)
            try:
                connection.request(verb, f"{parts.path}?{parts.query}", headers=headers)
                response = connection.getresponse()
                body = read_at_most(response, MAX_ANSWER_BYTES)
            except MalformedData as error:
                connection.close()
                raise Unavailable(f"the answer of {base} is {error.message}", path=path) from error
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if not is_fresh and isinstance(
                    error, (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)
                ):
                    continue  # an idle connection that the server had closed
                sent = is_fresh and not isinstance(error, ConnectionRefusedError)
                text = f"no answer from {base}: {error}"
                unknown = sent and verb != "GET"
                raise Unavailable(text, path=path, outcome_unknown=unknown) from error
            if response.will_close:
                connection.close()
            else:
                self._idle.give(base, connection)
            return response.status, response.headers.get("Location", ""), body

    def _take(self, base: str) -> tuple[http.client.HTTPConnection, bool]:
        idle = self._idle.take(base)
        return (self.connect(base), True) if idle is None else (idle, False)

    def connect(self, base: str) -> http.client.HTTPConnection:
        """A connection of one's own to ``scheme://host:port``."""
        parts = urlsplit(base)
        if parts.scheme == "https":
            return http.client.HTTPSConnection(
                parts.netloc, timeout=self._timeout_s, context=self._tls()
            )
        return http.client.HTTPConnection(parts.netloc, timeout=self._timeout_s)

    def open_upload(
        self, verb: str, operation: str, path: str, **arguments: str
    ) -> http.client.HTTPConnection:
        """A connection to a DataNode that takes the body, chunk by chunk (:func:`send_chunk`)."""
        failure: HdfsError = NotSupported("no HTTP address to ask", path=path, operation=operation)
        for address in self._addresses:
            url = self.url(address, operation, path, arguments)
            try:
                status, location, body = self._once(verb, url, path)
            except Unavailable as error:
                failure = error
                continue
            if status not in _REDIRECTS:
                failure = self._error(status, body, path)
                failure.operation = operation.lower()
                if isinstance(failure, Unavailable):
                    continue
                raise failure
            return self._begin(verb, self._redirected(url, location, path), path, operation)
        raise failure

    def _redirected(self, url: str, location: str, path: str) -> str:
        """Where a redirect leads. Raises NotSupported: past the gateway, or out of https."""
        if self._gateway is not None and not self._gateway.owns(location):
            message = (
                f"the gateway {self._gateway.url} sends the client on to "
                f"{urlsplit(location).netloc or 'nowhere'} instead of through itself; its "
                "administrator has to see to the rewriting of WebHDFS's redirects"
            )
            raise NotSupported(message, path=path)
        return _redirected(url, location, path)

    def _error(self, status: int, body: bytes, path: str) -> HdfsError:
        """The error for an answer, of HDFS or of the gateway before it."""
        if self._gateway is not None and status == 401:
            message = (
                f"the gateway {self._gateway.url} does not accept the caller's identity (HTTP 401)"
            )
            return NotAuthenticated(message, path=path)
        if self._gateway is not None and status == 404 and b"RemoteException" not in body:
            message = f"the gateway {self._gateway.url} has no WebHDFS (HTTP 404); is it right?"
            return BadConfig(message, path=path)
        return remote_error(status, body, path)

    def _begin(self, verb: str, url: str, path: str, operation: str) -> http.client.HTTPConnection:
        parts, base = urlsplit(url), _origin(url)
        who = self._headers(base, parts.query) if self._gateway is not None else {}
        connection = self.connect(base)
        try:
            connection.putrequest(verb, f"{parts.path}?{parts.query}")
            connection.putheader("Transfer-Encoding", "chunked")
            for name, value in {**_BODY, **who}.items():
                connection.putheader(name, value)
            connection.endheaders()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            text = f"no answer from {parts.netloc}: {error}"
            raise Unavailable(text, path=path, operation=operation.lower()) from error
        return connection

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        self._idle.close()


class IdleConnections:
    """Keep-alive connections by origin (``scheme://host:port``). Safe to share between threads.

    Connections to the configured servers are kept: there are never more of them than there were
    requests at a time. Connections to the servers that a redirect has named are limited in number
    and age.
    """

    def __init__(
        self, configured: Collection[str], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._configured = configured
        self._now_s = now_s
        self._lock = threading.Lock()
        self._idle: list[tuple[str, float, http.client.HTTPConnection]] = []
        """With the time since when each is idle, oldest first."""

    def take(self, origin: str) -> http.client.HTTPConnection | None:
        """The connection that was in use last: the likeliest to be open still."""
        with self._lock:
            surplus = self._drop_surplus()
            found = next((each for each in reversed(self._idle) if each[0] == origin), None)
            if found is not None:
                self._idle.remove(found)
        _close_all(surplus)
        return found[2] if found is not None else None

    def give(self, origin: str, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            self._idle.append((origin, self._now_s(), connection))
            surplus = self._drop_surplus()
        _close_all(surplus)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        _close_all([connection for _, _, connection in idle])

    def _drop_surplus(self) -> list[http.client.HTTPConnection]:
        since_s = self._now_s() - MAX_IDLE_REDIRECTED_S
        redirected = [each for each in self._idle if each[0] not in self._configured]
        surplus = redirected[:-MAX_IDLE_REDIRECTED]
        surplus += [each for each in redirected[-MAX_IDLE_REDIRECTED:] if each[1] < since_s]
        for each in surplus:
            self._idle.remove(each)
        return [connection for _, _, connection in surplus]


def _close_all(connections: list[http.client.HTTPConnection]) -> None:
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.close()


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _redirected(url: str, location: str, path: str) -> str:
    """Where a redirect leads. Raises NotSupported: from https to where anybody can listen."""
    if url.startswith("https:") and not location.startswith("https:"):
        hosts = urlsplit(url).netloc, urlsplit(location).netloc
        message = (
            f"{hosts[0]} redirects from https to {hosts[1] or 'nowhere'} without encryption; "
            "dfs.http.policy has to be HTTPS_ONLY on the DataNodes too"
        )
        raise NotSupported(message, path=path)
    return location


def _locations(answer: Record) -> tuple[BlockLocation, ...]:
    blocks = answer.record("BlockLocations").records("BlockLocation", max_count=_MAX_LISTED)
    return tuple(
        BlockLocation(
            block.integer("offset"),
            block.integer("length"),
            block.texts("hosts", max_count=1000),
            block.flag("corrupt", default=False),
        )
        for block in blocks
    )


def _checksum(answer: Record) -> FileChecksum:
    found = answer.record("FileChecksum")
    return FileChecksum(found.text("algorithm"), found.text("bytes", pattern=_HEX))


def _free_space(answer: Record) -> FreeSpace:
    found = answer.record("FsStatus")
    return FreeSpace(found.integer("capacity"), found.integer("used"), found.integer("remaining"))


def _token(answer: Record) -> DelegationToken:
    return delegation_tokens.from_url(answer.record("Token").text("urlString", max_length=1 << 16))


def _expiry_s(answer: Record) -> float:
    return answer.integer("long") / 1000


def remote_error(status: int, body: bytes, path: str) -> HdfsError:
    """The error for an HTTP response."""
    try:
        reply = decode_record(body, max_bytes=_MAX_ERROR_BYTES, is_lenient=True)
        remote = reply.record("RemoteException")
        name = remote.text("exception")
        message = remote.text("message", max_length=_MAX_ERROR_BYTES, default="")
        java = remote.text("javaClassName", default=name)
    except MalformedData:
        if status == 401:  # the page of Hadoop's AuthenticationFilter
            text = "the server does not accept the caller's identity (HTTP 401)"
            hint = "with Kerberos it wants a ticket (kinit) of a realm that it trusts"
            return NotAuthenticated(f"{text}; {hint}", path=path)
        text = f"HTTP {status} without a RemoteException; is WebHDFS enabled?"
        kind: type[HdfsError] = NotSupported if status < 500 else Unavailable
        return kind(text, path=path)
    error = from_java(java, message, "", path)
    if type(error) is not HdfsError:
        return error
    if name in ("IllegalArgumentException", "UnsupportedOperationException"):
        # An operation that an older NameNode does not know.
        return NotSupported(error.message, path=path)
    if name == "SecurityException":
        return PermissionDenied(error.message, path=path)
    if name == "UnknownHostException":
        return BadConfig(error.message, path=path)
    return error
