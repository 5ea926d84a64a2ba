"""Warnings of foreign values that were of no use, counted: a poll that meets one again every second
must not fill the log, and one that lies there for days must not be forgotten."""

from __future__ import annotations

import logging
import threading

MAX_PATHS = 1000
"""Remembered one by one; the rest counts as one. Who may write one may write many."""

_REST = "other paths"
_MAX_OWNER = 64


class Rejections:
    """Warns of each path at its 1st, 10th, 100th... time. Thread-safe.

    Args:
        log: where the warnings go.
        consequence: what the caller does without the value, such as ``is passed over``.
        advice: what to do about it, as a sentence.
    """

    def __init__(self, log: logging.Logger, consequence: str, advice: str) -> None:
        self._log = log
        self._consequence = consequence
        self._advice = advice
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}

    def add(self, path: str, error: Exception, *, owner: str = "") -> None:
        """A value was rejected.

        Args:
            path: of a file, of a node of ZooKeeper, or an address.
            error: why.
            owner: who has written it, as far as the storage knows.
        """
        with self._lock:
            known = path if path in self._counts or len(self._counts) < MAX_PATHS else _REST
            times = self._counts[known] = self._counts.get(known, 0) + 1
        if not _is_power_of_ten(times):
            return
        whose = f" of {_printable(owner[:_MAX_OWNER])}" if owner else ""
        again = f" ({times} times now)" if times > 1 else ""
        self._log.warning(
            "%s%s %s%s: %s. %s",
            _printable(path), whose, self._consequence, again, _printable(str(error)), self._advice,
        )  # fmt: skip

    @property
    def total(self) -> int:
        """How many were rejected."""
        with self._lock:
            return sum(self._counts.values())


def _is_power_of_ten(number: int) -> bool:
    return str(number).rstrip("0") == "1"


def _printable(text: str) -> str:
    # A name is as foreign as what lies below it.
    return text if text.isprintable() else ascii(text)
