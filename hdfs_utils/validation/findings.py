"""The result of a check of a file: findings, and the verdict that follows from them."""

from __future__ import annotations

import importlib
import re
import resource
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

# A file with this many findings is broken beyond doubt; the rest would only fill the table.
MAX_FINDINGS = 100
"""Per kind."""
MAX_MESSAGE = 1000
"""Characters. What a library or a name in an archive contributes may be of any length."""


class FindingKind(Enum):
    """The subject of a finding.

    ``CONTENT``: the bytes are not what the format allows. ``STORAGE``: HDFS cannot give the bytes
    (no good replica); this says nothing about the file's content. ``NOT_CHECKED``: something was
    not looked at, and why. ``NOTE``: worth knowing, but no fault.
    """

    CONTENT = "content"
    STORAGE = "storage"
    NOT_CHECKED = "not checked"
    NOTE = "note"


class Reason(str, Enum):
    """Why. The values are what tables, JSON and Parquet show."""

    EMPTY = "empty"
    TRUNCATED = "truncated"
    BAD_MAGIC = "bad-magic"
    BAD_CRC = "bad-crc"
    BAD_STRUCTURE = "bad-structure"
    BAD_DATA = "bad-data"
    BAD_ENCODING = "bad-encoding"
    BAD_COLUMNS = "bad-columns"
    BAD_SCHEMA = "bad-schema"
    TRAILING_DATA = "trailing-data"
    USER_CHECK = "user-check"
    BLOCK_CORRUPT = "block-corrupt"
    BLOCK_MISSING = "block-missing"
    UNKNOWN_FORMAT = "unknown-format"
    NEEDS_LIBRARY = "needs-library"
    UNREADABLE = "unreadable"
    CHANGED = "changed-while-read"
    NOT_SUPPORTED = "not-supported"
    OVER_LIMIT = "over-limit"
    CHECK_FAILED = "check-failed"
    UNPROTECTED = "unprotected"
    OTHER_FORMAT = "other-format"


class Verdict(Enum):
    """The result for one file. ``NOT_CHECKED`` never counts as clean."""

    CLEAN = "clean"
    CORRUPT = "corrupt"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found in a file.

    Attributes:
        offset: in bytes from the beginning of the file, or of ``member``; ``None`` if unknown.
        record: number of the record, line, row group, page or image, from 0; ``None`` if unknown.
        member: which part of a container (a name in a tar, ``decompressed``...), if not the file.
    """

    kind: FindingKind
    reason: Reason
    message: str
    offset: int | None = None
    record: int | None = None
    member: str = ""

    @property
    def where(self) -> str:
        """`` (record 3, byte 120)``; empty means not known."""
        parts = [self.member] if self.member else []
        parts += [f"record {self.record}"] if self.record is not None else []
        parts += [f"byte {self.offset}"] if self.offset is not None else []
        return f" ({', '.join(parts)})" if parts else ""


@dataclass(frozen=True, slots=True)
class FileReport:
    """The outcome for one file.

    Attributes:
        length, mtime_ms: of the file that was looked at, in bytes and milliseconds.
        format: which check was made, as in ``tfrecord`` or ``gzip+jsonl``; empty means none.
        records: how many records (lines, images, members, batches) were read.
        duration_s: how long it took.
    """

    path: str
    length: int
    mtime_ms: int
    format: str
    findings: tuple[Finding, ...]
    records: int
    duration_s: float

    @property
    def verdict(self) -> Verdict:
        """Corrupt before not checked before clean."""
        kinds = {finding.kind for finding in self.findings}
        if kinds & {FindingKind.CONTENT, FindingKind.STORAGE}:
            return Verdict.CORRUPT
        return Verdict.NOT_CHECKED if FindingKind.NOT_CHECKED in kinds else Verdict.CLEAN

    @property
    def has_bad_content(self) -> bool:
        """Whether the bytes themselves are wrong: only this may be blacklisted."""
        return any(finding.kind is FindingKind.CONTENT for finding in self.findings)


class Stop(Exception):
    """Ends the check of a file; what was found so far stands."""


class Corrupt(Stop):
    """The content is wrong in a way after which the rest cannot be read."""

    def __init__(
        self, reason: Reason, message: str, offset: int | None = None, record: int | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.offset = offset
        self.record = record


class EnclosingCorrupt(Stop):
    """The stream that a check reads (gzip around it) is itself broken: not the check's finding.

    It passes through to whoever gave that stream, who raises ``cause`` as its own.
    """

    def __init__(self, cause: Corrupt) -> None:
        super().__init__(cause.message)
        self.cause = cause


class NeedsLibrary(Stop):
    """The format can be checked, but a library for it is not installed here."""

    def __init__(self, library: str) -> None:
        super().__init__(library)
        self.library = library


def needed(module: str, package: str = "") -> Any:
    """A library that is optional. Raises NeedsLibrary with the name of its package."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise NeedsLibrary(package or module) from None


