"""The input blacklist, and how running jobs learn that it has changed.

Entries are kept on HDFS alone (``hdfs_utils.blacklist``), because HDFS knows who may write a data
set. A notification carries no entries, only "read it again": a needless one costs a read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from hdfs_utils.blacklist import Added, BlacklistView, Entry


class Subscription(Protocol):
    """Calls back until it is stopped."""

    def stop(self) -> None:
        """No more calls begin after it has returned. Idempotent."""


class InputBlacklist(Protocol):
    """Raises Unavailable where HDFS does not answer, NoPermission where it refuses, and the other
    errors of ``adapters.hdfs.error_map``."""

    def lookup(self, paths: Iterable[str], below: Iterable[str] = ()) -> BlacklistView:
        """All entries about what lies at or below ``paths``; locations in the directories
        ``below`` are read too."""

    def add(self, entries: Iterable[Entry], at: str | None = None) -> tuple[Added, ...]:
        """Add entries where they count most, and notify running jobs."""

    def watch(self, paths: Iterable[str], changed: Callable[[BlacklistView], None]) -> Subscription:
        """Call ``changed`` with the current view immediately and after each change, from a thread
        of its own, one call at a time. Failures are retried."""

    def close(self) -> None:
        """Stop all watches and close connections. Idempotent."""


class BlacklistNotifier(Protocol):
    """Notifies others that the entries at a location have changed."""

    def notify(self, places: Iterable[str]) -> None:
        """Notify all subscribers. At most 10 s. Raises Unavailable if none was notified."""

    def subscribe(self, places: Iterable[str], on_change: Callable[[], None]) -> Subscription:
        """Call ``on_change``, which must not block, after each notification for one of the
        places, and whenever one may have been missed (the connection was lost)."""

    def close(self) -> None:
        """Disconnect. Idempotent."""
