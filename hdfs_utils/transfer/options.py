"""Options and results of transfers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# Handed on at a time. A client's rate falls with very large calls, and many are in flight.
PIECE = 1 << 20
# A piece of a large file, of which few are in flight.
LARGE_PIECE = 4 << 20
# From this size on a file is sent in parts, each of which is kept over a break.
PART = 256 << 20
# Work that a break may cost. A transfer shorter than this is quicker repeated than resumed.
JOURNAL_S = 3.0
# Files that a native client writes at the same time. Each waits about 0.5 s for its completion,
# asleep (hdfs-native 0.14.7), this many wait; but few send, or the NameNode finds its DataNodes too
# busy (dfs.namenode.redundancy.considerLoad) and refuses: measured, with one DataNode, from 512 on.
SENDING = 64
WAITING = 256
# Bytes of the files that are being sent or completed.
MEMORY = 48 << 20

# Put into a complete tree (options.manifest): an empty mark, and a line for each file.
SUCCESS = "_SUCCESS"
MANIFEST = "_MANIFEST.jsonl"

Verify = Literal["auto", "full", "none"]


@dataclass(frozen=True, slots=True)
class TransferResult:
    """How many files and bytes were sent; an earlier run had sent ``resumed`` of these bytes."""

    files: int
    size: int
    resumed: int = 0
    verified: int = 0


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """One file or directory of a source, relative to its root; times in ms, sizes in bytes."""

    relative: str
    is_dir: bool
    size: int
    mtime_ms: int
    is_executable: bool


@dataclass(frozen=True, slots=True)
class Options:
    """How to transfer.

    Attributes:
        threads: files read, and pieces of a large file, at the same time.
        verify: ``full``: each file against the storage's own checksum. ``auto``: the same, but for
            small files read by the native client, which checks each 512 bytes as they arrive.
            ``none``: lengths only.
        overwrite: replace what is at the target.
        resume: keep what was sent before a break, and continue from what an earlier run kept.
        manifest: put ``_SUCCESS`` and ``_MANIFEST.jsonl`` into a tree.
        part: size of the parts of a large file, bytes; a multiple of the block size.
        streams: parts of one file written at the same time.
        replication: of new files; None for the site's.
        journal_s: seconds between two entries of what is finished, for a run that resumes.
    """

    threads: int = 8
    verify: Verify = "auto"
    overwrite: bool = False
    resume: bool = True
    manifest: bool = False
    part: int = PART
    streams: int = 2
    replication: int | None = None
    journal_s: float = JOURNAL_S