def first_line(error: BaseException) -> str:
    """A library's message about bad data, at most 300 characters of it."""
    return str(error).strip().partition("\n")[0][:300] or type(error).__name__


class NotSupported(Stop):
    """A variant of the format that is not checked here."""


class OverLimit(Stop):
    """Its check needs more memory or time than it may have, which proves nothing of the content."""


_OF_MEMORY = re.compile(
    r"bad_alloc|\balloc(ation)? of |alloc of size|allocation[ _](error|failed)|unable to allocate|"
    r"memory allocation|out of memory",
    re.IGNORECASE,
)


def is_of_memory(text: str) -> bool:
    """Whether a library says by these words that it got no memory, and nothing of the content."""
    return _OF_MEMORY.search(text) is not None


def out_of_memory() -> OverLimit:
    """The meaning of a MemoryError where the kernel limits this process."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    amount = "there is" if limit == resource.RLIM_INFINITY else f"{limit >> 20} MiB"
    return OverLimit(f"its check needs more memory than {amount}")


class Findings:
    """Collects the findings of one file. For one thread."""

    def __init__(self) -> None:
        self.found: list[Finding] = []
        self.records = 0
        self._within: list[str] = []
        self._counts: Counter[FindingKind] = Counter()

    @contextmanager
    def within(self, member: str) -> Iterator[None]:
        """Findings in this block are about a part of the file."""
        self._within.append(member)
        try:
            yield
        finally:
            self._within.pop()

    @contextmanager
    def catching(self) -> Iterator[None]:
        """What stops the check in this block becomes a finding; the check continues after it."""
        try:
            yield
        except Corrupt as error:
            self.corrupt(error.reason, error.message, error.offset, error.record)
        except NeedsLibrary as error:
            self.not_checked(
                Reason.NEEDS_LIBRARY, f"needs {error.library}: pip install 'yarnam[validate]'"
            )
        except NotSupported as error:
            self.not_checked(Reason.NOT_SUPPORTED, str(error))
        except OverLimit as error:
            self.not_checked(Reason.OVER_LIMIT, str(error))
        except MemoryError:
            self.not_checked(Reason.OVER_LIMIT, str(out_of_memory()))

    def corrupt(
        self, reason: Reason, message: str, offset: int | None = None, record: int | None = None
    ) -> None:
        """The content is wrong here. Raises Stop when there are enough findings."""
        self.add(FindingKind.CONTENT, reason, message, offset, record)
        if self._counts[FindingKind.CONTENT] >= MAX_FINDINGS:
            self.add(FindingKind.NOTE, reason, f"stopped after {MAX_FINDINGS} findings")
            raise Stop

    def not_checked(self, reason: Reason, message: str) -> None:
        """Something was not looked at; said once, however many members it is true of."""
        self._once(FindingKind.NOT_CHECKED, reason, message)

    def note(self, reason: Reason, message: str) -> None:
        """Worth knowing; said once."""
        self._once(FindingKind.NOTE, reason, message)

    def _once(self, kind: FindingKind, reason: Reason, message: str) -> None:
        if self._counts[kind] < MAX_FINDINGS and not any(
            f.kind is kind and f.message == message[:MAX_MESSAGE] for f in self.found
        ):
            self.add(kind, reason, message)

    def add(
        self,
        kind: FindingKind,
        reason: Reason,
        message: str,
        offset: int | None = None,
        record: int | None = None,
    ) -> None:
        member = "!".join(self._within)[:MAX_MESSAGE]
        self.take(Finding(kind, reason, message[:MAX_MESSAGE], offset, record, member))

    def take(self, one: Finding) -> None:
        """A finding that another process has made."""
        self._counts[one.kind] += 1
        self.found.append(one)
