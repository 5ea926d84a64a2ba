"""The input blacklist as the rest of yarnam sees it, and the bell that tells running jobs of news.

Entries are kept on HDFS alone (``hdfs_utils.blacklist``), because HDFS knows who may write a data
set. A bell carries no entries, only "look there again": whoever rings it for nothing costs a look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from hdfs_utils.blacklist import Added, Entry, Looked


class Watch(Protocol):
    """A look that is repeated until it is stopped."""

    def stop(self) -> None:
        """No more calls begin after it has returned. Idempotent."""


class InputBlacklist(Protocol):
    """Raises YarnamError's Unavailable, NoPermission where HDFS does not answer or refuses."""

    def look(self, paths: Iterable[str], below: Iterable[str] = ()) -> Looked:
        """All that is known about what lies at or below ``paths``; places in the directories
        ``below`` are read too."""

    def add(self, entries: Iterable[Entry], at: str | None = None) -> tuple[Added, ...]:
        """Add entries where they count most, and ring the bell."""

    def watch(self, paths: Iterable[str], changed: Callable[[Looked], None]) -> Watch:
        """Call ``changed`` with what is known at once and after each change of it, from a thread
        of its own, one call at a time. What goes wrong meanwhile is tried again."""

    def close(self) -> None:
        """Stop all watches and let go of connections. Idempotent."""


class Bell(Protocol):
    """Tells others that there is something new in a place."""

    def ring(self, places: Iterable[str]) -> None:
        """Tell whoever listens. At most 10 s. Raises Unavailable: nobody was told."""

    def listen(self, places: Iterable[str], heard: Callable[[], None]) -> Watch:
        """Call ``heard``, which must not block, when one of the places was rung for, and whenever
        a ring may have been missed (the connection was away)."""

    def close(self) -> None:
        """Leave. Idempotent."""
