"""Doors of programs, for tests that knock at them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest


def take_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next three calls cannot be accepted: no descriptor is free."""
    accept, left = socket.socket.accept, [OSError(24, "Too many open files")] * 3

    def failing(server: socket.socket) -> Any:
        if left:
            raise left.pop()
        return accept(server)

    monkeypatch.setattr(socket.socket, "accept", failing)


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(600):
        if is_so():
            return
        threading.Event().wait(0.05)
    raise AssertionError("not within 30 s")
