"""One HTTP request, by Python's own server."""

from __future__ import annotations

import http.server
import io
import logging
import re
import socket
import time
from email.message import Message
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from yarnam.web.http.http_messages import Request, Respond, Response, text_response

log = logging.getLogger("yarnam.web")

LIMIT_S = 10.0
"""The time limit for a silent or slow peer: until its whole request is there, and for the
answer."""
MAX_HEAD_BYTES = 64 * 1024
_READ_BYTES = 8 * 1024
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
MAX_FIELDS = 20
"""The most fields of a query."""
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def handle(connection: socket.socket, peer: tuple[str, int], respond: Respond) -> None:
    """Answer one request; the caller closes the connection. Raises OSError when the peer goes."""
    head = _head(connection)
    connection.settimeout(LIMIT_S)

    class Handler(_Handler):
        def setup(self) -> None:
            super().setup()
            self.rfile = io.BufferedReader(io.BytesIO(head))

        def made(self) -> Response:
            return respond(_request(self.path, self.headers))

    # It wants a server only to hand it on to us.
    Handler(connection, peer, cast("Any", None))


def _head(connection: socket.socket) -> bytes:
    """The request with its headers. One deadline holds for all of it, however the peer spreads its
    bytes. Raises OSError."""
    deadline = time.monotonic() + LIMIT_S
    head = b""
    while not _END_OF_HEAD.search(head) and len(head) < MAX_HEAD_BYTES:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"no whole request within {LIMIT_S:g} s")
        connection.settimeout(left_s)
        more = connection.recv(_READ_BYTES)
        if not more:
            break
        head += more
    if not _END_OF_HEAD.search(head):
        raise ConnectionError(f"no whole request in {len(head)} bytes")
    return head


def _request(target: str, headers: Message) -> Request:
    found = urlsplit(target)
    fields = parse_qsl(found.query, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    return Request(
        unquote(found.path), dict(fields), headers.get("Host", ""), headers.get("Cookie", "")
    )


class _Handler(http.server.BaseHTTPRequestHandler):
    server_version = "yarnam"
    sys_version = ""

    def made(self) -> Response:
        raise NotImplementedError

    def do_GET(self) -> None:
        self._send(is_whole=True)

    def do_HEAD(self) -> None:
        self._send(is_whole=False)

    def _send(self, *, is_whole: bool) -> None:
        try:
            response = self.made()
        except ValueError as error:  # of the query: too many fields, or no UTF-8
            log.debug("a bad request: %s", error)
            response = text_response(HTTPStatus.BAD_REQUEST, "bad request")
        except Exception:
            log.exception("a page could not be made")
            response = text_response(
                HTTPStatus.INTERNAL_SERVER_ERROR, "This page could not be made; see the log."
            )
        self.send_response(response.status)
        self.send_header("Content-Type", response.kind)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("Content-Security-Policy", response.policy or NOTHING)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        if response.location:
            self.send_header("Location", response.location)
        if response.cookie:
            self.send_header("Set-Cookie", response.cookie)
        self.end_headers()
        if is_whole:
            self.wfile.write(response.body)

    def log_message(self, format: str, *values: Any) -> None:  # noqa: A002
        log.debug("%s %s", self.address_string(), format % values)
