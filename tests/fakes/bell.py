"""A bell between objects of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from yarnam.errors import Unavailable
from yarnam.ports.blacklist import Watch


class Tower:
    """What all bells of one ZooKeeper share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.listeners: list[_Listener] = []


class FakeBell:
    """``is_down``: rings raise Unavailable."""

    def __init__(self, tower: Tower) -> None:
        self.tower = tower
        self.is_down = False
        self._own: list[_Listener] = []

    def ring(self, places: Iterable[str]) -> None:
        if self.is_down:
            raise Unavailable("no bell")
        rung = set(places)
        with self.tower.lock:
            hearing = [one for one in self.tower.listeners if rung & one.places]
        for one in hearing:
            one.heard()

    def listen(self, places: Iterable[str], heard: Callable[[], None]) -> Watch:
        listener = _Listener(self.tower, set(places), heard)
        with self.tower.lock:
            self.tower.listeners.append(listener)
        self._own.append(listener)
        heard()
        return listener

    def close(self) -> None:
        for listener in self._own:
            listener.stop()


class _Listener:
    def __init__(self, tower: Tower, places: set[str], heard: Callable[[], None]) -> None:
        self.tower = tower
        self.places = places
        self.heard = heard

    def stop(self) -> None:
        with self.tower.lock:
            if self in self.tower.listeners:
                self.tower.listeners.remove(self)
