"""The state of many jobs from one request: a list of the user's applications for all callers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from yarnam.adapters.yarn.pending_applications import LIVING
from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.errors import Unavailable
from yarnam.wire.protocol import APPLICATION_TAG

FRESH_S = 2.0
"""How long one list counts as the present. A pipeline that follows hundreds of jobs does not
notice 2 s; the ResourceManager does notice hundreds of requests a second."""

FEW = 4
"""Up to this many jobs are asked for one by one, each when it is due: a list of all of the user's
jobs costs more than that, and who follows one job wants to see its start immediately."""

FOLLOWED_S = 30.0
"""A job counts as followed for this long after it was asked for; a question to an AM takes 10 s."""


class Applications(Protocol):
    """The part of ``ResourceManager`` that this needs."""

    def application(self, app_id: str) -> YarnApplication | None: ...

    def applications(
        self, *, user: str, tags: Iterable[str], states: Iterable[str]
    ) -> Sequence[YarnApplication]: ...


class ApplicationCache:
    """YARN's records of applications, at most ``FRESH_S`` old.

    While more than ``FEW`` jobs are followed, one list of ``user``'s living applications answers
    for all of them. What is not in it (an application that has ended, or another user's) is asked
    for on its own, and known for as long. Thread-safe: those who ask at the same time wait for one
    reply."""

    def __init__(
        self, rm: Applications, user: str, *, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._rm = rm
        self._user = user
        self._now_s = now_s
        self._lock = threading.Lock()
        self._followed: dict[str, float] = {}
        self._forget_at_s = float("-inf")
        self._listed_at_s = float("-inf")
        self._listed: dict[str, YarnApplication] = {}
        self._trouble: Unavailable | None = None
        self._single: dict[str, tuple[float, YarnApplication | None]] = {}

    def application(self, app_id: str) -> YarnApplication | None:
        """As ``ResourceManager.application``. Raises Unavailable, for ``FRESH_S`` without asking
        again."""
        with self._lock:
            now_s = self._now_s()
            self._followed[app_id] = now_s
            if len(self._followed) > FEW and now_s >= self._forget_at_s:
                self._forget(now_s)
            if len(self._followed) > FEW:
                return self._from_list(app_id, now_s)
        return self._rm.application(app_id)

    def _from_list(self, app_id: str, now_s: float) -> YarnApplication | None:
        if now_s - self._listed_at_s >= FRESH_S:
            self._list()
        if self._trouble is not None:
            raise Unavailable(self._trouble.message, hint=self._trouble.hint)
        if (listed := self._listed.get(app_id)) is not None:
            return listed
        asked_at_s, found = self._single.get(app_id, (float("-inf"), None))
        if now_s - asked_at_s >= FRESH_S:
            found = self._rm.application(app_id)
            self._single[app_id] = (self._now_s(), found)
        return found

    def _list(self) -> None:
        try:
            found = self._rm.applications(user=self._user, tags=[APPLICATION_TAG], states=LIVING)
        except Unavailable as error:
            self._trouble = error
        else:
            self._listed, self._trouble = {app.application: app for app in found}, None
        # From the reply on: a slow ResourceManager gets more time, not less.
        self._listed_at_s = self._now_s()

    def _forget(self, now_s: float) -> None:
        since_s, self._forget_at_s = now_s - FOLLOWED_S, now_s + FRESH_S
        self._followed = {name: at_s for name, at_s in self._followed.items() if at_s >= since_s}
        self._single = {
            name: known for name, known in self._single.items() if name in self._followed
        }
