"""Outputs of many writers, committed atomically as one tree."""

from hdfs_utils.outputs.committer import (
    MANIFEST,
    SUCCESS,
    CommitProgress,
    CommitStopped,
    CommittedOutputs,
    OutputCommitter,
)

__all__ = [
    "MANIFEST", "SUCCESS", "CommitProgress", "CommitStopped", "CommittedOutputs",
    "OutputCommitter",
]  # fmt: skip
