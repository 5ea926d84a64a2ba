"""The requests and responses of a page server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

HTML = "text/html; charset=utf-8"
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"

Address = tuple[str, int]
"""One end of a connection."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request. ``query`` has the last value of each name."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    host: str = ""
    """The Host header: the name by which the reader has reached this server."""
    cookie: str = field(default="", repr=False)
    """The Cookie header."""


@dataclass(frozen=True, slots=True)
class Response:
    """The response. ``policy`` is its Content-Security-Policy; if empty, nothing may be loaded."""

    body: bytes
    kind: str = HTML
    status: int = 200
    policy: str = ""
    location: str = ""
    """The target of a redirect."""
    cookie: str = field(default="", repr=False)
    """The cookie for the browser to keep, with its attributes."""


def text_response(status: int, text: str) -> Response:
    """A refusal in one line."""
    return Response(f"{text}\n".encode(), TEXT, status)


Respond = Callable[[Request], Response]
