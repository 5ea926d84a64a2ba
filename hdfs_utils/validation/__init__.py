"""Finds corrupt inputs: is a file what its format says, byte for byte as far as it can be told?

    >>> import hdfs_utils
    >>> from hdfs_utils import validation
    >>> fs = hdfs_utils.connect("file:///")
    >>> list(validation.verify(fs, []))
    []

Start with :func:`verify` over :func:`data_files`. The libraries for the formats are optional
(``pip install 'yarnam[validate]'``); a file that cannot be checked without one is "not checked",
never clean.
"""

from __future__ import annotations

from hdfs_utils.validation.engine import Options, check_file, choose_sample, data_files, verify
from hdfs_utils.validation.findings import (
    Corrupt,
    FileReport,
    Finding,
    FindingKind,
    Findings,
    Reason,
    Verdict,
)
from hdfs_utils.validation.formats import FORMATS, Checks
from hdfs_utils.validation.sources import Source
from hdfs_utils.validation.texts import TextRules
from hdfs_utils.validation.user_checks import Problem

__all__ = [
    "FORMATS",
    "Checks",
    "Corrupt",
    "FileReport",
    "Finding",
    "FindingKind",
    "Findings",
    "Options",
    "Problem",
    "Reason",
    "Source",
    "TextRules",
    "Verdict",
    "check_file",
    "choose_sample",
    "data_files",
    "verify",
]
