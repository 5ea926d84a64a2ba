"""What a page server is asked, and what it sends back."""

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
    """What was asked for. ``query``: the last value of each name."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    host: str = ""
    """The header: the name by which the reader has reached this server."""
    cookie: str = field(default="", repr=False)
    """The header."""


@dataclass(frozen=True, slots=True)
class Response:
    """What is sent back. ``policy``: its Content-Security-Policy; empty means nothing may be
    loaded."""

    body: bytes
    kind: str = HTML
    status: int = 200
    policy: str = ""
    location: str = ""
    """Of a redirect."""
    cookie: str = field(default="", repr=False)
    """To be kept by the browser, with its attributes."""


def text_response(status: int, text: str) -> Response:
    """A refusal in one line."""
    return Response(f"{text}\n".encode(), TEXT, status)


Respond = Callable[[Request], Response]
