"""Containers that Skein asks YARN for by itself, as soon as its Java half has registered.

A job whose gang fits with room to spare when it is submitted declares the instances of its first
rung with its services (``JobRecord.early``). They are granted, and their agents start, while the
ApplicationMaster's Python does. The gang machine asks as always; an ask that matches such a
container takes it over instead of asking YARN. What no ask has taken after a short while is given
back: the job waits for its turn, the cluster has changed, or it is a later AM attempt.

An early container's agent does not know its ask, nor where the AM listens: it waits for both under
its own name in Skein's key-value store (``wire.protocol.assignment_key``).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from yarnam.adapters.skein_am import ContainerKey
from yarnam.model.ids import AskId, NodeId
from yarnam.model.placement import EarlyAsk

UNCLAIMED_LIMIT_S = 4.0
"""From the broker's start: the first look at the cluster, the claim at the ticket office and the
asks that follow come within one second; a job that is not ready by then holds nothing."""


def assignment(ask: AskId, env: Mapping[str, str]) -> bytes:
    """What an early agent is told: its ask, and the variables that others start with."""
    return json.dumps({"ask": str(ask), "env": dict(env)}).encode()


@dataclass(frozen=True, slots=True)
class Seat:
    """An early container that nobody has taken over: where it is, or is expected to be."""

    service: str
    node: NodeId


class EarlyContainers:
    """Those that are still to be had. Thread-safe."""

    def __init__(
        self, early: Iterable[EarlyAsk] = (), *, limit_s: float = UNCLAIMED_LIMIT_S
    ) -> None:
        """``limit_s`` 0: they are not wanted at all (a later AM attempt's; Skein asks again)."""
        # Skein numbers the instances of a service from 0, in the order in which it makes them.
        self._left: dict[ContainerKey, NodeId] = {
            ContainerKey(ask.service, number): node
            for ask in early
            for number, node in enumerate(ask.nodes)
        }
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self.start()

    def start(self) -> None:
        """The limit counts from here."""
        self._until = time.monotonic() + self._limit_s

    def __bool__(self) -> bool:
        with self._lock:
            return bool(self._left)

    def __contains__(self, key: ContainerKey) -> bool:
        with self._lock:
            return key in self._left

    def claim(self, service: str) -> ContainerKey | None:
        """The first one of this service; it is the caller's from now on."""
        with self._lock:
            if time.monotonic() >= self._until:
                return None
            keys = sorted(key for key in self._left if key.service == service)
            if not keys:
                return None
            del self._left[keys[0]]
            return keys[0]

    def drop(self, *, only_if_due: bool = False) -> Sequence[ContainerKey]:
        """All that are left; the caller gives them back."""
        with self._lock:
            if only_if_due and time.monotonic() < self._until:
                return ()
            keys = sorted(self._left)
            self._left.clear()
            return keys

    def seats(self) -> Sequence[Seat]:
        with self._lock:
            return [Seat(key.service, node) for key, node in sorted(self._left.items())]
