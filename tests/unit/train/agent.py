"""The agent's side of ``yarnam.train._desk``: answers questions on a Unix socket."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

from typing_extensions import Self


class Agent:
    """``answer`` gives the answer to a question; an exception breaks the connection."""

    def __init__(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        self._answer = answer
        self.questions: list[dict[str, Any]] = []
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
                question = json.loads(lines.readline())
                self.questions.append(question)
                try:
                    answer = self._answer(question)
                except ConnectionError:
                    continue
                link.sendall(json.dumps(answer).encode() + b"\n")
