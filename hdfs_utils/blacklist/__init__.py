"""Which inputs are corrupt: known to all jobs, told by those who may say so.

An :class:`Entry` is one version of a file with the claims about it; :class:`FileBlacklist` keeps
them on HDFS; :func:`decide` says what a job does about them.
"""

from __future__ import annotations

from hdfs_utils.blacklist.claim_merge import (
    gather_entries,
    merge_blacklists,
    state_in_open_directory,
    state_of,
)
from hdfs_utils.blacklist.entries import (
    Blacklist,
    Claim,
    Entry,
    FileVersion,
    Key,
    State,
    decode,
    encode,
    version_of,
)
from hdfs_utils.blacklist.file_blacklist import Added, BlacklistView, FileBlacklist
from hdfs_utils.blacklist.policy import (
    CorruptPolicy,
    ExcludedFile,
    InputDecision,
    KnownEntries,
    OnCorrupt,
    decide,
    worst_known,
)
from hdfs_utils.blacklist.quarantine import Quarantined, quarantine, quarantined, restore

__all__ = [
    "Added", "Blacklist", "BlacklistView", "Claim", "CorruptPolicy", "Entry", "ExcludedFile",
    "FileBlacklist", "FileVersion", "InputDecision", "Key", "KnownEntries", "OnCorrupt",
    "Quarantined", "State", "decide", "decode", "encode", "gather_entries", "merge_blacklists",
    "quarantine", "quarantined", "restore", "state_in_open_directory", "state_of", "version_of",
    "worst_known",
]  # fmt: skip
