"""The histories of all users, read within a fixed budget.

A user's directory may hold anything. What one user puts there takes a bounded part of the reader's
memory, does not crowd out the rows of others, and counts only for that user's own jobs. A reader
that asks again gets what has not changed from memory: that costs one call to the NameNode for each
user who has a history, and one in ten minutes for each other user.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from yarnam.adapters.hdfs.history_files import HistoryContents
from yarnam.adapters.hdfs.history_store import HistoryListing, HistoryStore
from yarnam.core.accounting.history_budget import (
    MOST_BYTES,
    MOST_INDEX_BYTES,
    MOST_RECORD_BYTES,
    MOST_RECORDS,
    fair_shares,
)
from yarnam.core.accounting.job_summary import HistoryFilter, JobSummary
from yarnam.errors import NoPermission, Unavailable, YarnamError

READERS = 8
"""Users whose directories are read at a time."""

KEPT_S = 600.0
"""How long a user's rows are used again while nothing shows that they have changed."""

PAUSE = 10
"""What took a second to read is read again after ten at the earliest, changed or not."""


@dataclass(frozen=True, slots=True)
class ListingOfAll:
    """Rows in no order. ``hidden`` users keep theirs to themselves. Of ``cut`` users not all was
    read, but the newest."""

    rows: tuple[JobSummary, ...]
    unreadable: int
    hidden: tuple[str, ...]
    cut: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _History:
    """One user's history. ``stamp`` is ``None`` if there is nothing that can be read, ``listing``
    while it has not been read."""

    looked_at_s: float
    stamp: tuple[int, int] | None
    is_hidden: bool = False
    is_cut: bool = False
    contents: HistoryContents = HistoryContents((), ())
    share: int = 0
    took_s: float = 0.0
    listing: HistoryListing | None = None


class HistoriesOfAll:
    """Reads the histories of all users. Not thread-safe."""

    def __init__(
        self,
        store_of: Callable[[str], HistoryStore],
        now_s: Callable[[], float] = time.monotonic,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._store_of = store_of
        self._now_s = now_s
        self._most_bytes = most_bytes
        self._kept: dict[str, _History] = {}

    def listing(
        self, users: Sequence[str], own: str, chosen: HistoryFilter | None = None
    ) -> ListingOfAll:
        """The rows of these users that pass. ``own`` is the reader, whose history has no limit.
        Raises Unavailable."""
        with ThreadPoolExecutor(READERS, thread_name_prefix="histories") as pool:
            found = dict(
                zip(users, pool.map(lambda u: self._found(u, u == own), users), strict=True)
            )
            sizes = {user: one.contents.size for user, one in found.items()}
            shares = fair_shares(
                {user: size for user, size in sizes.items() if user != own}, self._most_bytes
            )
            shares[own] = sizes.get(own, 0)
            read = pool.map(lambda u: self._read(u, found[u], shares[u]), users)
            self._kept = dict(zip(users, read, strict=True))
        rows: list[JobSummary] = []
        unreadable = 0
        for user, one in self._kept.items():
            if one.listing is not None:
                unreadable += one.listing.unreadable
                # A user's own directory is not evidence of other users' jobs.
                own_rows = (row for row in one.listing.rows if row.user == user)
                rows += (row for row in own_rows if chosen is None or chosen.has(row))
        return ListingOfAll(
            tuple(rows),
            unreadable,
            tuple(user for user, one in self._kept.items() if one.is_hidden),
            tuple(user for user, one in self._kept.items() if one.is_cut),
        )

    def _found(self, user: str, is_own: bool) -> _History:
        """The user's files, or the rows that are known of them if they have not changed."""
        now_s = self._now_s()
        kept = self._kept.get(user)
        if kept is not None and now_s - kept.looked_at_s >= KEPT_S:
            kept = None
        if kept is not None and kept.stamp is None:
            return kept
        if kept is not None and now_s - kept.looked_at_s < PAUSE * kept.took_s:
            return kept
        store = self._store_of(user)
        try:
            stamp = store.stamp()
            if kept is not None and kept.stamp == stamp:
                return kept
            contents = store.contents() if stamp is not None else HistoryContents((), ())
        except NoPermission:
            return _History(now_s, None, is_hidden=True)
        except Unavailable:
            raise
        except YarnamError:  # A file in place of a directory, say.
            return _History(now_s, None, listing=HistoryListing((), unreadable=1))
        believed = (
            contents
            if is_own
            else contents.limited(MOST_RECORDS, MOST_RECORD_BYTES, MOST_INDEX_BYTES)
        )
        return _History(now_s, stamp, is_cut=believed != contents, contents=believed)

    def _read(self, user: str, found: _History, share: int) -> _History:
        if found.stamp is None or (found.listing is not None and found.share == share):
            return found
        store = self._store_of(user)
        began_s = self._now_s()
        chosen = found.contents.within(share)
        is_cut = found.is_cut or chosen != found.contents
        try:
            listing = store.rows(chosen)
            if listing.moved:  # Somebody puts the records together just now.
                listing = store.rows(store.contents().within(share))
        except NoPermission:
            return replace(found, stamp=None, is_hidden=True)
        took_s = self._now_s() - began_s
        return replace(found, is_cut=is_cut, share=share, took_s=took_s, listing=listing)
