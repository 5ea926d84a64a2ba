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

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hdfs_utils.validation.engine import (
        CheckOptions,
        check_file,
        choose_sample,
        data_files,
        verify,
    )
    from hdfs_utils.validation.findings import (
        Corrupt,
        FileReport,
        Finding,
        FindingKind,
        Findings,
        Reason,
        Verdict,
    )
    from hdfs_utils.validation.input_format import TextRules
    from hdfs_utils.validation.registry import FORMATS, Checks
    from hdfs_utils.validation.sources import Source
    from hdfs_utils.validation.user_checks import Problem

__all__ = [
    "FORMATS", "CheckOptions", "Checks", "Corrupt", "FileReport", "Finding", "FindingKind",
    "Findings", "Problem", "Reason", "Source", "TextRules", "Verdict", "check_file",
    "choose_sample", "data_files", "verify",
]  # fmt: skip

# The light ones first: each name is found where it is defined.
_MODULES = ("findings", "sources", "input_format", "user_checks", "registry", "engine")


def __getattr__(name: str) -> object:
    # Lazily: who only has a file checked in a subprocess must not load what checks it.
    for module in _MODULES if name in __all__ else ():
        if hasattr(home := importlib.import_module(f"{__name__}.{module}"), name):
            return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
