"""Which inputs are corrupt: known to all jobs, told by those who may say so.

An :class:`Entry` is one version of a file with the claims about it; :class:`FileBlacklist` keeps
them on HDFS; :func:`decide` says what a job does about them.
"""

from __future__ import annotations

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
from hdfs_utils.blacklist.merge import gathered, merged, state_in_the_open, state_of
from hdfs_utils.blacklist.policy import (
    CorruptPolicy,
    Decision,
    Known,
    OnCorrupt,
    Skipped,
    decide,
    standing,
)
from hdfs_utils.blacklist.quarantine import Quarantined, quarantine, quarantined, restore
from hdfs_utils.blacklist.store import Added, FileBlacklist, Looked

__all__ = [
    "Added",
    "Blacklist",
    "Claim",
    "CorruptPolicy",
    "Decision",
    "Entry",
    "FileBlacklist",
    "FileVersion",
    "Key",
    "Known",
    "Looked",
    "OnCorrupt",
    "Quarantined",
    "Skipped",
    "State",
    "decide",
    "decode",
    "encode",
    "gathered",
    "merged",
    "quarantine",
    "quarantined",
    "restore",
    "standing",
    "state_in_the_open",
    "state_of",
    "version_of",
]
