"""The ResourceManager's list of yarnam's living applications: what confirms a ticket."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from yarnam.adapters.yarn.pending_applications import LIVING
from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.core.model.tickets import LiveApplication
from yarnam.errors import YarnamError
from yarnam.ports.ticket_queue import Confirmation
from yarnam.wire.protocol import APPLICATION_TAG

log = logging.getLogger("yarnam.yarn")

FRESH_S = 30.0
"""How long a list is used without asking again, if it has all names that are looked for. A long
list is used for longer (``LENGTH_FOR_FRESH_S``)."""

STALE_S = 300.0
"""How long the last one is used while the ResourceManager does not answer: longer than its
fail-over takes."""

ASKS_AT_ONCE, ASK_EVERY_S = 5, 10.0
"""A new name is asked for immediately, since a job that has just come may be acquiring. But whoever
floods the queue with new names makes each waiting job ask no more than once in 10 s. Ours."""

LENGTH_FOR_FRESH_S = 100
"""A list of this many applications, some 10 kB packed, may be asked for every 30 s by each waiting
job. With ten times as many applications there are about ten times as many who ask, so each asks ten
times less often, within ``STALE_S``. A claim still asks immediately where it finds a new name."""

RETRY_S = 10.0
"""Pause after a call that failed."""

MOST = 10_000
"""Applications that are listed: the Fair Scheduler's documents speak of thousands."""

TIMEOUT_S = 4.0


class Applications(Protocol):
    """The part of ``ResourceManager`` that this needs."""

    def applications(
        self, *, tags: Iterable[str], states: Iterable[str], most: int, limit_s: float
    ) -> Sequence[YarnApplication]: ...

    def newest_attempt(self, app_id: str, *, limit_s: float) -> int: ...


class ApplicationList:
    """A ``ports.ticket_queue.LiveApplications``: one list for all tickets, kept for a while.
    Thread-safe."""

    def __init__(self, rm: Applications, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._rm = rm
        self._now_s = now_s
        self._lock = threading.Lock()
        self._known: Mapping[str, LiveApplication] | None = None
        self._listed_at_s = 0.0
        self._absent: frozenset[str] = frozenset()
        self._trouble = ""
        self._retry_at_s = float("-inf")
        self._asks_left = float(ASKS_AT_ONCE)
        self._counted_at_s = now_s()
        self._attempts: dict[str, tuple[float, int]] = {}

    def confirm(self, names: Collection[str]) -> Confirmation:
        """See the port."""
        with self._lock:
            now_s = self._now_s()
            if names and self._must_ask(names, now_s):
                self._ask(names, now_s)
            if self._known is not None and now_s - self._listed_at_s < STALE_S:
                return Confirmation(self._known)
            return Confirmation(None, self._trouble) if names else Confirmation({})

    def newest_attempt(self, application: str) -> int:
        """See the port. A forged name is there to be seen at every look: asked for once in 10 s."""
        with self._lock:
            now_s = self._now_s()
            at_s, attempt = self._attempts.get(application, (float("-inf"), 0))
            if now_s - at_s >= RETRY_S:
                try:
                    attempt = self._rm.newest_attempt(application, limit_s=TIMEOUT_S)
                except YarnamError as error:
                    log.info("the AM attempts of %s are not known: %s", application, error.message)
                    attempt = 0
                self._attempts = {application: (now_s, attempt)}
            return attempt

    def _must_ask(self, names: Collection[str], now_s: float) -> bool:
        if now_s < self._retry_at_s:
            return False
        longer = self._times_longer()
        if self._known is None or now_s - self._listed_at_s >= FRESH_S * longer:
            return True
        if all(name in self._known or name in self._absent for name in names):
            return False
        passed_s, self._counted_at_s = now_s - self._counted_at_s, now_s
        self._asks_left = min(
            float(ASKS_AT_ONCE), self._asks_left + passed_s / (ASK_EVERY_S * longer)
        )
        if self._asks_left < 1.0:
            return False
        self._asks_left -= 1.0
        return True

    def _times_longer(self) -> float:
        length = len(self._known) if self._known is not None else 0
        return min(STALE_S / FRESH_S / 2, max(1.0, length / LENGTH_FOR_FRESH_S))

    def _ask(self, names: Collection[str], now_s: float) -> None:
        try:
            found = self._rm.applications(
                tags=[APPLICATION_TAG], states=LIVING, most=MOST, limit_s=TIMEOUT_S
            )
        except YarnamError as error:
            self._has_failed(error.message, now_s)
            return
        if len(found) >= MOST:
            self._has_failed(f"it lists {MOST} applications or more", now_s)
            return
        self._known = {app.application: _live(app) for app in found}
        self._listed_at_s, self._trouble = now_s, ""
        self._absent = frozenset(name for name in names if name not in self._known)

    def _has_failed(self, why: str, now_s: float) -> None:
        self._retry_at_s = now_s + RETRY_S
        trouble = f"the ResourceManager does not confirm the tickets of others: {why}"
        if trouble != self._trouble:
            log.warning("%s", trouble)
        self._trouble = trouble


def _live(app: YarnApplication) -> LiveApplication:
    return LiveApplication(
        application=app.application,
        user=app.user,
        queue=app.queue,
        started_at_s=app.started_at_s,
        containers=app.running_containers,
        gpu_s=app.gpu_s,
    )
