"""HTTP to Hadoop's daemons, never through a proxy: they are inside."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException
from typing import Any


class HttpError(OSError):
    """A request failed. ``status`` is HTTP's, 0 where there was no answer; ``body`` what came with
    it."""

    def __init__(self, message: str, status: int = 0, body: bytes = b"") -> None:
        super().__init__(message)
        self.status = status
        self.body = body


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A daemon's answer with a status below 400."""

    body: bytes
    headers: Message

    def json(self) -> dict[str, Any]:
        """The body as a JSON object; an empty one is empty. Raises HttpError."""
        try:
            found = json.loads(self.body or b"{}")
        except ValueError as error:
            raise HttpError(f"not JSON: {self.body[:80]!r}") from error
        if not isinstance(found, dict):
            raise HttpError(f"not a JSON object: {self.body[:80]!r}")
        return found


def request(
    url: str,
    *,
    method: str = "GET",
    body: Mapping[str, Any] | None = None,
    timeout_s: float,
    tls: ssl.SSLContext | None = None,
) -> HttpReply:
    """Send one request, with ``body`` as JSON. ``timeout_s`` is for the connection, and between
    bytes. ``tls``: default, this machine's certificates. Raises HttpError."""
    headers = {"Accept": "application/json"}
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if url.startswith("https:"):
        handlers.append(urllib.request.HTTPSHandler(context=tls or ssl.create_default_context()))
    opener = urllib.request.build_opener(*handlers)
    asked = urllib.request.Request(url, data=data, headers=headers, method=method)  # noqa: S310 - http(s) only, from the site's configuration
    try:
        with opener.open(asked, timeout=timeout_s) as reply:
            return HttpReply(reply.read(), reply.headers)
    except urllib.error.HTTPError as error:
        with error:
            content = error.read()
        message = f"HTTP {error.code}: {remote_message(content)}"
        raise HttpError(message, error.code, content) from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None)
        raise HttpError(f"{type(error).__name__}: {reason or error}") from error


def remote_message(body: bytes) -> str:
    """What Hadoop says in the body of an error: its ``RemoteException``, or the text as it is."""
    try:
        remote = json.loads(body).get("RemoteException", {})
        return str(remote.get("message") or remote)
    except (ValueError, AttributeError):
        return body[:200].decode(errors="replace").strip()
