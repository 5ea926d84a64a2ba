"""How much of places that anybody may write to is read, and what of it. Pure.

Whoever fills such a place must not exhaust those who read it: every submit, and every
ApplicationMaster that runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hdfs_utils.blacklist.entries import Entry
from hdfs_utils.filesystem import FileStatus

# For all such places together in one read. Decoded, JSON takes up to 40 times its size; so of one
# file, and of all what is kept, it is some tens of MiB.
MAX_OPEN_BYTES = 8 << 20
MAX_OPEN_FILE_BYTES = 1 << 20
MAX_OPEN_CLAIMS = 10_000
# Each costs a reader some milliseconds.
MAX_OPEN_FILES = 1000
# Otherwise thousands of empty files would come before a small honest one.
_LEAST_WEIGHT = 1024


@dataclass(slots=True)
class ReadBudget:
    """What one read may still take in."""

    files: int = MAX_OPEN_FILES
    bytes: int = MAX_OPEN_BYTES
    claims: int = MAX_OPEN_CLAIMS

    def choose(self, files: Iterable[FileStatus]) -> list[FileStatus]:
        """The files to read, of each owner the newest.

        Who has left little comes before who has left much: a flood crowds out itself.
        """
        weights: dict[str, int] = {}
        weighed = []
        for status in sorted(files, key=lambda f: (-f.mtime_ms, f.path)):
            weight = weights.get(status.owner, 0) + max(status.length, _LEAST_WEIGHT)
            weights[status.owner] = weight
            weighed.append((weight, status.path, status))
        chosen = []
        for _, _, status in sorted(weighed, key=lambda one: one[:2]):
            if self.files and status.length <= min(self.bytes, MAX_OPEN_FILE_BYTES):
                self.files -= 1
                self.bytes -= status.length
                chosen.append(status)
        return chosen

    def keep(self, entries: Iterable[Entry]) -> list[Entry]:
        """As many as may be kept, the first of them."""
        kept = []
        for entry in entries:
            if len(entry.claims) > self.claims:
                break
            self.claims -= len(entry.claims)
            kept.append(entry)
        return kept
