"""The agent's side of ``yarnam.train._job.agent_client``: replies to requests on a Unix socket."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

from typing_extensions import Self


class Agent:
    """``reply(request)`` makes the reply; a ConnectionError breaks the connection."""

    def __init__(self, reply: Callable[[dict[str, Any]], Any]) -> None:
        self._reply = reply
        self.requests: list[dict[str, Any]] = []
        name = f"yarnam-test-{os.urandom(8).hex()}"
        self.address = f"@{name}"
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(f"\0{name}")
        self._listening.listen(8)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._listening.accept()
            except OSError:
                return
            with link, link.makefile("rb") as lines:
                request = json.loads(lines.readline())
                self.requests.append(request)
                try:
                    reply = self._reply(request)
                except ConnectionError:
                    continue
                link.sendall(json.dumps(reply).encode() + b"\n")
