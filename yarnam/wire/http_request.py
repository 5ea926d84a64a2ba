"""HTTP to Hadoop's daemons, never through a proxy: they are inside."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import Message
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPMessage,
    HTTPResponse,
    HTTPSConnection,
)
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import Readable, decode_record, decompress, read_at_most
from yarnam.wire.exchange_deadline import ExchangeDeadline

C = TypeVar("C", bound=HTTPConnection)

MAX_REPLY_BYTES = 64 << 20
"""The nodes of a cluster of 10,000 are some 12 MB."""
MAX_ERROR_BYTES = 1 << 20
"""The most bytes of an error's page: Hadoop puts a stack trace into it."""
WHOLE = 6
"""A whole exchange may take this many times as long as the wait for one byte."""
_ACCEPT = "application/json, */*;q=0.5"
"""Prefer JSON. NodeManagers answer 503 for a log, which is text, if only JSON is accepted."""
_MAX_DEPTH = 200
"""The depth limit of the scheduler's nested queues: four levels of JSON for each."""


class HttpError(OSError):
    """A request failed. ``status`` is HTTP's, 0 where there was no answer; ``body`` what came with
    it; ``location`` another server that it was sent to, empty: none."""

    def __init__(
        self, message: str, status: int = 0, body: bytes = b"", location: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = body
        self.location = location


class _Elsewhere(urllib.error.HTTPError):
    """A redirection to another server."""

    location = ""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects, but with credentials only to the same server: a ticket is useless at
    another one, and a redirection elsewhere would reveal a token. Never from https to http."""

    def __init__(self, *, has_credentials: bool, follows: bool) -> None:
        self._has_credentials = has_credentials
        self._follows = follows

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        old, new = _server(req.full_url), _server(newurl)
        if not self._follows or (old.startswith("https:") and not new.startswith("https:")):
            return None
        if old == new or not self._has_credentials:
            return super().redirect_request(req, fp, code, msg, headers, newurl)
        elsewhere = _Elsewhere(req.full_url, code, msg, headers, fp)
        elsewhere.location = newurl
        raise elsewhere


class _Limited(urllib.request.HTTPHandler):
    """Opens its connections through a deadline."""

    def __init__(self, deadline: ExchangeDeadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_limited(HTTPConnection, self._deadline), req)


class _LimitedTls(urllib.request.HTTPSHandler):
    """The same for https."""

    def __init__(self, deadline: ExchangeDeadline, tls: ssl.SSLContext) -> None:
        super().__init__(context=tls)
        self._deadline = deadline
        self._tls = tls

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_limited(HTTPSConnection, self._deadline), req, context=self._tls)


def _limited(kind: type[C], deadline: ExchangeDeadline) -> Callable[..., C]:
    def made(*arguments: Any, **named: Any) -> C:
        connection = kind(*arguments, **named)
        connection._create_connection = deadline.connect  # type: ignore[attr-defined]  # noqa: SLF001 - the one place where http.client opens its socket
        return connection

    return made


def _server(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A daemon's answer with a status below 400."""

    body: bytes
    headers: Message

    def json(self) -> dict[str, Any]:
        """The body as a JSON object; an empty one is empty. Raises HttpError."""
        try:
            return decode_record(
                self.body or b"{}",
                max_bytes=MAX_REPLY_BYTES,
                max_depth=_MAX_DEPTH,
                # Hadoop writes a map as {"entry": …, "entry": …}, and a division by zero as NaN.
                is_lenient=True,
            ).plain
        except MalformedData as error:
            raise HttpError(error.message) from error


def request(
    url: str,
    *,
    method: str = "GET",
    body: Mapping[str, Any] | None = None,
    timeout_s: float,
    tls: ssl.SSLContext | None = None,
    max_bytes: int = MAX_REPLY_BYTES,
    who: Mapping[str, str] | None = None,
    limit_s: float | None = None,
    follows: bool = True,
) -> HttpReply:
    """Send one request, with ``body`` as JSON. The headers ``who`` authenticate the caller, and go
    to no other server. ``timeout_s`` is for the connection, and between bytes; ``limit_s`` for the
    whole exchange, by default ``WHOLE`` times as long. ``tls`` defaults to this machine's
    certificates. With ``follows`` false, a redirection is an error. Raises HttpError, also for a
    reply of more than ``max_bytes``."""
    # Hadoop compresses the replies of YARN's daemons (Jersey's GZIPContentEncodingFilter in
    # WebApp): the report of a thousand nodes shrinks to a thirtieth.
    headers = {"Accept": _ACCEPT, "Accept-Encoding": "gzip", **(who or {})}
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    asked = urllib.request.Request(url, data=data, headers=headers, method=method)  # noqa: S310 - http(s) only, from the site's configuration
    redirects = _Redirects(has_credentials=bool(who), follows=follows)
    with ExchangeDeadline(WHOLE * timeout_s if limit_s is None else limit_s) as deadline:
        handlers = [urllib.request.ProxyHandler({}), _Limited(deadline), redirects]
        if tls is not None or url.startswith("https:"):
            handlers.append(_LimitedTls(deadline, tls or ssl.create_default_context()))
        try:
            opener = urllib.request.build_opener(*handlers)
            reply = _exchanged(opener, asked, timeout_s, max_bytes)
        except HttpError as error:
            if not deadline.is_over:
                raise
            raise HttpError(f"no whole answer within {deadline.seconds:g} s") from error
        if deadline.is_over:  # The end of the connection may look like the end of the answer.
            raise HttpError(f"no whole answer within {deadline.seconds:g} s")
        return reply


def _exchanged(
    opener: urllib.request.OpenerDirector,
    asked: urllib.request.Request,
    timeout_s: float,
    max_bytes: int,
) -> HttpReply:
    """Raises HttpError."""
    try:
        with opener.open(asked, timeout=timeout_s) as reply:
            return HttpReply(_unpacked(reply, reply.headers, max_bytes), reply.headers)
    except _Elsewhere as error:
        error.close()
        message = f"HTTP {error.code}: sent to {_server(error.location)}"
        raise HttpError(message, error.code, location=error.location) from error
    except urllib.error.HTTPError as error:
        with error:
            content = _error_page(error)
        message = f"HTTP {error.code}: {remote_message(content)}"
        raise HttpError(message, error.code, content) from error
    except MalformedData as error:
        raise HttpError(f"the reply is {error.message}") from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None)
        raise HttpError(f"{type(error).__name__}: {reason or error}") from error


def _unpacked(reply: Readable, headers: Message, max_bytes: int) -> bytes:
    """Raises MalformedData."""
    data = read_at_most(reply, max_bytes)
    if headers.get("Content-Encoding", "").lower() != "gzip":
        return data
    return decompress(data, max_bytes=max_bytes)


def _error_page(error: urllib.error.HTTPError) -> bytes:
    """Empty if it cannot be read: the status is enough."""
    try:
        return _unpacked(error, error.headers, MAX_ERROR_BYTES)
    except MalformedData:
        return b""


def remote_message(body: bytes) -> str:
    """Hadoop's message in the body of an error: its ``RemoteException``, or the text as it is."""
    try:
        reply = decode_record(body, max_bytes=MAX_ERROR_BYTES, is_lenient=True)
        return reply.record("RemoteException").text("message", max_length=MAX_ERROR_BYTES)
    except MalformedData:
        return body[:200].decode(errors="replace").strip()
