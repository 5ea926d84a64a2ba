"""Requests to the agent of this container that need a reply: JSON lines over a Unix socket."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

from yarnam.train._job.job_context import setting

MAX_REPLY_BYTES = 1 << 20
"""A list of excluded files is at most 100 kB."""
_PAUSE_S = 0.2


class AgentUnavailable(Exception):
    """The agent is away, or cannot answer."""


def has_agent() -> bool:
    """Whether this process has an agent that takes requests."""
    return bool(setting("request_socket"))


def call_agent(request: dict[str, Any], limit_s: float) -> dict[str, Any]:
    """The agent's reply, within ``limit_s`` seconds. Raises AgentUnavailable."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            reply = _call(request, max(0.1, deadline - time.monotonic()))
        except (OSError, ValueError) as error:
            # An agent may be about to recover: a broken connection is tried again.
            if time.monotonic() + _PAUSE_S >= deadline:
                raise AgentUnavailable(f"the agent does not reply: {error}") from error
            time.sleep(_PAUSE_S)
            continue
        if "error" in reply:
            raise AgentUnavailable(str(reply["error"]))
        return reply


def _call(request: dict[str, Any], limit_s: float) -> dict[str, Any]:
    address = str(setting("request_socket"))
    path = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(limit_s)
        link.connect(path)
        link.sendall(json.dumps(request).encode() + b"\n")
        with link.makefile("rb") as replies:
            line = replies.readline(MAX_REPLY_BYTES)
    reply = json.loads(line)
    if not isinstance(reply, dict):
        raise ValueError("the reply is no JSON object")
    return reply
