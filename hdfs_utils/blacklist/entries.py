"""The entries of the input blacklist: versions of files and the claims about them. Values.

Times are seconds since 1970 by the claimant's clock.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum

from hdfs_utils.errors import MalformedData
from hdfs_utils.filesystem import FileStatus
from hdfs_utils.protocols.untrusted import Record, decode_record, shown

FORMAT_VERSION = 1

DAY_S = 86400.0
# A suspicion that nobody has proved in two weeks was about something else.
SUSPECTED_FOR_S = 14 * DAY_S
# A proof holds for the version of the file it was made of, which seldom stays for half a year.
PROVED_FOR_S = 180 * DAY_S

# No honest file of entries is larger; a reader has to hold it.
MAX_FILE_BYTES = 16 << 20
# Characters: of a name or a reason, and of what was found.
MAX_WORD = 256
MAX_EVIDENCE = 2000
# HDFS's own limit is 8000.
MAX_PATH = 8192
# The last day that a date can be of.
MAX_TIME_S = 253_402_214_400.0
_PATH = re.compile(r"/[^\0]*")


class State(str, Enum):
    """The state of a file that a claim asserts."""

    SUSPECTED = "suspected"
    PROVED = "proved"
    CLEARED = "cleared"


@dataclass(frozen=True, slots=True, order=True)
class FileVersion:
    """Which content of a path is meant: any of these differs when it was written again.

    Attributes:
        length: bytes.
        mtime_ms: time of modification, milliseconds since the epoch.
        checksum: ``algorithm:value`` by the storage; empty means not known.
    """

    length: int
    mtime_ms: int
    checksum: str = ""

    def is_that_of(self, other: FileVersion) -> bool:
        """Whether both are the same content, as far as both know."""
        same = (self.length, self.mtime_ms) == (other.length, other.mtime_ms)
        known = bool(self.checksum and other.checksum)
        return same and (not known or self.checksum == other.checksum)


def version_of(status: FileStatus) -> FileVersion:
    """The version of a listed file; its checksum is unknown."""
    return FileVersion(status.length, status.mtime_ms)


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """The subject of an entry. ``first`` and ``last``: records, from 0; -1 means the whole file."""

    path: str
    version: FileVersion
    first: int = -1
    last: int = -1


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """One user's claim about a file.

    Attributes:
        by: the user.
        job: the application that found it; empty means by hand.
        reason: one of the findings' reasons, as in ``bad-crc``.
        evidence: what was found, for a human.
        first_s: when it was found first.
        last_s: when it was found last.
        expires_s: when it stops counting; 0 means never.
    """

    state: State
    by: str
    job: str
    reason: str
    evidence: str
    first_s: float
    last_s: float
    expires_s: float = 0.0


def new_claim(
    state: State, by: str, reason: str, evidence: str, *, job: str = "", now_s: float | None = None
) -> Claim:
    """A claim made now, with the expiry of its state. What is too long for a file is cut."""
    at_s = time.time() if now_s is None else now_s
    lasts_s = {State.SUSPECTED: SUSPECTED_FOR_S, State.PROVED: PROVED_FOR_S}.get(state)
    expires_s = 0.0 if lasts_s is None else at_s + lasts_s
    words = reason[:MAX_WORD], evidence[:MAX_EVIDENCE]
    return Claim(state, by, job, *words, at_s, at_s, expires_s)


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of a file with all claims about it."""

    key: Key
    claims: frozenset[Claim]

    @property
    def path(self) -> str:
        return self.key.path


@dataclass(frozen=True, slots=True)
class Blacklist:
    """Entries by key; made by :func:`hdfs_utils.blacklist.claim_merge.merge_blacklists`."""

    entries: Mapping[Key, Entry] = field(default_factory=dict)

    def of(self, path: str) -> tuple[Entry, ...]:
        """All entries of a path, whatever version."""
        return tuple(e for k, e in sorted(self.entries.items()) if k.path == path)


def encode(entries: Iterable[Entry]) -> bytes:
    """As JSON; the same entries give the same bytes."""
    plain = [
        {
            "path": entry.key.path,
            "length": entry.key.version.length,
            "mtime_ms": entry.key.version.mtime_ms,
            "checksum": entry.key.version.checksum,
            "records": [entry.key.first, entry.key.last],
            "claims": [asdict(claim) for claim in sorted(entry.claims)],
        }
        for entry in sorted(entries, key=lambda e: e.key)
    ]
    document = {"yarnam-blacklist": FORMAT_VERSION, "entries": plain}
    return json.dumps(document, ensure_ascii=False, sort_keys=True).encode()


def decode(data: bytes, is_wanted: Callable[[str], bool] | None = None) -> tuple[Entry, ...]:
    """Back from :func:`encode`: the entries about wanted paths; by default all.

    Raises:
        MalformedData: anything else.
    """
    document = decode_record(data, max_bytes=MAX_FILE_BYTES)
    version = document.integer("yarnam-blacklist")
    if version != FORMAT_VERSION:
        raise MalformedData(f"a blacklist of version {version}")
    found = []
    for plain in document.records("entries", max_count=MAX_FILE_BYTES):
        path = plain.text("path", max_length=MAX_PATH, pattern=_PATH)
        if is_wanted is None or is_wanted(path):
            found.append(_entry(path, plain))
    return tuple(found)


def _entry(path: str, plain: Record) -> Entry:
    records = plain.integers("records", max_count=2, least=-1)
    if len(records) != 2:
        raise MalformedData("the records of an entry are not two numbers")
    version = FileVersion(
        plain.integer("length"),
        plain.integer("mtime_ms"),
        plain.text("checksum", max_length=MAX_WORD),
    )
    claims = frozenset(map(_claim, plain.records("claims", max_count=MAX_FILE_BYTES)))
    if not claims:
        raise MalformedData("an entry without a claim")
    return Entry(Key(path, version, *records), claims)


def _claim(plain: Record) -> Claim:
    try:
        state = State(plain.text("state", max_length=MAX_WORD))
    except ValueError:
        raise MalformedData(f"{shown(plain.plain['state'])} is not a state") from None
    return Claim(
        state,
        plain.text("by", max_length=MAX_WORD),
        plain.text("job", max_length=MAX_WORD),
        plain.text("reason", max_length=MAX_WORD),
        plain.text("evidence", max_length=MAX_EVIDENCE),
        plain.number("first_s", least=0, most=MAX_TIME_S),
        plain.number("last_s", least=0, most=MAX_TIME_S),
        plain.number("expires_s", least=0, most=MAX_TIME_S),
    )


def by_owner(entries: Iterable[Entry], owner: str) -> tuple[Entry, ...]:
    """The entries as claimed by ``owner``, the file's owner on HDFS, whoever the claims name."""
    return tuple(
        Entry(entry.key, frozenset(replace(claim, by=owner) for claim in entry.claims))
        for entry in entries
    )
