"""One HTTP request, by Python's own server."""

from __future__ import annotations

import http.server
import logging
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from yarnam.web.http.http_messages import Request, Respond, Response, text_response

log = logging.getLogger("yarnam.web")

LIMIT_S = 10.0
"""For a silent peer, at each read and write."""
MAX_FIELDS = 20
"""Of a query."""
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def handle(
    connection: socket.socket,
    peer: tuple[str, int],
    respond: Respond,
    is_allowed: Callable[[str, int], bool],
) -> None:
    """Answer one request; the caller closes the connection. Raises OSError when the peer goes."""
    connection.settimeout(LIMIT_S)

    class Handler(_Handler):
        def made(self) -> Response:
            if not is_allowed(*peer):
                return text_response(
                    HTTPStatus.FORBIDDEN,
                    "This page is read through YARN's proxy: open the job's tracking URL.",
                )
            return respond(_request(self.path, self.headers.get("Host", "")))

    # It wants a server only to hand it on to us.
    Handler(connection, peer, cast("Any", None))


def _request(target: str, host: str) -> Request:
    found = urlsplit(target)
    fields = parse_qsl(found.query, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    return Request(unquote(found.path), dict(fields), host)


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
        self.end_headers()
        if is_whole:
            self.wfile.write(response.body)

    def log_message(self, format: str, *values: Any) -> None:  # noqa: A002
        log.debug("%s %s", self.address_string(), format % values)
