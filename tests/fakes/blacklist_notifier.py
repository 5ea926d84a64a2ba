"""A notifier between objects of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from yarnam.errors import Unavailable
from yarnam.ports.input_blacklist import Subscription


class FakeChannel:
    """What all bells of one ZooKeeper share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.listeners: list[_Subscription] = []


class FakeBlacklistNotifier:
    """``is_down``: rings raise Unavailable."""

    def __init__(self, tower: FakeChannel) -> None:
        self.tower = tower
        self.is_down = False
        self._own: list[_Subscription] = []

    def notify(self, places: Iterable[str]) -> None:
        if self.is_down:
            raise Unavailable("no notifier")
        rung = set(places)
        with self.tower.lock:
            hearing = [one for one in self.tower.listeners if rung & one.places]
        for one in hearing:
            one.on_change()

    def subscribe(self, places: Iterable[str], on_change: Callable[[], None]) -> Subscription:
        listener = _Subscription(self.tower, set(places), on_change)
        with self.tower.lock:
            self.tower.listeners.append(listener)
        self._own.append(listener)
        on_change()
        return listener

    def close(self) -> None:
        for listener in self._own:
            listener.stop()


class _Subscription:
    def __init__(self, tower: FakeChannel, places: set[str], on_change: Callable[[], None]) -> None:
        self.tower = tower
        self.places = places
        self.on_change = on_change

    def stop(self) -> None:
        with self.tower.lock:
            if self in self.tower.listeners:
                self.tower.listeners.remove(self)
