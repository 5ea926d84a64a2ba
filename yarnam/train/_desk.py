"""Questions to the agent of this container that need an answer: JSON lines over a Unix socket."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any

VARIABLE = "YARNAM_INPUTS_SOCKET"
MAX_ANSWER_BYTES = 1 << 20
"""A list of files to leave out is at most 100 kB."""
_PAUSE_S = 0.2


class NoAnswer(Exception):
    """The agent is away, or says that it cannot tell."""


def is_there() -> bool:
    """Whether this process has an agent that answers questions."""
    return bool(os.environ.get(VARIABLE))


def ask(question: dict[str, Any], limit_s: float) -> dict[str, Any]:
    """The answer, within ``limit_s`` seconds. Raises NoAnswer."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            answer = _ask(question, max(0.1, deadline - time.monotonic()))
        except (OSError, ValueError) as error:
            # The agent may be about to go on: a connection that breaks is tried again.
            if time.monotonic() + _PAUSE_S >= deadline:
                raise NoAnswer(f"the agent does not answer: {error}") from error
            time.sleep(_PAUSE_S)
            continue
        if "error" in answer:
            raise NoAnswer(str(answer["error"]))
        return answer


def _ask(question: dict[str, Any], limit_s: float) -> dict[str, Any]:
    address = os.environ[VARIABLE]
    path = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(limit_s)
        link.connect(path)
        link.sendall(json.dumps(question).encode() + b"\n")
        with link.makefile("rb") as answers:
            line = answers.readline(MAX_ANSWER_BYTES)
    answer = json.loads(line)
    if not isinstance(answer, dict):
        raise ValueError("no JSON object")
    return answer
